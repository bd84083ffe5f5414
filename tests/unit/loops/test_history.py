"""What is deleted, when, and in which order; the referee besides looks at the age and the mark of each deletion."""

import pytest

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, DAGS
from fencepost.api.times import parse_time
from fencepost.core.history import HistoryLimits
from fencepost.core.names import DagKey, shard_of
from fencepost.core.phases import RunPhase
from fencepost.kube.errors import ServerError
from fencepost.loops.history import BATCH_MAX, TOTAL_MAX
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.stage import NAMESPACE, NOON_S, Stage, a_task, play, slot

DAY_S = 600.0


@pytest.fixture
def short_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """A day is ten minutes, as even virtual time takes some."""
    monkeypatch.setattr("fencepost.loops.runs.BEGIN_WITHIN_S", DAY_S)
    limits = HistoryLimits(TOTAL_MAX, TOTAL_MAX, ttl_s=DAY_S)
    monkeypatch.setattr("fencepost.loops.history.NO_DAG_LIMITS", limits)


def names(stage: Stage) -> list[str]:
    return sorted(run["metadata"]["name"] for run in stage.all(DAG_RUNS))


def test_the_mark_is_stored_before_a_run_is_deleted() -> None:
    """The write of the mark is refused for minutes; the deletion waits for it."""

    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", cron="* * * * *", history={"succeeded": 0})
        await stage.at(30.0)

        def unmarked(name: str, request: Request) -> Fault | None:
            return Fault(error=ServerError("no")) if (request.kind, request.subresource) == (DAGS, "status") else None

        marked = stage.trouble(unmarked)
        await stage.at(300.0)
        assert stage.finished(slot(1))
        assert slot(1) in names(stage)
        marked()
        await stage.until(lambda: slot(1) not in names(stage))
        assert parse_time(stage.get(DAGS, "etl")["status"]["lastScheduledTime"]) >= NOON_S + 60

    play(story)


def test_nothing_is_deleted_before_it_is_two_minutes_old() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", history={"succeeded": 1})
        for number in range(3):
            stage.manual_run(f"r{number}", "etl")
            await stage.pass_time(5.0)
        await stage.at(118.0)
        assert len(names(stage)) == 3
        await stage.at(140.0)
        assert names(stage) == ["r2"], "the last one that ended is kept"

    play(story)


def test_a_leader_deletes_nothing_in_its_first_two_minutes() -> None:
    """So that every API server has heard of its epoch, and refuses what a leader before may still create."""

    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        ben = stage.replica("Ben")
        stage.worker()
        stage.dag("etl", history={"succeeded": 1})
        for number in range(2):
            stage.manual_run(f"r{number}", "etl")
            await stage.pass_time(5.0)
        await stage.at(115.0)
        stage.lead(ben)
        await stage.at(230.0)
        assert names(stage) == ["r0", "r1"]
        await stage.at(250.0)
        assert names(stage) == ["r1"]

    play(story)


def test_a_replica_that_does_not_lead_a_dag_leaves_its_history_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.replica("Ben")
        stage.worker()
        stage.dag("etl", history={"succeeded": 2})
        for number in range(2):
            stage.manual_run(f"r{number}", "etl")
        await stage.until(lambda: stage.finished("r0", "r1"))
        stage.edit(DAGS, "etl", history={"succeeded": 1})
        await stage.at(150.0)
        assert len(names(stage)) == 1

    play(story)
    assert "could not be looked at" not in caplog.text


@pytest.mark.timeout(30)
def test_more_than_a_batch_of_young_runs_is_waited_for_and_not_looked_at_all_the_time() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        stage.worker(slots=32)
        stage.dag("etl", history={"succeeded": 1}, concurrency={"policy": "Allow"})
        for number in range(BATCH_MAX * 2 + 5):
            stage.manual_run(f"r{number:02}", "etl")
        await stage.until(lambda: stage.finished(*names(stage)))
        looks = 0
        turn = ann.scheduler._history._turn

        async def counted(key: object) -> object:
            nonlocal looks
            looks += 1
            return await turn(key)  # type: ignore[arg-type]

        ann.scheduler._history._turn = counted  # type: ignore[method-assign,assignment]
        await stage.at(110.0)
        assert looks < 10
        await stage.at(140.0)
        assert len(names(stage)) == 1

    play(story)


def test_failed_runs_are_kept_apart_from_those_that_succeeded() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker()
        worker.runner.exit_codes["only"] = [1, 0, 1, 0, 1]
        stage.dag("etl", history={"succeeded": 1, "failed": 2})
        for number in range(5):
            stage.manual_run(f"r{number}", "etl")
            await stage.until(lambda number=number: stage.finished(f"r{number}"))  # type: ignore[misc]
        await stage.at(150.0)
        assert names(stage) == ["r2", "r3", "r4"]
        assert stage.run("r2").phase is RunPhase.FAILED

    play(story)


def test_a_run_that_has_been_finished_for_long_enough_goes_though_it_is_the_latest() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker()
        stage.dag("etl", history={"ttl": "10m"})
        stage.manual_run("r0", "etl")
        await stage.at(300.0)
        stage.manual_run("r1", "etl")
        await stage.at(590.0)
        assert names(stage) == ["r0", "r1"]
        await stage.at(615.0)
        assert names(stage) == ["r1"]
        stage.leader("Ben")
        await stage.at(920.0)
        assert names(stage) == [], "whoever leads by then"

    play(story)


def test_an_edit_that_keeps_less_is_heeded_at_once() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl")
        for number in range(3):
            stage.manual_run(f"r{number}", "etl")
            await stage.pass_time(5.0)
        await stage.at(200.0)
        assert len(names(stage)) == 3
        stage.edit(DAGS, "etl", history={"succeeded": 1})
        await stage.until(lambda: names(stage) == ["r2"], limit_s=5.0)

    play(story)


