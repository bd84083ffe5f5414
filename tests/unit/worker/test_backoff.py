"""Waits grow, are bounded, and differ from worker to worker."""

import pytest

from fencepost.worker.backoff import Backoff


def test_waits_double_up_to_the_most_and_begin_again_after_an_answer() -> None:
    backoff = Backoff("w-00001", first_s=1.0, most_s=4.0)
    first, *others = [backoff.next_s() for _ in range(5)]
    assert 0.5 <= first <= 1.0
    assert others == pytest.approx([first * 2, first * 4, first * 4, first * 4])
    backoff.reset()
    assert backoff.next_s() == first


def test_workers_do_not_come_back_in_step() -> None:
    waits = {Backoff(f"w-{number:05d}", 1.0, 4.0).next_s() for number in range(100)}
    assert len(waits) > 95
