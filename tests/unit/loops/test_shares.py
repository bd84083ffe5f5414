"""A DAG's share of its pool holds through takeovers and lost answers: what stands in a run's record counts, always."""

from collections.abc import Callable

import pytest

from fencepost.api.codec import decode_run_status
from fencepost.api.names import DAG_RUNS, DAGS, WORKER_POOLS
from fencepost.kube.errors import ConnectionLostError, ServerError
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.stage import NOON_S, Stage, a_task, an_object, play

AWAY = Fault(error=ServerError("etcd is away"))
LOST = Fault(error=ConnectionLostError("reset"), carried_out=True)


def halve(stage: Stage) -> None:
    """A DAG may hold half of the slots."""
    stage.edit(WORKER_POOLS, "default", maxSharePerDAG="50%")


def held(stage: Stage) -> int:
    """Leases on record in all runs."""
    return sum(len(stage.run(run["metadata"]["name"]).leases) for run in stage.all(DAG_RUNS))


def test_a_new_leader_counts_what_every_run_holds_before_it_leases_more() -> None:
    async def story(stage: Stage) -> None:
        halve(stage)
        ann = stage.leader("Ann")
        stage.worker(slots=8, job_s=None)
        stage.dag("etl", a_task("load", forEach={"count": 4}))
        await stage.pass_time(1.0)
        # The one that sorts first has nothing yet when the one that sorts last has the whole share.
        stage.manual_run("z", "etl")
        await stage.pass_time(2.0)
        stage.manual_run("a", "etl")
        await stage.pass_time(2.0)
        assert (len(stage.run("z").leases), len(stage.run("a").leases)) == (4, 0)
        ann.kill()
        stage.lead(stage.replica("Ben"))
        await stage.pass_time(10.0)
        assert held(stage) == 4

    play(story)


@pytest.mark.parametrize("by_now", ["the DAG is gone", "the DAG names another pool"])
def test_a_new_leader_counts_what_a_run_holds_whatever_has_become_of_its_dag(by_now: str) -> None:
    async def story(stage: Stage) -> None:
        halve(stage)
        stage.put(WORKER_POOLS, an_object(WORKER_POOLS, "other", spec={}))
        ann = stage.leader("Ann")
        stage.worker(slots=8, job_s=None)
        stage.dag("etl", a_task("load", forEach={"count": 4}))
        await stage.pass_time(1.0)
        stage.manual_run("z", "etl")
        await stage.pass_time(2.0)
        stage.manual_run("a", "etl")
        await stage.pass_time(2.0)
        assert (len(stage.run("z").leases), len(stage.run("a").leases)) == (4, 0)
        ann.kill()
        if by_now == "the DAG is gone":
            await stage.delete(DAGS, "etl", propagation="Orphan")
        else:
            stage.edit(DAGS, "etl", pool="other")
        stage.lead(stage.replica("Ben"))
        await stage.pass_time(10.0)
        assert held(stage) == 4

    play(story)


def test_a_new_leader_goes_by_the_share_that_stands_in_its_pool_though_no_watch_has_told_it_yet() -> None:
    async def story(stage: Stage) -> None:
        ben = stage.replica("Ben")
        stage.worker(slots=4, job_s=None)
        await stage.pass_time(2.0)
        old = stage.get(WORKER_POOLS, "default")
        halve(stage)
        stage.lead(ben)
        await stage.pass_time(2.0)
        ben.scheduler.pool_changed(old)  # the watch comes to it now
        stage.dag("etl", a_task("load", forEach={"count": 4}))
        stage.manual_run("r1", "etl")
        await stage.pass_time(5.0)
        assert held(stage) == 2

    play(story)


def test_a_pool_that_is_said_to_have_gone_is_not_brought_back_by_a_list_made_before() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker()
        await stage.pass_time(2.0)
        listed = stage.get(WORKER_POOLS, "default")
        ann.scheduler.pool_gone("default")
        ann.scheduler.pool_changed(listed)
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        await stage.pass_time(5.0)
        assert held(stage) == 0
        ann.scheduler.pool_changed(stage.edit(WORKER_POOLS, "default", maxSharePerDAG="50%"))
        await stage.until(lambda: stage.finished("r1"))

    play(story)


