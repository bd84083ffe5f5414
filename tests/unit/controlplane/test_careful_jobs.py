"""The ledger of the drills takes no line under a token lower than one that it has seen for the same execution."""

import subprocess
from pathlib import Path

from tests.e2e.support.ledger import Ledger


def run(ledger: Ledger, token: int, body: str = "true", execution: str = "uid/task/0") -> int:
    command = [word.replace("$$(", "$(") for word in ledger.careful(body)]
    names = {"TOKEN": str(token), "ATTEMPT": "1", "EXECUTION_ID": execution}
    env = {"PATH": "/usr/bin:/bin", **{f"FENCEPOST_{name}": value for name, value in names.items()}}
    return subprocess.run(command, env=env, timeout=10, check=False).returncode


def test_tokens_that_grow_are_taken(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "some.ledger")

    assert run(ledger, 9) == run(ledger, 10) == 0

    assert [(line.what, line.token) for line in ledger.lines()] == [
        ("start", 9),
        ("commit", 9),
        ("start", 10),
        ("commit", 10),
    ]


def test_a_job_that_was_overtaken_while_it_ran_cannot_commit(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "some.ledger")
    overtake = f"echo start 10 1 uid/task/0 0.0 >> {ledger.file}"

    assert run(ledger, 9, overtake) != 0

    assert [(line.what, line.token) for line in ledger.lines()] == [("start", 9), ("start", 10), ("refused", 9)]


def test_a_job_that_comes_too_late_does_not_begin(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "some.ledger")
    run(ledger, 10)

    assert run(ledger, 9, "note worked") != 0

    assert not ledger.count("worked")
    assert [line.token for line in ledger.lines("refused")] == [9]


def test_other_executions_have_tokens_of_their_own(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "some.ledger")
    run(ledger, 10)

    assert run(ledger, 9, execution="uid/task/1") == 0
