"""Dead letters: written once for each job that failed for good, within their limits, whatever happens meanwhile."""

from typing import Any

import pytest

from fencepost.api.names import DAG_RUNS, DAGS, DEAD_LETTERS, EVENTS
from fencepost.core.phases import RunPhase
from fencepost.kube.errors import AlreadyExistsError, ConnectionLostError, ForbiddenError, OverloadedError
from fencepost.kube.protocol import Obj
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.processes import StageWorker
from tests.unit.loops.stage import Stage, a_task, play


async def fail(stage: Stage, name: str, worker: StageWorker, jobs: int = 1, exit_code: int = 3, **texts: str) -> None:
    """A run by hand all of whose jobs fail."""
    done = len(worker.runner.jobs)
    stage.manual_run(name, "etl")
    for number in range(done, done + jobs):
        await stage.until(lambda number=number: len(worker.runner.jobs) > number)  # type: ignore[misc]
        worker.runner.jobs[number].end(exit_code, **texts)
    await stage.until(lambda: stage.finished(name))


def letters(stage: Stage) -> list[Obj]:
    return sorted(stage.all(DEAD_LETTERS), key=lambda letter: letter["spec"]["job"].get("index", 0))


def count(stage: Stage, name: str = "Ann", **labels: str) -> float:
    return stage.replicas[name].count("dead_letters_total", **labels)


def test_a_job_that_fails_in_the_write_that_makes_its_run_leaves_a_letter() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.dag("etl", a_task("load", when="int(params.region) > 0"), params={"region": "eu"}, cron="* * * * *")
        await stage.at(70.0)
        (letter,) = letters(stage)
        assert letter["spec"]["job"]["reason"] == "NotStarted"
        (run,) = stage.all(DAG_RUNS)
        assert stage.run(run["metadata"]["name"]).phase is RunPhase.FAILED

    play(story)


def test_a_letter_that_is_said_to_exist_is_looked_for() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        said = AlreadyExistsError("exists", reason="AlreadyExists")
        stage.once("Ann", "create", DEAD_LETTERS, Fault(error=said, carried_out=False))
        await fail(stage, "r1", worker)
        assert len(letters(stage)) == 1

    play(story)


def test_a_job_that_used_up_its_retries_leaves_a_letter_that_tells_of_its_attempts() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        retries = {"limit": 1, "backoff": {"base": "1s", "jitter": 0}}
        dag = stage.dag("etl", a_task("load", retries=retries), params={"region": "eu"})
        stage.manual_run("r1", "etl", params={"region": "us"}, scheduledTime="2026-11-30T03:00:00Z")
        for number, code in enumerate((3, 4)):
            await stage.until(lambda number=number: len(worker.runner.jobs) > number)  # type: ignore[misc]
            await stage.pass_time(1.0)
            worker.runner.jobs[number].end(code, tail=f"no luck {code}")
        await stage.until(lambda: stage.finished("r1"))
        assert stage.run("r1").phase is RunPhase.FAILED
        (letter,) = letters(stage)
        (owner,) = letter["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("DAG", dag["metadata"]["uid"])
        job = letter["spec"]["job"]
        told = {"dag": "etl", "run": "r1", "task": "load", "index": 0, "reason": "Failed", "exitCode": 4, "attempt": 2}
        assert told.items() <= job.items()
        assert job["params"] == {"region": "us"}
        assert job["scheduledTime"] == "2026-11-30T03:00:00Z"
        assert job["message"] == "no luck 4"
        assert [(each["attempt"], each["exitCode"]) for each in job["attempts"]] == [(1, 3), (2, 4)]
        assert all(each["startTime"] < each["endTime"] for each in job["attempts"])
        assert count(stage, fate="written") == 1

    play(story)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("write", ["the fold", "the letter", "the end"])
def test_a_leader_dies_at_each_write_of_a_death_and_one_letter_is_there_in_the_end(write: str, moment: str) -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        await stage.pass_time(1.0)
        kind = DEAD_LETTERS if write == "the letter" else DAG_RUNS
        left = {"the fold": 1, "the letter": 1, "the end": 2}[write]
        dead: list[Request] = []

        def die(name: str, request: Request) -> Fault | None:
            nonlocal left
            if name != "Ann" or request.kind is not kind or request.verb not in ("create", "update"):
                return None
            left -= 1
            if left:
                return None
            dead.append(request)
            ann.kill()
            return Fault(error=ConnectionLostError("dead"), carried_out=moment == "after")

        stage.trouble(die)
        worker.runner.jobs[0].end(3)
        await stage.until(lambda: bool(dead))
        assert not (write == "the end" and moment == "before" and stage.finished("r1"))
        stage.lead(ben)
        await stage.until(lambda: stage.finished("r1"))
        (letter,) = letters(stage)
        assert letter["spec"]["job"]["exitCode"] == 3
        assert len(worker.runner.jobs) == 1

    play(story)


def test_the_run_waits_for_its_letter_while_the_server_has_too_much_to_do() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        heals = stage.trouble(
            lambda name, request: (
                Fault(error=OverloadedError("later"))
                if request.kind is DEAD_LETTERS and request.verb == "create"
                else None
            )
        )
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        worker.runner.jobs[0].end(3)
        await stage.pass_time(30.0)
        assert (stage.run("r1").phase, stage.run("r1").reason) == (RunPhase.RUNNING, "DeadLetters")
        heals()
        await stage.until(lambda: stage.finished("r1"))
        assert len(letters(stage)) == 1

    play(story)


def test_letters_that_may_not_be_written_are_counted_and_hold_up_no_run() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        stage.trouble(
            lambda name, request: (
                Fault(error=ForbiddenError("no")) if request.kind is DEAD_LETTERS and request.verb == "create" else None
            )
        )
        await fail(stage, "r1", worker)
        assert count(stage, fate="unwritten") == 1

    play(story)


def test_a_dag_keeps_so_many_letters_and_counts_what_it_has_no_room_for() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None, slots=8)
        stage.dag("etl", a_task("load", forEach={"count": 8}), deadLetters={"limit": 3})
        await fail(stage, "r1", worker, jobs=8)
        assert len(letters(stage)) == 3
        assert (count(stage, fate="written"), count(stage, fate="unwritten")) == (3, 5)
        await fail(stage, "r2", worker, jobs=8)
        assert {letter["spec"]["job"]["run"] for letter in letters(stage)} == {"r1"}
        assert count(stage, fate="unwritten") == 13

    play(story)


