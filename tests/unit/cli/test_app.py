"""The command line as a whole: which commands there are, and that none pays for another."""

import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cli import app
from tests.unit.cli.files import dag, write

HEAVY = ("aiohttp", "kopf", "kubernetes", "pykube", "rich", "prometheus_client", "asyncio")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app.main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert app.COMMANDS.keys() >= {"check", "run", "next", "operator", "worker"}
    assert all(f"    {name} " in text for name in app.COMMANDS)


@pytest.mark.parametrize("words", [[], ["fly"], ["check"], ["run", "a.yaml", "--slots", "many"]], ids=" ".join)
def test_a_command_line_that_makes_no_sense_exits_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app.main(words)
    assert ended.value.code == 2
    assert "usage: fencepost" in capsys.readouterr().err


def test_as_a_plugin_of_kubectl_it_is_called_kubectl_fencepost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-fencepost", "--help"])
    with pytest.raises(SystemExit):
        app.main()
    assert "usage: kubectl fencepost" in capsys.readouterr().out


def test_next_is_reached(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["next", "--cron", "0 3 * * *", "--from", "2026-11-30T13:00:00Z", "--count", "1"]
    assert app.main(words) == 0
    assert capsys.readouterr().out == "2026-12-01T03:00:00+00:00\n"


@pytest.mark.parametrize("name", ["operator", "worker"])
def test_the_processes_are_reached(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app.main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: fencepost {name}" in capsys.readouterr().out


def test_check_imports_nothing_that_only_other_commands_need(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from fencepost.cli.app import main\n"
        "code = main(['check', sys.argv[1]])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
        "sys.exit(code)"
    )
    call = [sys.executable, "-c", script, write(tmp_path / "dag.yaml", dag("etl"))]
    done = subprocess.run(call, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == "[]\n"
