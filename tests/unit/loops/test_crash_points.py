"""A leader may die at any of its writes, and any write may go wrong on its way: nothing is lost, nothing is doubled.

The story is always the same: a DAG of two jobs fires each minute, its runs end, and the oldest ones are deleted. It is
told once for each write that somebody makes in it.
"""

from collections.abc import Callable
from functools import partial

import pytest

from fencepost.api.names import DAG_RUNS, DAGS
from fencepost.core.phases import RunPhase
from fencepost.kube.errors import ConflictError, ConnectionLostError, OverloadedError
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.stage import Stage, a_task, play, slot

WRITES = ("create", "update", "delete")
LEASE_S = 15.0
"""From a leader's death to the next one's acquisition."""
AGE_S = 30.0
"""At which runs may be deleted."""


def is_decision(request: Request) -> bool:
    """A write of the operator other than what is only for people to look at."""
    return request.verb in WRITES and request.kind.plural not in ("leases", "events", "workerpools")


class Nth:
    """Finds the n-th write of a process, and says what it was."""

    def __init__(self, writer: str, number: int) -> None:
        self._writer = writer
        self._left = number
        self.found = ""

    def hits(self, name: str, request: Request) -> bool:
        if self.found or name != self._writer or not is_decision(request):
            return False
        self._left -= 1
        if self._left == 0:
            self.found = f"{request.verb} {request.kind}/{request.subresource} {request.name}"
        return self._left == 0


async def the_story(stage: Stage) -> None:
    """Two runs, the second of which makes the first one superfluous."""
    stage.worker()
    stage.dag("etl", a_task("extract"), a_task("load", "extract"), cron="* * * * *", history={"succeeded": 1})
    await stage.at(145.0)
    stage.edit(DAGS, "etl", suspend=True)
    await stage.until(stage.quiet, limit_s=60.0)


async def assert_all_went_well(stage: Stage) -> None:
    """Every slot has had one run, each run ended well, and the last one is kept."""
    assert await stage.slots_fired("etl") == {1: 1, 2: 1}
    ended = {event.object["metadata"]["name"]: event.object for event in await stage.history(DAG_RUNS)}
    assert all(run["status"]["phase"] == RunPhase.SUCCEEDED for run in ended.values())
    await stage.until(lambda: [run["metadata"]["name"] for run in stage.all(DAG_RUNS)] == [slot(2)], limit_s=60.0)


def tell_for_each_write(writer: str, tell: Callable[[int], str]) -> None:
    """Tell the story for the first write, the second, and so on, until there is none to go wrong."""
    number = 0
    told: list[str] = []
    while True:
        number += 1
        try:
            what = tell(number)
        except AssertionError as error:
            raise AssertionError(f"{writer}'s write {number}: {error}") from error
        if not what:
            break
        told.append(what)
    assert len(told) > 3, told


@pytest.mark.parametrize("moment", ["before", "after", "on its way"])
def test_a_leader_dies_at_each_of_its_writes(moment: str) -> None:
    def tell(number: int) -> str:
        nth = Nth("Ann", number)

        async def story(stage: Stage) -> None:
            ann, ben = stage.leader("Ann"), stage.replica("Ben")

            def die(name: str, request: Request) -> Fault | None:
                if not nth.hits(name, request):
                    return None
                ann.kill()
                match moment:
                    case "before":
                        return Fault(error=ConnectionLostError("never sent"))
                    case "on its way":
                        return Fault(delay_s=LEASE_S + 5.0)
                return None

            stage.trouble(die)

            async def take_over() -> None:
                await stage.until(lambda: bool(nth.found), limit_s=1e9)
                await stage.pass_time(LEASE_S)
                stage.lead(ben)

            stage.spawn(take_over())
            await the_story(stage)
            await assert_all_went_well(stage)

        try:
            play(story, history_age_min_s=AGE_S)
        except AssertionError as error:
            raise AssertionError(f"dead at {nth.found}: {error}") from error
        return nth.found

    tell_for_each_write("Ann", tell)


FAULTS = {
    "its answer is lost": Fault(error=ConnectionLostError("reset by peer"), carried_out=True),
    "it is not done": Fault(error=OverloadedError("later")),
    "a conflict": Fault(error=ConflictError("changed meanwhile")),
    "it takes long and its answer is lost": Fault(delay_s=8.0, error=ConnectionLostError("reset"), carried_out=True),
}


@pytest.mark.parametrize("what", FAULTS)
def test_each_write_goes_wrong_once(what: str) -> None:
    def tell(writer: str, number: int) -> str:
        nth = Nth(writer, number)

        async def story(stage: Stage) -> None:
            stage.leader("Ann")
            possible = ("update",) if what == "a conflict" else WRITES
            stage.trouble(
                lambda name, request: FAULTS[what] if request.verb in possible and nth.hits(name, request) else None
            )
            await the_story(stage)
            await assert_all_went_well(stage)

        try:
            play(story, history_age_min_s=AGE_S)
        except AssertionError as error:
            raise AssertionError(f"{what}, of {nth.found}: {error}") from error
        return nth.found

    for writer in ("Ann", "w1"):
        tell_for_each_write(writer, partial(tell, writer))
