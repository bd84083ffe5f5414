"""What a worker offers, and when its object is of no use any more."""

import pytest

from fencepost.core.worker_record import WorkerRecord


@pytest.mark.parametrize(
    ("worker", "want_slots", "want_over"),
    [
        (WorkerRecord("default", 4), 4, False),
        (WorkerRecord("default", 4, draining=True), 0, False),
        (WorkerRecord("default", 4, draining=True, left=True), 0, True),
        (WorkerRecord("default", 4, fenced=True), 0, True),
    ],
    ids=["alive", "draining", "left", "fenced"],
)
def test_what_a_worker_offers_and_whether_it_is_over(worker: WorkerRecord, want_slots: int, want_over: bool) -> None:
    assert (worker.slots_offered, worker.over) == (want_slots, want_over)
