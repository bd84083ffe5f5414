"""A ControllerRevision that somebody deletes while runs use it."""

import pytest

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, DAGS, DEAD_LETTERS
from fencepost.core.names import JobKey
from fencepost.core.phases import RunPhase
from fencepost.kube.errors import OverloadedError
from fencepost.memory.faults import Fault
from tests.unit.loops.stage import NAMESPACE, Stage, a_task, play


async def half_way(stage: Stage) -> str:
    """A run of two tasks, the first of which runs on a worker that then goes; the name of its revision."""
    stage.leader()
    w1 = stage.worker("w1", job_s=None)
    stage.dag("etl", a_task("first"), a_task("second", "first"))
    stage.manual_run("r1", "etl")
    await stage.until(lambda: bool(w1.runner.jobs))
    revision: str = stage.get(DAG_RUNS, "r1")["spec"]["revision"]
    await stage.admin.delete(CONTROLLER_REVISIONS, NAMESPACE, revision)
    w1.runner.jobs[0].end()
    w1.worker.drain()
    await stage.until(lambda: w1.over)
    return revision


@pytest.mark.parametrize("hindered", [False, True])
def test_it_is_made_again_from_the_dag_and_the_job_loses_nothing(hindered: bool) -> None:
    async def story(stage: Stage) -> None:
        revision = await half_way(stage)
        if hindered:
            stage.once("Ann", "create", CONTROLLER_REVISIONS, Fault(error=OverloadedError("later")))
        w2 = stage.worker("w2")
        await stage.until(lambda: stage.finished("r1"), limit_s=15.0)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        assert stage.find(CONTROLLER_REVISIONS, revision) is not None
        [job] = w2.runner.jobs
        assert job.launch.source.attempt == 1

    play(story)


def test_where_the_dag_has_another_content_by_now_the_job_fails_and_says_why() -> None:
    async def story(stage: Stage) -> None:
        revision = await half_way(stage)
        stage.edit(DAGS, "etl", tasks=[a_task("other")])
        stage.worker("w2")
        await stage.until(lambda: stage.finished("r1"), limit_s=15.0)
        assert stage.run("r1").phase is RunPhase.FAILED
        failure = stage.run("r1").failures[JobKey("second", 0)]
        assert failure.startswith("Missing")
        assert f"ControllerRevision {NAMESPACE}/{revision} does not exist" in failure

    play(story)


def test_a_new_leader_who_cannot_have_the_definition_writes_the_letter_of_a_job_that_died_before() -> None:
    async def story(stage: Stage) -> None:
        revision = await half_way(stage)
        stage.edit(DAGS, "etl", tasks=[a_task("other")])
        ben = stage.replica("Ben")
        stage.once("Ann", "create", DEAD_LETTERS, Fault(error=OverloadedError("later"), carried_out=False))
        stage.worker("w2")
        await stage.until(lambda: bool(stage.run("r1").dying), limit_s=15.0)
        stage.replicas["Ann"].kill()
        stage.lead(ben)
        await stage.until(lambda: stage.finished("r1"), limit_s=15.0)
        assert stage.run("r1").reason == "DefinitionMissing"
        assert not stage.run("r1").dying
        (letter,) = stage.all(DEAD_LETTERS)
        job = letter["spec"]["job"]
        assert (job["run"], job["task"]) == ("r1", "second")
        assert f"ControllerRevision {NAMESPACE}/{revision} does not exist" in job["message"]

    play(story)
