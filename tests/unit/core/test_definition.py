"""Definitions: priorities by name, and how many jobs a run has."""

import pytest

from fencepost.core.definition import Priority
from tests.unit.support.builders import a_definition, a_task


@pytest.mark.parametrize("priority", list(Priority))
def test_a_priority_reads_back_as_it_is_written_in_a_spec(priority: Priority) -> None:
    assert Priority.parse(str(priority)) is priority


def test_a_priority_that_does_not_exist_is_refused() -> None:
    assert str(Priority.CRITICAL) == "critical"
    with pytest.raises(KeyError):
        Priority.parse("urgent")


def test_priorities_are_ordered_from_low_to_critical() -> None:
    assert sorted(Priority) == [Priority.LOW, Priority.NORMAL, Priority.HIGH, Priority.CRITICAL]


def test_a_run_has_a_job_for_each_task_and_as_many_as_a_fan_out_says() -> None:
    assert a_definition(a_task("a"), a_task("b", count=100), a_task("c", count=0)).size == 101
