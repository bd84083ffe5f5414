"""Slots: suspended, resumed, edited, many at once, with nobody there; each fires once or is accounted for."""

from collections import Counter
from itertools import pairwise

import pytest

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, DAGS, EVENTS
from fencepost.api.times import format_time, parse_time
from fencepost.core.names import DagKey, scheduled_run_name, spread_offset_s
from fencepost.core.phases import RunPhase
from fencepost.kube.errors import ApiError, ConnectionLostError, ForbiddenError, NotFoundError, ServerError
from fencepost.loops.dags import Dags
from fencepost.loops.due_queue import LOOKS_MAX
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.stage import NAMESPACE, NOON_S, Stage, a_task, an_object, play, slot


def test_a_suspended_dag_fires_nothing_and_its_runs_go_on() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        worker = stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *")
        await stage.at(65.0)
        stage.edit(DAGS, "etl", suspend=True)
        await stage.at(200.0)
        assert stage.get(DAGS, "etl")["status"]["state"] == "Suspended"
        assert "nextScheduledTime" not in stage.get(DAGS, "etl")["status"]
        worker.runner.jobs[0].end()
        await stage.until(stage.quiet)
        assert await stage.slots_fired("etl") == {1: 1}

    play(story)


@pytest.mark.parametrize("leader_changes", [False, True])
def test_a_resumed_dag_does_not_make_up_for_what_it_was_suspended_for(leader_changes: bool) -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker()
        stage.dag("etl", cron="* * * * *")
        await stage.at(70.0)
        stage.edit(DAGS, "etl", suspend=True)
        await stage.at(75.0)
        if leader_changes:
            stage.leader("Ben")
        await stage.at(200.0)
        stage.edit(DAGS, "etl", suspend=None)
        await stage.at(250.0)
        assert await stage.slots_fired("etl") == {1: 1, 4: 1}

    play(story)


def test_an_edited_schedule_fires_nothing_from_before_the_edit() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", cron="0 0 1 1 *")
        await stage.at(150.0)
        stage.edit(DAGS, "etl", schedule={"cron": ["* * * * *"]})
        await stage.at(190.0)
        assert await stage.slots_fired("etl") == {3: 1}
        stage.edit(DAGS, "etl", schedule={"cron": ["0 0 1 1 *"]})
        await stage.at(300.0)
        assert await stage.slots_fired("etl") == {3: 1}
        stage.edit(DAGS, "etl", schedule=None)
        await stage.at(310.0)
        assert "nextScheduledTime" not in stage.get(DAGS, "etl")["status"]

    play(story)


def test_an_edit_of_anything_else_does_not_lose_a_slot() -> None:
    """The edit falls between a slot and the moment at which its leader gets to it."""

    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", cron="* * * * *")
        await stage.at(50.0)
        away = stage.cut_off("Ann")
        await stage.at(65.0)
        stage.edit(DAGS, "etl", tasks=[a_task("new")])
        away()
        await stage.at(90.0)
        assert await stage.slots_fired("etl") == {1: 1}

    play(story)


def test_a_new_dag_fires_nothing_from_before_it_was_made() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        await stage.at(90.0)
        stage.dag("etl", cron="* * * * *")
        await stage.at(130.0)
        assert await stage.slots_fired("etl") == {2: 1}

    play(story)


def test_a_spread_moves_the_slot_and_with_it_the_runs_name_and_its_scheduled_time() -> None:
    offset_s = spread_offset_s(DagKey(NAMESPACE, "etl"), 60)

    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=0.1)
        stage.dag("etl", schedule={"cron": ["* * * * *"], "spread": "60s"})
        await stage.at(offset_s - 0.5)
        assert not stage.all(DAG_RUNS)
        await stage.at(offset_s + 5.0)
        [run] = stage.all(DAG_RUNS)
        assert run["metadata"]["name"] == scheduled_run_name("etl", NOON_S + offset_s)
        assert run["spec"]["scheduledTime"] == format_time(NOON_S + offset_s)
        [(_, job)] = stage.started
        assert job.launch.env["FENCEPOST_SCHEDULED_TIME"] == format_time(NOON_S + offset_s)

    assert offset_s > 0
    play(story)