def missed(stage: Stage) -> int:
    """What the DAG tells of letters for which there was no room."""
    told: int = stage.get(DAGS, "etl")["status"].get("deadLettersMissed", 0)
    return told


def told_full(stage: Stage) -> list[str]:
    """The Events on the DAG that tell so."""
    events = [event for event in stage.all(EVENTS) if event["reason"] == "DeadLettersFull"]
    assert all(event["involvedObject"]["kind"] == "DAG" for event in events)
    return [event["message"] for event in events]


def test_letters_without_room_are_told_of_once_for_each_streak_and_counted_through_a_change_of_leaders() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None, slots=8)
        stage.dag("etl", a_task("load", forEach={"count": 4}), deadLetters={"limit": 3})
        await fail(stage, "r1", worker, jobs=4)
        await stage.until(lambda: missed(stage) == 1)
        (told,) = told_full(stage)
        assert "1 job of run demo/r1 failed for good and left no dead letter: DAG demo/etl keeps 3" in told
        await fail(stage, "r2", worker, jobs=4)
        await stage.until(lambda: missed(stage) == 5)
        assert len(told_full(stage)) == 1
        await stage.delete(DEAD_LETTERS, letters(stage)[0]["metadata"]["name"])
        await stage.pass_time(1.0)
        stage.leader("Ben")
        await fail(stage, "r3", worker, jobs=4)
        await stage.until(lambda: missed(stage) == 8)
        await fail(stage, "r4", worker, jobs=4)
        await stage.until(lambda: missed(stage) == 12)
        assert len(told_full(stage)) == 2

    play(story)


def test_a_dag_made_anew_is_not_told_of_the_dead_jobs_of_the_one_before() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        stage.manual_run("r1", "etl")
        await stage.until(lambda: bool(worker.runner.jobs))
        await stage.delete(DAGS, "etl", propagation="Orphan")
        stage.dag("etl")
        worker.runner.jobs[0].end(3)
        await stage.until(lambda: stage.finished("r1"))
        await stage.pass_time(10.0)
        assert (letters(stage), missed(stage), told_full(stage)) == ([], 0, [])
        assert count(stage, fate="unwritten") == 1

    play(story)


def test_whoever_keeps_no_letters_at_all_is_not_told_that_there_is_no_room_for_them() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", deadLetters={"limit": 0})
        await fail(stage, "r1", worker)
        await stage.pass_time(10.0)
        assert (missed(stage), told_full(stage), count(stage, fate="unwritten")) == (0, [], 1)

    play(story)


def test_a_great_many_letters_are_written_a_few_at_a_time_and_a_start_is_not_held_up_by_them() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=0.1, slots=32)
        worker.runner.exit_codes["load"] = [3] * 500
        stage.dag("etl", a_task("load", forEach={"count": 500}), deadLetters={"limit": 500})
        stage.dag("quick")
        stage.manual_run("r1", "etl")
        await stage.until(lambda: len(letters(stage)) > 50)
        stage.manual_run("r2", "quick")
        assert await stage.until(lambda: stage.finished("r2")) < 2.0
        assert not stage.finished("r1")
        await stage.until(lambda: stage.finished("r1"))
        assert len(letters(stage)) == 500
        moments = sorted(
            at_s for at_s, _, request in stage.requests if request.kind is DEAD_LETTERS and request.verb == "create"
        )
        assert all(later - sooner >= 0.0999 for sooner, later in zip(moments, moments[10:], strict=False))

    play(story)


def test_letters_expire() -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        worker = stage.worker(job_s=None)
        stage.dag("etl", deadLetters={"ttl": "2h"})
        await fail(stage, "r1", worker)
        ann.kill()
        stage.lead(ben)
        await fail(stage, "r2", worker)
        await stage.at(7100.0)
        assert len(letters(stage)) == 2
        await stage.at(7300.0)
        assert not letters(stage)

    play(story)


def test_letters_go_with_their_dag_and_not_with_their_run() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl")
        await fail(stage, "r1", worker)
        await stage.delete(DAG_RUNS, "r1")
        await stage.pass_time(10.0)
        assert len(letters(stage)) == 1
        await stage.delete(DAGS, "etl")
        await stage.pass_time(10.0)
        assert not letters(stage)

    play(story)


def test_a_letter_that_cannot_be_read_is_set_aside_and_the_others_are_kept_in_order() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        dag = stage.dag("etl")
        garbled: dict[str, Any] = {
            "apiVersion": "fencepost.dev/v1alpha1",
            "kind": "DeadLetter",
            "metadata": {
                "name": "etl-dgarbled000",
                "namespace": "demo",
                "ownerReferences": [{"apiVersion": "v1", "kind": "DAG", "name": "etl", "uid": dag["metadata"]["uid"]}],
            },
            "spec": {"job": {"dag": "etl", "index": "many"}},
        }
        stage.put(DEAD_LETTERS, garbled)
        await fail(stage, "r1", worker)
        assert len(stage.all(DEAD_LETTERS)) == 2

    play(story)
