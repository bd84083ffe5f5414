"""What is deleted, when, and in which order; the referee besides looks at the age and the mark of each deletion."""

import pytest

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, DAGS
from fencepost.api.times import parse_time
from fencepost.core.phases import RunPhase
from fencepost.kube.errors import ServerError
from fencepost.loops.history import BATCH_MAX
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.stage import NAMESPACE, NOON_S, Stage, a_task, play, slot


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


def test_the_revision_of_an_old_definition_goes_with_its_last_run() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", a_task("old"), history={"succeeded": 1})
        stage.manual_run("r1", "etl")
        await stage.until(lambda: stage.finished("r1"))
        old = stage.get(DAG_RUNS, "r1")["spec"]["revision"]
        stage.edit(DAGS, "etl", tasks=[a_task("new")])
        stage.manual_run("r2", "etl")
        await stage.at(115.0)
        assert stage.find(CONTROLLER_REVISIONS, old) is not None
        await stage.until(lambda: stage.find(CONTROLLER_REVISIONS, old) is None)
        assert names(stage) == ["r2"]
        assert stage.find(CONTROLLER_REVISIONS, stage.get(DAG_RUNS, "r2")["spec"]["revision"]) is not None

    play(story)


@pytest.mark.parametrize("new_leader", [False, True])
@pytest.mark.parametrize("used_meanwhile", [False, True])
def test_a_definition_that_comes_back_is_stored_again(new_leader: bool, used_meanwhile: bool) -> None:
    """Edited to and fro: its revision has been deleted in between, and its runs must find it."""

    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        worker = stage.worker()
        stage.dag("etl", a_task("old"), history={"succeeded": 0})
        stage.manual_run("r1", "etl")
        await stage.until(lambda: stage.finished("r1"))
        old = stage.get(DAG_RUNS, "r1")["spec"]["revision"]
        stage.edit(DAGS, "etl", tasks=[a_task("new")])
        if used_meanwhile:
            stage.manual_run("r2", "etl")
        await stage.until(lambda: stage.find(CONTROLLER_REVISIONS, old) is None, limit_s=150.0)
        if new_leader:
            stage.leader("Ben")
        stage.edit(DAGS, "etl", tasks=[a_task("old")])
        stage.manual_run("r3", "etl")
        await stage.until(lambda: stage.finished("r3"))
        assert stage.run("r3").phase is RunPhase.SUCCEEDED
        assert worker.runner.jobs[-1].launch.source.job.task == "old"

    play(story)


def test_a_leader_that_comes_back_does_not_trust_in_revisions_of_long_ago() -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        stage.worker()
        stage.dag("etl", a_task("old"), history={"succeeded": 0})
        stage.manual_run("r1", "etl")
        await stage.until(lambda: stage.finished("r1"))
        old = stage.get(DAG_RUNS, "r1")["spec"]["revision"]
        stage.lead(ben)
        stage.edit(DAGS, "etl", tasks=[a_task("new")])
        stage.manual_run("r2", "etl")
        await stage.until(lambda: stage.find(CONTROLLER_REVISIONS, old) is None, limit_s=150.0)
        stage.lead(ann)
        stage.edit(DAGS, "etl", tasks=[a_task("old")])
        stage.manual_run("r3", "etl")
        await stage.until(lambda: stage.finished("r3"))
        assert stage.run("r3").phase is RunPhase.SUCCEEDED

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