def test_single_times_and_expressions_that_meet_make_one_run() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=0.1)
        at = [format_time(NOON_S + second) for second in (-60, 7, 60, 61)]
        stage.dag("etl", schedule={"cron": ["1 12 * * *", "*/1 12 * * *"], "at": at, "notAfter": at[-1]})
        await stage.at(200.0)
        assert [run["spec"]["scheduledTime"] for run in stage.all(DAG_RUNS)] == at[1:]
        assert "nextScheduledTime" not in stage.get(DAGS, "etl")["status"]

    play(story)


def test_a_slot_beyond_its_starting_deadline_is_missed() -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        stage.worker(job_s=0.1)
        stage.dag("etl", schedule={"cron": ["* * * * *"], "startingDeadline": "40s"})
        await stage.at(50.0)
        ann.kill()
        await stage.at(170.0)
        stage.lead(ben)
        await stage.pass_time(5.0)
        assert not stage.all(DAG_RUNS)
        assert stage.get(DAGS, "etl")["status"]["missed"] == 2
        await stage.at(185.0)
        assert await stage.slots_fired("etl") == {3: 1}

    play(story)


def test_a_slot_that_a_backfill_has_taken_before_has_its_run() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=0.1)
        stage.dag("etl", cron="* * * * *")
        await stage.at(59.99)
        spec = {"dag": "etl", "trigger": "Backfill", "scheduledTime": format_time(NOON_S + 60)}
        stage.put(DAG_RUNS, an_object(DAG_RUNS, slot(1), NAMESPACE, spec=spec))
        await stage.at(90.0)
        status = stage.get(DAGS, "etl")["status"]
        assert (status["fired"], status.get("skipped", 0)) == (1, 0)
        assert stage.finished(slot(1))

    play(story)


def test_a_dag_made_again_under_its_name_starts_afresh() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", cron="* * * * *")
        await stage.at(130.0)
        await stage.delete(DAGS, "etl")
        await stage.at(150.0)
        assert not stage.all(DAG_RUNS)
        assert not stage.all(CONTROLLER_REVISIONS)
        stage.dag("etl", a_task("new"), cron="* * * * *")
        await stage.at(190.0)
        assert [run["metadata"]["name"] for run in stage.all(DAG_RUNS)] == [slot(3)]
        assert stage.run(slot(3)).phase is RunPhase.SUCCEEDED

    play(story)


def test_slots_that_are_too_old_are_missed_and_counted() -> None:
    async def story(stage: Stage) -> None:
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        stage.worker(job_s=0.1)
        stage.dag("etl", cron="* * * * *", concurrency={"policy": "Allow"})
        await stage.at(70.0)
        ann.kill()
        await stage.at(60.0 * 20 + 30.0)
        stage.lead(ben)
        await stage.pass_time(10.0)
        # five minutes back from 20:30 is 15:30
        assert await stage.slots_fired("etl") == Counter([1, 16, 17, 18, 19, 20])
        status = stage.get(DAGS, "etl")["status"]
        assert status["missed"] == 14
        assert parse_time(status["lastScheduledTime"]) == NOON_S + 60 * 20
        assert ben.count("slots_passed_total", fate="missed") == 14

    play(story)


def test_a_skipped_slot_is_counted_once_and_announced_once() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *")
        await stage.at(250.0)
        status = stage.get(DAGS, "etl")["status"]
        assert status["skipped"] == 3
        assert len([event for event in stage.all(EVENTS) if event["reason"] == "SlotSkipped"]) == 1
        assert await stage.slots_fired("etl") == {1: 1}

    play(story)


def test_a_skipped_slot_stays_skipped_under_the_next_leader() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        worker = stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *")
        await stage.at(125.0)
        worker.runner.job_s = 1.0
        worker.runner.jobs[0].end()
        await stage.at(130.0)
        stage.leader("Ben")
        await stage.at(170.0)
        assert await stage.slots_fired("etl") == {1: 1}
        await stage.at(190.0)
        assert await stage.slots_fired("etl") == {1: 1, 3: 1}

    play(story)


def test_a_run_deleted_by_hand_does_not_fire_again() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker(job_s=None)
        stage.dag("etl", cron="* * * * *")
        await stage.until(lambda: bool(stage.started), limit_s=70.0)
        await stage.delete(DAG_RUNS, slot(1))
        took_s = await stage.until(lambda: "lastScheduledTime" in stage.get(DAGS, "etl")["status"])
        assert took_s < 0.2, "marked at once, and not when it is convenient"
        stage.leader("Ben")
        await stage.at(100.0)
        assert not stage.all(DAG_RUNS)

    play(story)


