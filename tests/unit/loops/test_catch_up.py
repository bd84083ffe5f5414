"""Times that passed while nobody was there: who makes up for which, and what people are told of the rest."""

from typing import Any

import orjson
import pytest

from fencepost.api.names import DAG_RUNS, DAGS, EVENTS
from fencepost.api.times import format_time
from fencepost.kube.errors import OverloadedError
from fencepost.memory.faults import Fault
from fencepost.memory.identity import ADMIN
from tests.unit.loops.stage import NOON_S, Stage, play, slot

ALLOW = {"policy": "Allow"}


def schedule(policy: str, **more: Any) -> dict[str, Any]:
    catch_up = {"policy": policy, **({"limit": more.pop("limit")} if "limit" in more else {})}
    return {"cron": ["* * * * *"], "catchUp": catch_up, **more}


def told(stage: Stage, dag: str = "etl") -> dict[str, int]:
    """The fates that the status tells of, without those that never were."""
    status = stage.get(DAGS, dag)["status"]
    return {fate: status[fate] for fate in ("fired", "late", "skipped", "missed") if status.get(fate)}


def events(stage: Stage, reason: str) -> list[str]:
    return [event["message"] for event in stage.all(EVENTS) if event["reason"] == reason]


async def outage(stage: Stage, until_s: float) -> None:
    """The only leader dies at second 70, with minute 1 fired, and nobody is there until then."""
    await stage.at(70.0)
    stage.replicas["Ann"].kill()
    await stage.at(until_s)
    stage.leader("Ben")
    await stage.pass_time(20.0)


@pytest.mark.parametrize(
    ("policy", "more", "want", "fates"),
    [
        ("None", {}, [1, 16, 17, 18, 19, 20], {"fired": 2, "late": 4, "missed": 14}),
        ("None", {"startingDeadline": "90s"}, [1, 19, 20], {"fired": 2, "late": 1, "missed": 17}),
        ("Latest", {}, [1, 20], {"fired": 2, "missed": 18}),
        ("All", {}, [1, *range(11, 21)], {"fired": 2, "late": 9, "missed": 9}),
        ("All", {"limit": 3}, [1, 18, 19, 20], {"fired": 2, "late": 2, "missed": 16}),
        ("All", {"limit": 3, "startingDeadline": "90s"}, [1, 19, 20], {"fired": 2, "late": 1, "missed": 17}),
    ],
)
def test_after_an_outage_of_19_minutes(
    policy: str, more: dict[str, Any], want: list[int], fates: dict[str, int]
) -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker(job_s=0.1, slots=20)
        stage.dag("etl", schedule=schedule(policy, **more), concurrency=ALLOW)
        await outage(stage, 20 * 60.0 + 30.0)
        assert await stage.slots_fired("etl") == dict.fromkeys(want, 1)
        assert told(stage) == fates
        ben = stage.replicas["Ben"]
        assert ben.count("slots_passed_total", fate="missed") == fates["missed"]
        assert ben.count("slots_passed_total", fate="late") == fates.get("late", 0)

    play(story)


def test_what_is_made_up_for_runs_oldest_first_and_one_after_another_where_only_one_may() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker(job_s=5.0)
        stage.dag("etl", schedule=schedule("All"))
        await outage(stage, 10 * 60.0 + 5.0)
        await stage.pass_time(40.0)
        runs = sorted(stage.all(DAG_RUNS), key=lambda run: run["status"]["startTime"])
        names = [slot(minute) for minute in range(2, 12)]
        assert [run["metadata"]["name"] for run in runs][-10:] == names[: len(runs[-10:])]
        starts = [run["status"]["startTime"] for run in runs]
        assert len(set(starts)) == len(starts), "never two at once"
        assert "skipped" not in told(stage)

    play(story)


def test_people_are_told_of_the_first_of_a_row_and_again_after_all_has_been_well() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker(job_s=0.1, slots=20)
        stage.dag("etl", schedule=schedule("Latest"), concurrency=ALLOW)
        await outage(stage, 600.0)
        assert events(stage, "SlotMissed") == [
            f"NotLatest: 8 scheduled times up to {format_time(NOON_S + 540)} made no run: "
            "of several due times only the latest is run; see schedule.catchUp"
        ]
        stage.replicas["Ben"].kill()
        await stage.at(900.0)
        stage.leader("Eve")
        await stage.pass_time(20.0)
        assert len(events(stage, "SlotMissed")) == 2
        assert not events(stage, "SlotLate")

    play(story)


def test_a_run_that_is_made_late_is_told_of_with_its_name() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker(job_s=0.1, slots=20)
        stage.dag("etl", schedule=schedule("All"), concurrency=ALLOW)
        await outage(stage, 60.0 * 4 + 10.0)
        assert events(stage, "SlotLate") == [f"run {slot(2)} was made more than a minute after its time"]

    play(story)


