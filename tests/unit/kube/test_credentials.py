"""Tokens are read again before they end."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.api.times import format_time
from fencepost.base.clock import Timer
from fencepost.kube.access import Access, ExecPlugin
from fencepost.kube.credentials import TOKEN_FILE_READ_PERIOD_S, Bearer
from fencepost.kube.errors import ForbiddenError


class HandClock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.time_s = 1_800_000_000.0

    def now_s(self) -> float:
        return self.time_s

    def steady_s(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.time_s += seconds

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer:
        raise AssertionError("nothing here asks for it")


def plugin(*lines: str) -> ExecPlugin:
    return ExecPlugin((sys.executable, "-c", "\n".join(lines)), {"WORD": "hello"}, "client.authentication.k8s.io/v1")


async def test_a_token_file_is_read_again_once_a_minute(tmp_path: Path) -> None:
    clock, file = HandClock(), tmp_path / "token"
    file.write_text("first\n")
    bearer = Bearer(Access("", token_file=file), clock)
    assert await bearer.token() == "first"
    file.write_text("second")
    clock.time_s += TOKEN_FILE_READ_PERIOD_S - 1
    assert await bearer.token() == "first"
    clock.time_s += 1
    assert await bearer.token() == "second"


async def test_a_token_file_that_is_gone_is_a_refusal_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ForbiddenError, match="token cannot be read") as caught:
        await Bearer(Access("", token_file=tmp_path / "token"), HandClock()).token()
    assert caught.value.status == 401


async def test_a_plugin_is_asked_again_shortly_before_its_token_ends(tmp_path: Path) -> None:
    clock, count = HandClock(), tmp_path / "count"
    ask = plugin(
        "import json, os, pathlib",
        f"count = pathlib.Path({str(count)!r})",
        "count.write_text((count.read_text() if count.exists() else '') + 'x')",
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'",
        "token = os.environ['WORD'] + str(len(count.read_text()))",
        f"status = dict(token=token, expirationTimestamp='{format_time(clock.now_s() + 600)}')",
        "print(json.dumps(dict(kind='ExecCredential', status=status)))",
    )
    bearer = Bearer(Access("", exec=ask), clock)
    assert [await bearer.token(), await bearer.token()] == ["hello1", "hello1"]
    clock.time_s += 580
    assert await bearer.token() == "hello2"


@pytest.mark.parametrize("line", ["raise SystemExit(3)", "print('{}')", "print('no json')"])
async def test_a_plugin_that_gives_no_token_is_a_refusal_that_names_it(line: str) -> None:
    with pytest.raises(ForbiddenError, match=r"credential plugin .* gave no token"):
        await Bearer(Access("", exec=plugin(line)), HandClock()).token()
