"""Replays of dead letters: the job runs again, once, in its own run or in a new one; and the letter tells of it."""

from typing import Any

import pytest

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, DAGS, DEAD_LETTERS
from fencepost.core.phases import JobPhase, RunPhase
from fencepost.kube.errors import ConflictError, ConnectionLostError, OverloadedError
from fencepost.kube.protocol import Obj
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.processes import StageWorker
from tests.unit.loops.stage import Stage, a_task, play


async def with_letters(stage: Stage, jobs: int = 1, **dag: Any) -> StageWorker:
    """A worker whose jobs end when the story says so; and run r1, all of whose `load` jobs have failed for good."""
    worker = stage.worker(job_s=None, slots=8)
    load = a_task("load", "extract", **({} if jobs == 1 else {"forEach": {"count": jobs}}))
    stage.dag("etl", a_task("extract"), load, a_task("report", "load"), **dag)
    stage.manual_run("r1", "etl")
    await end(stage, worker, 1)
    await end(stage, worker, jobs, 3)
    await stage.until(lambda: stage.finished("r1"))
    return worker


async def end(stage: Stage, worker: StageWorker, jobs: int, exit_code: int = 0) -> None:
    """Let so many jobs end, as soon as all of them run."""
    await stage.until(lambda: sum(not job.ended for job in worker.runner.jobs) >= jobs)
    for job in [job for job in worker.runner.jobs if not job.ended][:jobs]:
        job.end(exit_code)
    await stage.pass_time(0.1)


def letters(stage: Stage) -> list[Obj]:
    return sorted(stage.all(DEAD_LETTERS), key=lambda letter: letter["spec"]["job"].get("index", 0))


def replay(stage: Stage, *which: int, times: int = 1) -> None:
    """A person asks for replays of these letters (none named: of all)."""
    for place, letter in enumerate(letters(stage)):
        if not which or place in which:
            stage.edit(DEAD_LETTERS, letter["metadata"]["name"], replay=times)


def told(stage: Stage, place: int = 0) -> tuple[str, str, int]:
    status = letters(stage)[place].get("status", {})
    return status.get("phase", ""), status.get("run", ""), status.get("round", 0)


def tasks_of(worker: StageWorker) -> list[str]:
    return [str(job.launch.source.job) for job in worker.runner.jobs]


def test_a_replayed_job_runs_again_in_its_own_run_and_what_depended_on_it_goes_on() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await with_letters(stage)
        token = stage.run("r1").lease_counter
        replay(stage)
        await stage.until(lambda: told(stage)[0] == "Replaying")
        assert told(stage) == ("Replaying", "r1", 1)
        assert int(worker.runner.jobs[-1].launch.env["FENCEPOST_TOKEN"]) == token + 1
        await end(stage, worker, 1)
        await end(stage, worker, 1)
        await stage.until(lambda: stage.finished("r1"))
        await stage.until(lambda: told(stage) == ("Succeeded", "r1", 1))
        assert tasks_of(worker) == ["extract/0", "load/0", "load/0", "report/0"]
        assert stage.run("r1").phase is RunPhase.SUCCEEDED
        spec = stage.get(DAG_RUNS, "r1")["spec"]
        assert (spec["round"], spec["rerun"]) == (1, {"round": 1, "from": "Jobs"})
        await stage.until(stage.quiet)

    play(story)


def test_a_job_that_fails_again_leaves_another_letter_and_the_old_one_says_so() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await with_letters(stage)
        name = letters(stage)[0]["metadata"]["name"]
        replay(stage)
        await end(stage, worker, 1, 4)
        await stage.until(lambda: stage.finished("r1") and len(letters(stage)) == 2)
        await stage.pass_time(2.0)
        assert stage.get(DEAD_LETTERS, name)["status"]["phase"] == "Failed"
        (new,) = [letter for letter in letters(stage) if letter["metadata"]["name"] != name]
        assert (new["spec"]["job"]["round"], new["spec"]["job"]["exitCode"]) == (1, 4)
        assert len(worker.runner.jobs) == 3

    play(story)