@pytest.mark.parametrize(("policy", "want"), [("None", [1, 5]), ("Latest", [1, 4, 5]), ("All", [1, 2, 3, 4, 5])])
def test_what_passed_in_a_suspension_is_made_up_for_only_if_asked(policy: str, want: list[int]) -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=0.1)
        stage.dag("etl", schedule=schedule(policy), concurrency=ALLOW)
        await stage.at(70.0)
        stage.edit(DAGS, "etl", suspend=True)
        await stage.at(250.0)
        assert await stage.slots_fired("etl") == {1: 1}
        stage.edit(DAGS, "etl", suspend=False)
        await stage.at(310.0)
        assert await stage.slots_fired("etl") == dict.fromkeys(want, 1)

    play(story)


def test_a_new_dag_makes_up_for_what_came_before_it_only_from_its_not_before_on_and_if_asked() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=0.1, slots=10)
        not_before = format_time(NOON_S + 120)
        await stage.at(270.0)
        for policy in ("None", "Latest", "All"):
            stage.dag(policy.lower(), schedule=schedule(policy, notBefore=not_before), concurrency=ALLOW)
        stage.dag("unbounded", schedule=schedule("All"), concurrency=ALLOW)
        await stage.at(290.0)
        assert await stage.slots_fired("none") == {}
        assert await stage.slots_fired("latest") == {4: 1}
        assert await stage.slots_fired("all") == {2: 1, 3: 1, 4: 1}
        assert await stage.slots_fired("unbounded") == {}

    play(story)


def test_catch_up_that_is_switched_on_later_does_not_reach_back_behind_what_was_decided() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=0.1)
        stage.dag("etl", schedule=schedule("None"), suspend=True)
        await stage.at(250.0)
        stage.edit(DAGS, "etl", suspend=False)
        await stage.at(255.0)
        stage.edit(DAGS, "etl", schedule=schedule("All"))
        await stage.at(310.0)
        assert await stage.slots_fired("etl") == {5: 1}

    play(story)


def test_fates_that_the_leader_before_had_not_stored_are_counted_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader("Ann")
        stage.worker(job_s=0.1)
        stage.dag("etl", schedule=schedule("None"))
        await stage.at(60.5)
        ann.kill()
        assert not told(stage)
        stage.leader("Ben")
        await stage.at(110.0)
        assert told(stage) == {"fired": 1}
        assert stage.get(DAGS, "etl")["status"]["lastScheduledRun"] == slot(1)

    play(story)


@pytest.mark.parametrize("policy", ["None", "Latest", "All"])
def test_a_year_away_is_over_in_a_moment(policy: str) -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        stage.worker(job_s=0.1, slots=20)
        stage.dag("etl", schedule=schedule(policy), concurrency=ALLOW)
        await stage.at(30.0)
        stage.replicas["Ann"].kill()
        dag = stage.get(DAGS, "etl")
        year_ago = format_time(NOON_S - 365 * 86_400)
        dag["status"] |= {"lastScheduledTime": year_ago, "scheduleSeenTime": year_ago}
        stage.server.engine.replace(ADMIN, DAGS, orjson.dumps(dag), "status")
        stage.leader("Ben")
        await stage.pass_time(20.0)
        runs = len(stage.all(DAG_RUNS))
        assert runs == {"None": 5, "Latest": 1, "All": 10}[policy]
        assert told(stage)["missed"] >= 100

    play(story)


def test_a_dag_tells_its_next_times_the_next_clock_changes_and_its_last_runs() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=0.1)
        stage.dag("etl", schedule={"cron": ["1 12 * * *", "30 2 * * *"], "timeZone": "UTC"})
        stage.dag("berlin", schedule={"cron": ["30 2 * * *"], "timeZone": "Europe/Berlin"})
        await stage.at(90.0)
        status = stage.get(DAGS, "etl")["status"]
        assert status["nextScheduledTimes"] == [
            "2026-12-01T02:30:00Z",
            "2026-12-01T12:01:00Z",
            "2026-12-02T02:30:00Z",
        ]
        assert status["nextScheduledTime"] == status["nextScheduledTimes"][0]
        assert (status["lastScheduledRun"], status["lastRun"]["name"]) == (slot(1), slot(1))
        assert status["lastRun"]["phase"] == "Succeeded"
        assert "clockChanges" not in status
        [spring, autumn] = stage.get(DAGS, "berlin")["status"]["clockChanges"]
        assert spring.startswith("2027-03-28T01:00:00Z: clocks go forward")
        assert spring.endswith("what they leave out is due right after")
        assert autumn.endswith("what comes twice is due at the first pass")

    play(story)


# DAGs that are over.


def once(*seconds: float) -> dict[str, Any]:
    return {"at": [format_time(NOON_S + second) for second in seconds]}