def test_over_all_dags_the_oldest_finished_runs_go() -> None:
    """Two replicas lead a shard each, and keep to one limit together."""

    async def story(stage: Stage) -> None:
        ann, ben = stage.replica("Ann"), stage.replica("Ben")
        stage.lead(ann, 0)
        stage.lead(ben, 1)
        for replica in (ann, ben):
            replica.scheduler._history._total_max = 4
        stage.worker()
        dags = [f"dag-{number}" for number in range(7)]
        assert {shard_of(DagKey(NAMESPACE, dag), 2) for dag in dags} == {0, 1}
        for dag in dags:
            stage.dag(dag)
            stage.manual_run(dag, dag)
            await stage.until(lambda dag=dag: stage.finished(dag))  # type: ignore[misc]
        await stage.at(115.0)
        assert len(names(stage)) == 7, "none is two minutes old"
        await stage.at(150.0)
        assert names(stage) == dags[3:]

    play(story, shards=2)


@pytest.mark.timeout(60)
def test_deleting_much_does_not_keep_what_is_due_from_starting() -> None:
    """Each deletion takes a while; there are many of them, each of another DAG."""

    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(slots=32)
        worker.runner.job_s = 0.1
        for number in range(150):
            stage.dag(f"dag-{number}", history={"succeeded": 0})
            stage.manual_run(f"old-{number}", f"dag-{number}")
        await stage.until(lambda: all(stage.finished(name) for name in names(stage)))
        slow = Fault(delay_s=0.2)
        stage.trouble(lambda name, request: slow if (request.verb, request.kind) == ("delete", DAG_RUNS) else None)
        await stage.until(lambda: len(names(stage)) < 140, limit_s=180.0)
        stage.manual_run("new", "dag-0")
        took_s = await stage.until(lambda: stage.finished("new"), limit_s=5.0)
        assert took_s < 1.0
        assert len(names(stage)) > 50, "most are still to be deleted"
        await stage.until(lambda: not any(name.startswith("old") for name in names(stage)), limit_s=60.0)

    play(story)


def test_a_run_that_cannot_begin_ends_after_a_day_and_goes_after_another(short_days: None) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.manual_run("r1", "nobody")
        stage.dag("broken", a_task("a", "nobody"))
        stage.manual_run("r2", "broken")
        await stage.pass_time(DAY_S - 10)
        assert [stage.run(name).reason for name in ("r1", "r2")] == ["DAGNotFound", "DAGNotValid"]
        await stage.pass_time(20)
        assert [stage.run(name).reason for name in ("r1", "r2")] == ["NeverBegan"] * 2
        assert "there is no DAG demo/nobody" in stage.run("r1").message
        await stage.pass_time(DAY_S)
        assert names(stage) == ["r2"], "what a DAG keeps cannot be told while that cannot be read"
        stage.edit(DAGS, "broken", tasks=[a_task("a")], history={"failed": 0})
        await stage.until(lambda: names(stage) == [])

    play(story)


def test_a_run_that_never_began_outlives_its_dag_and_goes_all_the_same(short_days: None) -> None:
    """It belongs to nothing, so the garbage collector leaves it; nor has a leader to remember it."""

    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.dag("broken", a_task("a", "nobody"))
        stage.manual_run("r1", "broken")
        await stage.until(lambda: stage.run("r1").reason == "DAGNotValid")
        await stage.delete(DAGS, "broken")
        await stage.until(lambda: stage.run("r1").reason == "DAGNotFound")
        stage.leader("Ben")
        await stage.pass_time(DAY_S)
        assert stage.run("r1").reason == "NeverBegan"
        stage.leader("Cat")
        await stage.pass_time(DAY_S + 10)
        assert names(stage) == []

    play(story)


def test_runs_that_never_began_count_among_all_that_are_kept(short_days: None) -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader()
        ann.scheduler._history._total_max = 2
        for number in range(4):
            stage.manual_run(f"r{number}", "nobody")
            await stage.pass_time(1.0)
        await stage.pass_time(DAY_S + 30)
        assert names(stage) == ["r2", "r3"]

    play(story)


def test_a_run_that_could_begin_in_time_does(short_days: None) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.manual_run("r1", "etl")
        await stage.pass_time(DAY_S - 100)
        stage.dag("etl")
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED

    play(story)


def test_finished_runs_whose_dag_was_deleted_without_them_go_after_a_day(short_days: None) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        await stage.until(lambda: stage.finished("r1"))
        await stage.delete(DAGS, "etl", propagation="Orphan")
        await stage.pass_time(DAY_S - 60)
        assert names(stage) == ["r1"]
        await stage.pass_time(120)
        assert names(stage) == []

    play(story)


def test_a_deleted_dag_takes_all_that_is_its_own_with_it() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *", concurrency={"policy": "Allow"})
        stage.manual_run("r1", "etl")
        await stage.at(130.0)
        assert len(names(stage)) == 3
        await stage.delete(DAGS, "etl")
        await stage.pass_time(30.0)
        assert (names(stage), stage.all(CONTROLLER_REVISIONS)) == ([], [])
        await stage.until(stage.quiet)

    play(story)


def test_a_run_that_cannot_be_read_is_kept_until_a_person_has_looked() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", history={"succeeded": 0})
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(stage.run("r1").leases))
        run = stage.get(DAG_RUNS, "r1")
        run["status"]["done"] = "many"
        stage.put(DAG_RUNS, run)
        await stage.at(200.0)
        assert names(stage) == ["r1"]
        assert stage.get(DAG_RUNS, "r1")["metadata"]["namespace"] == NAMESPACE

    play(story, lawful=False)