def test_letters_that_are_replayed_together_share_a_round_and_the_others_stay() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await with_letters(stage, jobs=4)
        replay(stage, 0, 2)
        await end(stage, worker, 2)
        await stage.until(lambda: stage.finished("r1") and stage.run("r1").round == 1)
        await stage.until(lambda: told(stage, 0) == told(stage, 2) == ("Succeeded", "r1", 1))
        assert told(stage, 1) == told(stage, 3) == ("", "", 0)
        ended = stage.run("r1").tasks["load"].ended
        assert (str(ended[JobPhase.SUCCEEDED]), str(ended[JobPhase.FAILED])) == ("0,2", "1,3")
        replay(stage, 1, 3)
        await end(stage, worker, 2)
        await end(stage, worker, 1)
        await stage.until(lambda: stage.finished("r1") and stage.run("r1").round == 2)
        assert stage.run("r1").phase is RunPhase.SUCCEEDED

    play(story)


WRITES = {"the round": DAG_RUNS, "the letter": DEAD_LETTERS}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("write", WRITES)
def test_a_leader_dies_at_each_write_of_a_replay_and_the_job_runs_once_more_and_no_more(
    write: str, moment: str
) -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        worker = await with_letters(stage)
        dead: list[Request] = []

        def die(name: str, request: Request) -> Fault | None:
            if dead or (name, request.verb, request.kind) != ("Ann", "update", WRITES[write]):
                return None
            dead.append(request)
            ann.kill()
            return Fault(error=ConnectionLostError("dead"), carried_out=moment == "after")

        stage.trouble(die)
        replay(stage)
        await stage.until(lambda: bool(dead))
        stage.lead(ben)
        await end(stage, worker, 1)
        await end(stage, worker, 1)
        await stage.until(lambda: stage.finished("r1"))
        await stage.until(lambda: told(stage) == ("Succeeded", "r1", 1))
        assert tasks_of(worker) == ["extract/0", "load/0", "load/0", "report/0"]
        await stage.pass_time(600.0)
        assert len(worker.runner.jobs) == 4

    play(story)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(error=ConnectionLostError("reset"), carried_out=True),
        Fault(error=ConflictError("changed meanwhile")),
        Fault(error=OverloadedError("later")),
    ],
    ids=["lost answer", "conflict", "overloaded"],
)
@pytest.mark.parametrize("write", WRITES)
def test_each_write_of_a_replay_goes_wrong_once(write: str, fault: Fault) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await with_letters(stage)
        stage.once("Ann", "update", WRITES[write], fault, "status" if write == "the letter" else "")
        replay(stage)
        await end(stage, worker, 1)
        await end(stage, worker, 1)
        await stage.until(lambda: stage.finished("r1"))
        await stage.until(lambda: told(stage) == ("Succeeded", "r1", 1))
        assert tasks_of(worker) == ["extract/0", "load/0", "load/0", "report/0"]

    play(story)


def test_where_the_run_is_gone_a_new_one_runs_the_job_and_what_depends_on_it_and_nothing_else() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await with_letters(stage, jobs=2, params={"region": "eu"})
        await stage.delete(DAG_RUNS, "r1")
        replay(stage, 1)
        await end(stage, worker, 1)
        await end(stage, worker, 1)
        await stage.until(lambda: told(stage, 1)[0] == "Succeeded")
        assert tasks_of(worker)[3:] == ["load/1", "report/0"]
        _, run, round_ = told(stage, 1)
        assert (run, round_) != ("r1", 0)
        assert stage.run(run).phase is RunPhase.SUCCEEDED
        assert stage.get(DAG_RUNS, run)["metadata"]["ownerReferences"][0]["kind"] == "DAG"

    play(story)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["create", "update"])
def test_a_leader_dies_as_it_makes_a_new_run_and_there_is_one_in_the_end(verb: str, moment: str) -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        worker = await with_letters(stage)
        await stage.delete(DAG_RUNS, "r1")
        dead: list[Request] = []

        def die(name: str, request: Request) -> Fault | None:
            kind = DAG_RUNS if verb == "create" else DEAD_LETTERS
            if dead or (name, request.verb, request.kind) != ("Ann", verb, kind):
                return None
            dead.append(request)
            ann.kill()
            return Fault(error=ConnectionLostError("dead"), carried_out=moment == "after")

        stage.trouble(die)
        replay(stage)
        await stage.until(lambda: bool(dead))
        stage.lead(ben)
        await end(stage, worker, 1)
        await end(stage, worker, 1)
        await stage.until(lambda: told(stage)[0] == "Succeeded")
        assert tasks_of(worker)[2:] == ["load/0", "report/0"]
        assert len(stage.all(DAG_RUNS)) == 1

    play(story)


