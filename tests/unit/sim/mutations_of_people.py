"""Faults in what people ask for: suspending, marks, rounds, dead letters and replays; and in the trust in clocks."""

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from fencepost.api import admission
from fencepost.api.read import read_dag
from fencepost.core import dead_letters, plan_run, rounds
from fencepost.core.dag_spec import DagSpec
from fencepost.core.draft import Draft
from fencepost.core.run_spec import Rerun, RerunFrom
from fencepost.loops import clock_check, deciding, letters, replays, runs
from tests.unit.sim.mutation import Mutation


def suspended_goes_on() -> AbstractContextManager[object]:
    right = plan_run.advance_run

    def deaf(state: Any, graph: Any, definition: Any, facts: Any, now_s: float) -> Any:
        return right(state, graph, definition, replace(facts, suspended=False), now_s)

    return mock.patch.object(deciding, "advance_run", deaf)


def cancelling_is_not_heard() -> AbstractContextManager[object]:
    right = plan_run.advance_run

    def deaf(state: Any, graph: Any, definition: Any, facts: Any, now_s: float) -> Any:
        return right(state, graph, definition, replace(facts, cancelled=False), now_s)

    return mock.patch.object(deciding, "advance_run", deaf)


def suspended_dags_are_due() -> AbstractContextManager[object]:
    def awake(dag: Any) -> Any:
        spec = read_dag(dag)
        return replace(spec, suspend=False) if isinstance(spec, DagSpec) else spec

    return mock.patch.object(admission, "read_dag", awake)


def marks_are_not_read() -> AbstractContextManager[object]:
    return mock.patch.object(plan_run, "obey_marks", return_value=frozenset())


def a_round_runs_everything() -> AbstractContextManager[object]:
    right = rounds.open_jobs

    def all_of_it(state: Any, graph: Any, _: Rerun) -> Any:
        return right(state, graph, Rerun(RerunFrom.ALL))

    return mock.patch.object(runs, "open_jobs", all_of_it)


def outputs_are_lost_in_a_round() -> AbstractContextManager[object]:
    right = rounds.begin_round

    def forgetful(state: Any, number: int) -> Any:
        return replace(right(state, number), outputs={})

    return mock.patch.object(runs, "begin_round", forgetful)


def attempts_go_on_counting() -> AbstractContextManager[object]:
    """A job that waits for a retry when its run is cancelled is not begun anew by another round."""
    right = Draft.lease

    def second(self: Draft, job: Any, lease: Any) -> None:
        first = job not in self.waiting and self.stored.round > 0
        right(self, job, replace(lease, attempt=lease.attempt + 1) if first else lease)

    return mock.patch.object(Draft, "lease", second)


def no_letters() -> AbstractContextManager[object]:
    return mock.patch.object(plan_run, "note_deaths", return_value=0)


def letters_twice() -> AbstractContextManager[object]:
    """A letter's name follows from whoever writes it."""
    right, count = dead_letters.letter_name, iter(range(1_000_000))

    def another(dag: str, run_uid: str, job: Any, round_: int) -> str:
        return right(dag, f"{run_uid}{next(count)}", job, round_)

    return mock.patch.object(letters, "letter_name", another)


def a_letter_is_told_too_late() -> AbstractContextManager[object]:
    """The run forgets whose letters it replays before those tell of it."""

    def told(self: replays.Replays, view: Any, state: Any) -> Any:
        begun = view.state is not None and view.state.round == state.round
        return dict(state.replays) if begun else {}

    return mock.patch.object(replays.Replays, "told", told)


def clocks_are_trusted() -> AbstractContextManager[object]:
    return mock.patch.object(clock_check.ClockCheck, "wrong", False)


WORD = "from the moment that it is stored"
ROUNDS = "another round runs again"
LETTERS = "a job that failed for good leaves one dead letter"

PEOPLE_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("a suspended run goes on", suspended_goes_on, (WORD,), ("suspend_run",)),
    Mutation(
        "a cancelled run goes on", cancelling_is_not_heard, ("in a well cluster a cancelled",), ("cancel_run",), 40
    ),
    Mutation("a suspended DAG goes on", suspended_dags_are_due, ("a suspended DAG makes no runs",), ("suspend_dag",)),
    Mutation("marks are not read", marks_are_not_read, (WORD,), ("mark_job",)),
    Mutation("a round runs everything again", a_round_runs_everything, (ROUNDS,), ("rerun",)),
    Mutation("a round loses outputs", outputs_are_lost_in_a_round, (ROUNDS,), ("rerun",), 40),
    Mutation("a round does not count attempts anew", attempts_go_on_counting, (ROUNDS,), ("rerun",)),
    Mutation("no dead letters are written", no_letters, (LETTERS,)),
    Mutation("a dead letter is written twice", letters_twice, (LETTERS,), ("lost_after", "kill")),
    Mutation(
        "a run forgets too early what it replays", a_letter_is_told_too_late, ("each replay",), ("replay", "kill"), 60
    ),
    Mutation("a wrong clock is trusted", clocks_are_trusted, ("no replica fires",), ("clock_step",)),
)