def test_what_was_to_be_leased_when_the_shard_is_given_up_is_left_to_who_comes_and_counts() -> None:
    async def story(stage: Stage) -> None:
        halve(stage)
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        stage.worker(slots=8, job_s=None)
        load, schedule = a_task("load", forEach={"count": 4}), {"cron": ["* * * * *"], "catchUp": {"policy": "All"}}
        stage.dag("etl", load, schedule=schedule, concurrency={"policy": "Allow"})
        await stage.at(50.0)
        held_by_ann = dict(ann.held)
        ann.held.clear()
        await stage.at(185.0)
        stage.once("Ann", "create", DAG_RUNS, Fault(answer_delay_s=1.0), skip=1)
        ann.held.update(held_by_ann)
        await stage.until(lambda: len(stage.all(DAG_RUNS)) == 2)
        await ann.scheduler.released(0)
        stage.lead(ben)
        await stage.pass_time(10.0)
        assert len(stage.all(DAG_RUNS)) == 3
        assert (held(stage), await most_held(stage)) == (4, 4)

    play(story)


def test_leases_whose_answer_was_lost_count() -> None:
    async def story(stage: Stage) -> None:
        halve(stage)
        stage.leader()
        stage.worker(slots=2, job_s=None)
        stage.dag("etl", a_task("load", forEach={"count": 4}), cron="* * * * *")
        stage.once("Ann", "create", DAG_RUNS, LOST)
        await stage.at(65.0)
        assert held(stage) == 1
        stage.manual_run("r1", "etl")
        await stage.pass_time(10.0)
        assert held(stage) == 1

    play(story)


def without_news(stage: Stage, run: str) -> Callable[[], None]:
    """Ann hears nothing of this run, by reading or by a watch, until the returned function is called."""

    def find(asked: str, request: Request) -> Fault | None:
        if asked != "Ann" or request.kind is not DAG_RUNS or request.name != run:
            return None
        return {"get": AWAY, "event": Fault(delay_s=30.0)}.get(request.verb)

    return stage.trouble(find)


async def most_held(stage: Stage) -> int:
    """The most leases that were ever on record at once in all runs."""
    most, held_by = 0, {}
    for event in await stage.history(DAG_RUNS):
        obj = event.object
        held_by[obj["metadata"]["name"]] = len(decode_run_status(obj["status"]).leases) if "status" in obj else 0
        most = max(most, sum(held_by.values()))
    return most


def test_leases_of_a_run_count_whose_create_had_no_answer_and_which_cannot_be_read() -> None:
    async def story(stage: Stage) -> None:
        halve(stage)
        stage.leader()
        stage.worker(slots=2, job_s=None)
        stage.dag("etl", a_task("load", forEach={"count": 4}), cron="* * * * *")
        stage.once("Ann", "create", DAG_RUNS, LOST)
        back = without_news(stage, f"etl-{NOON_S + 60}")
        await stage.at(61.0)
        stage.manual_run("r1", "etl")
        await stage.at(70.0)
        back()
        await stage.at(110.0)
        assert (held(stage), await most_held(stage)) == (1, 1)

    play(story)


def test_a_create_that_was_never_stored_holds_nothing_once_that_is_known() -> None:
    async def story(stage: Stage) -> None:
        halve(stage)
        stage.leader()
        stage.worker(slots=2, job_s=None)
        stage.dag("etl", a_task("load", forEach={"count": 4}), cron="* * * * *")
        stage.once("Ann", "create", DAG_RUNS, Fault(error=ConnectionLostError("reset")))
        back = without_news(stage, f"etl-{NOON_S + 60}")
        await stage.at(61.0)
        stage.edit(DAGS, "etl", suspend=True)
        stage.manual_run("r1", "etl")
        await stage.at(70.0)
        assert held(stage) == 0, "it may be there, with the only slot that the DAG may hold"
        back()
        stage.edit(DAGS, "etl", suspend=False)
        await stage.at(110.0)
        assert held(stage) == 1

    play(story)


def test_leases_of_a_write_count_that_had_no_answer_and_cannot_be_read() -> None:
    async def story(stage: Stage) -> None:
        halve(stage)
        stage.leader()
        stage.dag("etl", a_task("load", forEach={"count": 4}))
        stage.manual_run("r1", "etl")
        await stage.pass_time(10.0)
        stage.once("Ann", "update", DAG_RUNS, LOST)
        back = without_news(stage, "r1")
        stage.worker(slots=2, job_s=None)
        await stage.pass_time(3.0)
        back()
        await stage.pass_time(40.0)
        assert (held(stage), await most_held(stage)) == (1, 1)

    play(story)