def test_a_replay_of_a_job_in_a_run_that_is_under_way_waits_for_its_end() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", a_task("load"), a_task("slow"))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: len(worker.runner.jobs) == 2)
        worker.runner.of_task("load")[0].end(3)
        await stage.until(lambda: len(letters(stage)) == 1)
        replay(stage)
        await stage.pass_time(30.0)
        assert len(worker.runner.jobs) == 2
        worker.runner.of_task("slow")[0].end(0)
        await end(stage, worker, 1)
        await stage.until(lambda: told(stage) == ("Succeeded", "r1", 1))

    play(story)


def test_a_letter_whose_job_has_succeeded_meanwhile_says_so_and_starts_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await with_letters(stage)
        stage.edit(DAG_RUNS, "r1", round=1)
        await end(stage, worker, 1)
        await end(stage, worker, 1)
        await stage.until(lambda: stage.finished("r1"))
        replay(stage)
        await stage.until(lambda: told(stage)[0] == "Succeeded")
        await stage.pass_time(10.0)
        assert (stage.run("r1").round, len(worker.runner.jobs)) == (1, 4)

    play(story)


def test_a_replay_that_cannot_be_is_refused_with_the_reason() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        await with_letters(stage)
        job = letters(stage)[0]["spec"]["job"]
        await stage.delete(DAG_RUNS, "r1")
        stage.edit(DAGS, "etl", tasks=[a_task("other")])
        await stage.pass_time(10.0)
        await stage.admin.delete(CONTROLLER_REVISIONS, "demo", job["revision"])
        ann, ben = stage.replicas["Ann"], stage.replica("Ben")
        ann.kill()
        stage.lead(ben)
        await stage.pass_time(5.0)
        replay(stage)
        await stage.until(lambda: told(stage)[0] == "Refused")
        assert job["revision"] in letters(stage)[0]["status"]["message"]

    play(story)


def test_a_letter_keeps_the_definition_of_its_job_until_it_is_gone_itself() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await with_letters(stage)
        revision = letters(stage)[0]["spec"]["job"]["revision"]
        stage.edit(DAGS, "etl", tasks=[a_task("other")])
        await stage.delete(DAG_RUNS, "r1")
        await stage.pass_time(150.0)
        assert stage.find(CONTROLLER_REVISIONS, revision) is not None
        replay(stage)
        await end(stage, worker, 1)
        await end(stage, worker, 1)
        await stage.until(lambda: told(stage)[0] == "Succeeded")
        assert tasks_of(worker)[2:] == ["load/0", "report/0"]
        await stage.delete(DAG_RUNS, told(stage)[1])
        await stage.delete(DEAD_LETTERS, letters(stage)[0]["metadata"]["name"])
        await stage.pass_time(30.0)
        assert stage.find(CONTROLLER_REVISIONS, revision) is None

    play(story)


def test_a_letter_that_is_thrown_away_while_its_replay_begins_holds_up_no_run() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await with_letters(stage)
        heals = stage.trouble(
            lambda name, request: (
                Fault(error=OverloadedError("later"))
                if request.kind is DEAD_LETTERS and request.verb == "update"
                else None
            )
        )
        replay(stage)
        await end(stage, worker, 1)
        await end(stage, worker, 1)
        await stage.pass_time(5.0)
        assert stage.run("r1").reason == "DeadLetters"
        await stage.delete(DEAD_LETTERS, letters(stage)[0]["metadata"]["name"])
        heals()
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.SUCCEEDED

    play(story)


def test_a_letter_is_replayed_as_often_as_a_person_asks() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = await with_letters(stage)
        name = letters(stage)[0]["metadata"]["name"]
        for times in (1, 2):
            stage.edit(DEAD_LETTERS, name, replay=times)
            await end(stage, worker, 1, 4)
            await stage.until(lambda: stage.finished("r1"))
            await stage.until(lambda: stage.get(DEAD_LETTERS, name)["status"]["phase"] == "Failed")
        assert stage.run("r1").round == 2
        assert tasks_of(worker) == ["extract/0", *["load/0"] * 3]

    play(story)


def test_a_cancelled_run_replays_the_letter_of_its_dead_job() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", a_task("load"), a_task("slow"))
        stage.manual_run("r1", "etl")
        await stage.until(lambda: len(worker.runner.jobs) == 2)
        worker.runner.of_task("load")[0].end(3)
        await stage.until(lambda: len(letters(stage)) == 1)
        stage.edit(DAG_RUNS, "r1", cancel=True)
        await stage.until(lambda: stage.finished("r1"))
        replay(stage)
        await end(stage, worker, 1)
        await stage.until(lambda: told(stage) == ("Succeeded", "r1", 1))
        assert stage.run("r1").reason == "JobsCancelled"

    play(story)
