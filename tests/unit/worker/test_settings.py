"""Settings that cannot work are refused before anything starts."""

from typing import Any

import pytest

from fencepost.base.identity import nonce
from fencepost.worker.settings import WorkerSettings


def settings(**changes: Any) -> WorkerSettings:
    return WorkerSettings(**{"pod": "default-5d9f7c-x2k4q", "nonce": "n0001", **changes})


def test_a_worker_is_named_after_its_pod_and_a_nonce() -> None:
    assert settings().name == "default-5d9f7c-x2k4q-n0001"
    assert settings(nonce=nonce()).name != settings(nonce=nonce()).name


def test_the_defaults_leave_time_to_kill_jobs_before_the_lease_can_end() -> None:
    assert settings().heartbeat_s < settings().trust_s < settings().lease_duration_s


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"slots": 0}, "slots is 0; a worker has 1 to 32"),
        ({"slots": 33}, "slots is 33; a worker has 1 to 32"),
        ({"pod": "p" * 58}, "a name of 64 characters; 63 are allowed"),
        ({"nonce": "n1"}, "nonce 'n1' has 2 characters"),
        ({"lease_duration_s": 15}, "stop its jobs after 7 s without a renewal; make the lease longer"),
    ],
)
def test_what_cannot_work_is_named_with_the_limit(changes: dict[str, Any], want: str) -> None:
    with pytest.raises(ValueError, match=want):
        settings(**changes)