def test_a_herd_is_let_through_a_few_at_a_time_the_most_urgent_first() -> None:
    priorities = ("low", "normal", "high", "critical")

    async def story(stage: Stage) -> None:
        for number in range(200):
            stage.dag(f"d{number:03}", cron="1 12 * * *", priority=priorities[number % 4])
        stage.leader()
        await stage.at(50.0)
        slow = Fault(delay_s=0.5)
        stage.trouble(lambda name, request: slow if (request.verb, request.kind) == ("create", DAG_RUNS) else None)
        await stage.at(80.0)
        sent = [
            (sent_s, stage.get(DAGS, request.name.rpartition("-")[0])["spec"]["priority"])
            for sent_s, _, request in stage.requests
            if (request.verb, request.kind) == ("create", DAG_RUNS)
        ]
        assert len(sent) == 200
        waves: dict[float, list[int]] = {}
        for sent_s, priority in sent:
            waves.setdefault(sent_s, []).append(priorities.index(priority))
        assert max(len(wave) for wave in waves.values()) <= LOOKS_MAX
        assert all(min(before) >= max(after) for before, after in pairwise(waves.values()))

    play(story)


@pytest.mark.timeout(60)
def test_two_thousand_dags_due_in_the_same_second_fire_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """And five hundred others that are not due cost nothing at that moment."""
    turns: Counter[str] = Counter()
    real = Dags._turn

    async def counted(self: Dags, key: object) -> object:
        turns[key.name] += 1  # type: ignore[attr-defined]
        return await real(self, key)  # type: ignore[arg-type]

    monkeypatch.setattr(Dags, "_turn", counted)

    async def story(stage: Stage) -> None:
        for number in range(2000):
            stage.dag(f"due-{number:04}", cron="2 12 * * *")
        for number in range(500):
            stage.dag(f"later-{number:04}", cron="3 13 * * *")
        ann = stage.leader()
        await stage.at(115.0)
        turns.clear()
        await stage.at(130.0)
        runs = Counter(run["spec"]["dag"] for run in stage.all(DAG_RUNS))
        assert len(runs) == 2000
        assert set(runs.values()) == {1}
        assert not [name for name in turns if name.startswith("later")]
        assert max(turns.values()) <= 3
        assert ann.scheduler.stuck() == ""

    play(story, lawful=False)


@pytest.mark.parametrize(
    "error",
    [
        ServerError("etcdserver: no space"),
        ConnectionLostError("reset"),
        NotFoundError("namespace demo is gone"),
        ForbiddenError("quota"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_creates_that_fail_for_minutes_are_tried_with_a_back_off(error: ApiError) -> None:
    """Reads work, writes do not: as with an etcd that is full."""

    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker()
        stage.dag("etl", cron="* * * * *")
        await stage.at(50.0)

        def no_creates(name: str, request: Request) -> Fault | None:
            this = (request.verb, request.kind) == ("create", DAG_RUNS)
            return Fault(error=error) if this else None

        works_again = stage.trouble(no_creates)
        await stage.at(180.0)
        assert 5 < stage.writes("create", DAG_RUNS) < 30
        works_again()
        await stage.until(lambda: stage.find(DAG_RUNS, slot(1)) is not None, limit_s=15.0)
        await stage.at(235.0)
        status = stage.get(DAGS, "etl")["status"]
        fired = await stage.slots_fired("etl")
        assert sum(fired.values()) + status["skipped"] == 3
        assert set(fired.values()) == {1}

    play(story)


def test_a_run_whose_create_had_no_answer_is_not_skipped_for_its_own_sake() -> None:
    """Its create is stored, the answer is lost, and reading it again fails too: only the watch tells of it. It is
    active then, and Forbid allows one."""

    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=90.0)
        stage.dag("etl", cron="* * * * *")
        stage.once("Ann", "create", DAG_RUNS, Fault(error=ConnectionLostError("reset"), carried_out=True))
        stage.once("Ann", "get", DAG_RUNS, Fault(error=ServerError("etcd is away")))
        await stage.at(100.0)
        assert not stage.get(DAGS, "etl")["status"].get("skipped")
        await stage.at(170.0)
        assert stage.get(DAGS, "etl")["status"]["skipped"] == 1, "the slot of the second minute"
        assert stage.run(slot(1)).phase is RunPhase.SUCCEEDED
        assert await stage.slots_fired("etl") == {1: 1}

    play(story)
