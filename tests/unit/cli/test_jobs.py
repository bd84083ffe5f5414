"""Jobs as people name them."""

import pytest

from fencepost.cli.errors import RefusedError
from fencepost.cli.jobs import job_named, sizes_of
from fencepost.core.run_state import RunState, TaskState
from tests.unit.support.builders import a_task

SIZES = {"extract": 1, "load": 3, "empty": 0, "later": None}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("extract", ("extract", None)),
        ("extract/0", ("extract", 0)),
        ("load/2", ("load", 2)),
        ("later/9999", ("later", 9999)),
    ],
)
def test_a_job_is_named_by_its_task_and_index(text: str, want: tuple[str, int | None]) -> None:
    assert job_named(text, SIZES) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("laod", "'laod': the run has no task 'laod'; it has empty, extract, later, load"),
        ("load/3", "'load/3': task load has 3 jobs; write load/0 to load/2"),
        ("extract/1", "'extract/1': task extract has 1 job; write extract"),
        ("empty/0", "'empty/0': task empty has 0 jobs; its list is empty"),
        *(
            (text, f"'{text}' is not of the form TASK or TASK/INDEX")
            for text in ("load/", "load/x", "load/-1", "a/000000")
        ),
    ],
)
def test_what_the_run_does_not_have_is_refused_with_the_remedy(text: str, want: str) -> None:
    with pytest.raises(RefusedError) as caught:
        job_named(text, SIZES)
    assert str(caught.value) == want


def test_where_the_tasks_are_not_known_any_job_may_be_meant() -> None:
    assert job_named("anything/77", {}) == ("anything", 77)


def test_a_list_decides_how_many_jobs_there_are_once_it_is_there() -> None:
    tasks = [a_task("list"), a_task("load", "list", items_from="list")]
    assert sizes_of(tasks, RunState()) == {"list": 1, "load": None}
    assert sizes_of(tasks, RunState(tasks={"load": TaskState(size=25)})) == {"list": 1, "load": 25}
