"""Revisions of definitions: stored while somebody uses them, and deleted once nobody does, whoever leads by then."""

import pytest

from fencepost.api.dag_status_models import EARLIER_REVISIONS_MAX
from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, DAGS
from fencepost.core.phases import RunPhase
from fencepost.kube.errors import ApiError, OverloadedError, ServerError
from fencepost.memory.faults import Fault
from tests.unit.loops.stage import Stage, a_task, play, slot


def revisions(stage: Stage) -> list[str]:
    return sorted(each["metadata"]["name"] for each in stage.all(CONTROLLER_REVISIONS))


def earlier(stage: Stage) -> list[str]:
    """As the DAG's status tells."""
    told: list[str] = stage.get(DAGS, "etl")["status"].get("earlierRevisions", [])
    return told


async def one_run(stage: Stage, name: str, task: str) -> str:
    """A run of a DAG with this task; the revision that it names."""
    if stage.find(DAGS, "etl") is None:
        stage.dag("etl", a_task(task), history={"succeeded": 0})
    else:
        stage.edit(DAGS, "etl", tasks=[a_task(task)])
    stage.manual_run(name, "etl")
    await stage.until(lambda: stage.finished(name))
    revision: str = stage.get(DAG_RUNS, name)["spec"]["revision"]
    return revision


@pytest.mark.parametrize("error", [ServerError("no"), OverloadedError("later")])
def test_the_deletion_of_an_old_revision_is_tried_again(error: ApiError) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", a_task("old"), history={"succeeded": 0})
        stage.manual_run("r1", "etl")
        await stage.until(lambda: stage.finished("r1"))
        old = stage.get(DAG_RUNS, "r1")["spec"]["revision"]
        stage.edit(DAGS, "etl", tasks=[a_task("new")])
        stage.once("Ann", "delete", CONTROLLER_REVISIONS, Fault(error=error))
        await stage.until(lambda: stage.find(CONTROLLER_REVISIONS, old) is None, limit_s=150.0)

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
        assert [run["metadata"]["name"] for run in stage.all(DAG_RUNS)] == ["r2"]
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


def test_a_new_leader_deletes_the_revision_that_the_one_before_has_not_come_to_delete() -> None:
    """It dies between the deletion of the last run and that of its revision; nothing tells of that but the status."""

    async def story(stage: Stage) -> None:
        ann = stage.leader("Ann")
        stage.worker()
        old = await one_run(stage, "r1", "old")
        new = await one_run(stage, "r2", "new")
        await stage.until(lambda: earlier(stage) == [old])
        stage.once("Ann", "delete", CONTROLLER_REVISIONS, Fault(error=ServerError("no")))
        await stage.until(lambda: stage.find(DAG_RUNS, "r1") is None, limit_s=150.0)
        ann.kill()
        stage.edit(DAGS, "etl", history={"succeeded": 9})
        assert old in revisions(stage)
        stage.leader("Ben")
        await stage.until(lambda: revisions(stage) == [new], limit_s=150.0)

    play(story)


def test_a_definition_that_nobody_has_run_any_more_when_it_is_edited_leaves_no_revision() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        old = await one_run(stage, "r1", "old")
        await stage.until(lambda: stage.find(DAG_RUNS, "r1") is None, limit_s=150.0)
        assert revisions(stage) == [old]
        stage.edit(DAGS, "etl", tasks=[a_task("new")])
        await stage.until(lambda: revisions(stage) == [], limit_s=150.0)
        assert await one_run(stage, "r2", "old") == old
        assert stage.run("r2").phase is RunPhase.SUCCEEDED

    play(story)


@pytest.mark.parametrize("what", ["a run of its schedule", "a run made by hand"])
def test_an_edit_takes_nothing_away_from_a_run_whose_first_write_is_still_on_its_way(what: str) -> None:
    """It names the revision of before the edit, and nobody can see it yet."""

    async def story(stage: Stage) -> None:
        stage.leader()
        stage.dag("etl", a_task("old"), cron="* * * * *", concurrency={"policy": "Allow"})
        await stage.at(58.0)
        by_hand = what == "a run made by hand"
        stage.once("Ann", "update" if by_hand else "create", DAG_RUNS, Fault(delay_s=15.0))
        if by_hand:
            stage.manual_run("r1", "etl")
        name = "r1" if by_hand else slot(1)
        await stage.at(62.0)
        stage.edit(DAGS, "etl", tasks=[a_task("new")], suspend=True)
        await stage.at(80.0)
        worker = stage.worker()
        await stage.until(lambda: stage.finished(name))
        assert stage.run(name).phase is RunPhase.SUCCEEDED
        assert "old" in {job.launch.source.job.task for job in worker.runner.jobs}

    play(story)


def test_what_is_deleted_is_told_of_no_more_and_asked_for_no_more() -> None:
    """By each of the leaders that follow: a revision that is gone costs the first of them one request at the most."""

    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker()
        await one_run(stage, "r1", "old")
        await stage.until(lambda: stage.find(DAG_RUNS, "r1") is None, limit_s=150.0)
        stage.edit(DAGS, "etl", tasks=[a_task("new")])
        await stage.until(lambda: revisions(stage) == [], limit_s=150.0)
        for leader in ("Ben", "Cat", "Dan"):
            stage.leader(leader)
            await stage.pass_time(130.0)
        assert earlier(stage) == []
        assert "revision" not in stage.get(DAGS, "etl")["status"]
        asked = {name: stage.writes("delete", CONTROLLER_REVISIONS, by=name) for name in stage.replicas}
        assert asked == {"Ann": 1, "Ben": 1, "Cat": 0, "Dan": 0}

    play(story)


def test_a_revision_that_a_run_or_the_dag_itself_uses_stays_through_every_change_of_leaders() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker()
        stage.dag("etl", a_task("old"))
        old, new = await one_run(stage, "r1", "old"), await one_run(stage, "r2", "new")
        stage.edit(DAGS, "etl", tasks=[a_task("old")])
        await stage.pass_time(10.0)
        stage.leader("Ben")
        await stage.pass_time(150.0)
        assert revisions(stage) == sorted([old, new])

    play(story)


def test_a_dag_that_is_edited_all_the_time_tells_of_its_latest_revisions() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", a_task("a"), history={"succeeded": 99})
        named = [await one_run(stage, f"r{number}", f"a{number}") for number in range(EARLIER_REVISIONS_MAX + 3)]
        await stage.pass_time(10.0)
        assert earlier(stage) == named[2:-1]

    play(story)