def test_a_dag_whose_schedule_is_over_says_so_and_goes_after_its_time() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=20.0)
        stage.dag("etl", schedule=once(30, 40), ttlAfterFinished="2m", concurrency={"policy": "Queue"})
        stage.dag("kept", schedule=once(30))
        await stage.at(65.0)
        assert stage.get(DAGS, "etl")["status"]["state"] == "Ready"
        await stage.at(85.0)
        assert stage.get(DAGS, "etl")["status"]["state"] == "Done"
        await stage.at(185.0)
        assert stage.find(DAGS, "etl") is not None
        await stage.at(195.0)
        assert stage.find(DAGS, "etl") is None
        assert not [run for run in stage.all(DAG_RUNS) if run["spec"]["dag"] == "etl"]
        assert stage.get(DAGS, "kept")["status"]["state"] == "Done"

    play(story, lawful=False)


def test_a_dag_that_is_run_by_hand_again_or_edited_in_its_last_hour_stays() -> None:
    async def story(stage: Stage) -> None:
        stage.leader("Ann")
        worker = stage.worker(job_s=1.0)
        stage.dag("etl", schedule=once(30), ttlAfterFinished="1m")
        await stage.at(60.0)
        worker.runner.job_s = 60.0
        stage.manual_run("again", "etl")
        await stage.at(119.0)
        assert stage.find(DAGS, "etl") is not None, "a run of it is under way"
        await stage.at(170.0)
        stage.edit(DAGS, "etl", schedule=once(400))
        await stage.at(390.0)
        assert stage.find(DAGS, "etl") is not None, "it has a time to come"
        worker.runner.job_s = 1.0
        await stage.at(470.0)
        assert stage.find(DAGS, "etl") is None

    play(story, lawful=False)


def test_a_dag_is_not_done_while_times_that_passed_in_a_suspension_are_still_to_be_made_up_for() -> None:
    async def story(stage: Stage) -> None:
        stage.leader()
        stage.worker(job_s=0.1)
        stage.dag("etl", schedule=once(10) | {"catchUp": {"policy": "Latest"}}, suspend=True)
        await stage.at(20.0)
        slow = Fault(delay_s=2.0)
        stage.trouble(lambda name, request: slow if (request.verb, request.kind) == ("create", DAG_RUNS) else None)
        stage.edit(DAGS, "etl", suspend=False)
        await stage.at(21.5)
        assert stage.get(DAGS, "etl")["status"]["state"] != "Done"
        await stage.at(40.0)
        assert stage.get(DAGS, "etl")["status"]["state"] == "Done"
        assert told(stage) == {"fired": 1}

    play(story)


def test_a_dag_goes_under_a_new_leader_too() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader("Ann")
        stage.worker(job_s=1.0)
        stage.dag("etl", schedule=once(30), ttlAfterFinished="1m")
        await stage.at(60.0)
        ann.kill()
        await stage.at(150.0)
        stage.leader("Ben")
        await stage.pass_time(5.0)
        assert stage.find(DAGS, "etl") is None

    play(story, lawful=False)


def test_times_that_a_leader_let_pass_are_counted_though_it_dies_before_it_has_stored_that() -> None:
    async def story(stage: Stage) -> None:
        ann = stage.leader("Ann")
        stage.worker(job_s=0.1)
        stage.dag("etl", schedule=schedule("Latest"))
        await stage.at(90.0)
        ann.kill()
        await stage.at(290.0)
        ben = stage.leader("Ben")
        await stage.until(lambda: stage.find(DAG_RUNS, slot(4)) is not None)
        ben.kill()
        assert stage.get(DAGS, "etl")["status"].get("missed", 0) == 0
        stage.leader("Cid")
        await stage.pass_time(9.0)
        assert told(stage) == {"fired": 2, "missed": 2}
        assert await stage.slots_fired("etl") == {1: 1, 4: 1}

    play(story)


def test_times_before_a_new_dag_are_counted_though_the_leader_that_let_them_pass_had_stored_nothing_of_it() -> None:
    async def story(stage: Stage) -> None:
        stage.worker(job_s=0.1)
        await stage.at(270.0)
        ann, lost = stage.leader("Ann"), Fault(error=OverloadedError("later"))
        told_by_ann = ("Ann", "update", DAGS)
        stage.trouble(lambda name, request: lost if (name, request.verb, request.kind) == told_by_ann else None)
        stage.dag("etl", schedule=schedule("Latest", notBefore=format_time(NOON_S + 120)))
        await stage.until(lambda: stage.find(DAG_RUNS, slot(4)) is not None)
        ann.kill()
        assert not stage.get(DAGS, "etl").get("status")
        stage.leader("Ben")
        await stage.pass_time(12.0)
        assert told(stage) == {"fired": 1, "missed": 2}
        assert await stage.slots_fired("etl") == {4: 1}

    play(story)
