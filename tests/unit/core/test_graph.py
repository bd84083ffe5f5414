"""Graphs: a stable order in which parents come first, or everything that keeps the tasks from having one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.definition import Task
from fencepost.core.graph import compile_graph
from tests.unit.support.builders import a_definition, a_graph, a_task


def problems(*tasks: Task) -> list[tuple[str, str]]:
    """Reason and text of all that is wrong."""
    found = compile_graph(a_definition(*tasks))
    assert isinstance(found, list)
    return [(problem.reason, str(problem)) for problem in found]


@st.composite
def shuffled_dags(draw: st.DrawFn) -> list[Task]:
    """Tasks with edges from lower to higher numbers, in any order."""
    count = draw(st.integers(0, 8))
    edges = draw(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7))))
    tasks = [
        a_task(f"t{below}", *(f"t{above}" for above in range(below) if (above, below) in edges))
        for below in range(count)
    ]
    return draw(st.permutations(tasks))


@given(shuffled_dags())
def test_parents_come_before_their_children_and_nothing_is_lost(tasks: list[Task]) -> None:
    graph = a_graph(*tasks)

    order = [task.name for task in graph.order]
    assert sorted(order) == sorted(task.name for task in tasks)
    assert all(order.index(parent) < order.index(task.name) for task in tasks for parent in task.depends_on)
    assert all(
        sorted(graph.children[name]) == sorted(task.name for task in tasks if name in task.depends_on) for name in order
    )


@given(shuffled_dags(), st.data())
def test_an_edge_back_to_an_ancestor_is_found_as_a_cycle_whose_edges_all_exist(
    tasks: list[Task], data: st.DataObject
) -> None:
    edges = [(parent, task.name) for task in tasks for parent in task.depends_on]
    if not edges:
        return
    parent, child = data.draw(st.sampled_from(edges))
    bent = [a_task(task.name, *task.depends_on, child) if task.name == parent else task for task in tasks]

    found = compile_graph(a_definition(*bent))

    assert isinstance(found, list)
    (problem,) = found
    assert problem.reason == "Cycle"
    walk = problem.fact.removeprefix("the tasks depend on each other: ").split(" -> ")
    assert walk[0] == walk[-1] == min(walk)
    assert set(pairwise(walk)) <= {*edges, (child, parent)}


def test_tasks_that_no_edge_orders_stay_as_they_are_written() -> None:
    graph = a_graph(a_task("z"), a_task("b", "z"), a_task("a", "z"), a_task("y"))

    assert [task.name for task in graph.order] == ["z", "y", "b", "a"]


def test_a_graph_counts_jobs_not_tasks() -> None:
    assert a_graph(a_task("a"), a_task("b", "a", count=100)).size == 101


def test_a_cycle_is_spelled_in_the_direction_of_its_edges() -> None:
    assert problems(a_task("c", "b"), a_task("a", "c"), a_task("b", "a"), a_task("d", "c"), a_task("e")) == [
        ("Cycle", "spec.tasks: the tasks depend on each other: a -> b -> c -> a; remove one edge")
    ]


@pytest.mark.parametrize(
    ("task", "want"),
    [
        (
            a_task("b", "a", "b"),
            ("SelfDependency", "spec.tasks[1].dependsOn[1]: task 'b' depends on itself; remove the edge"),
        ),
        (
            a_task("b", "x"),
            (
                "UnknownParent",
                "spec.tasks[1].dependsOn[0]: task 'b' depends on 'x', which is no task of this DAG;"
                " correct the name or add the task",
            ),
        ),
        (
            a_task("b", "a", "a"),
            ("DuplicateDependency", "spec.tasks[1].dependsOn[1]: task 'b' names 'a' twice; remove one"),
        ),
        (a_task("a"), ("DuplicateTask", "spec.tasks[1].name: an earlier task is called 'a' too; rename one")),
    ],
)
def test_an_edge_or_a_name_that_cannot_be_is_refused_at_its_place(task: Task, want: tuple[str, str]) -> None:
    assert problems(a_task("a"), task) == [want]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    found = problems(a_task("a", "a"), a_task("a", "x", "x"))

    assert [reason for reason, _ in found] == ["DuplicateTask", "SelfDependency", "UnknownParent", "UnknownParent"]
