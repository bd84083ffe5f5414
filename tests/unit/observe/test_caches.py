"""The caches of DAGs, runs and workers: newest version wins, identity is the UID, and bad objects are set aside."""

from typing import Any

import pytest

from fencepost.api.codec import encode_run_status
from fencepost.core.names import DagKey, JobKey, RunKey
from fencepost.core.phases import RunPhase
from fencepost.core.run_state import Lease, RunState
from fencepost.kube.protocol import Obj
from fencepost.observe.dags import DagCache
from fencepost.observe.letters import LetterCache
from fencepost.observe.runs import RunCache
from fencepost.observe.workers import WorkerCache

NOON = "2026-11-30T12:00:00Z"
RUN = RunKey("demo", "r1")
ETL = DagKey("demo", "etl")


class Told:
    """What a cache has told its loops."""

    def __init__(self) -> None:
        self.changes: list[tuple[int, int | None]] = []
        """Versions: new, and old."""
        self.gone_uids: list[str] = []
        self.aside: list[str] = []

    def changed(self, view: Any, old: Any) -> None:
        self.changes.append((view.version, old.version if old is not None else None))

    def gone(self, view: Any) -> None:
        self.gone_uids.append(view.uid)

    def set_aside(self, kind: str, problem: str) -> None:
        self.aside.append(kind)


def an_object(name: str, version: int, uid: str, namespace: str = "demo", **content: Any) -> Obj:
    meta = {
        "name": name,
        "namespace": namespace,
        "resourceVersion": str(version),
        "uid": uid,
        "creationTimestamp": NOON,
    }
    return {"metadata": meta, **content}


def a_run(version: int = 1, uid: str = "u1", name: str = "r1", dag: str = "etl", **content: Any) -> Obj:
    return an_object(name, version, uid, spec={"dag": dag}, **content)


def a_dag(version: int = 1, uid: str = "u1", generation: int = 1, **spec: Any) -> Obj:
    dag = an_object("etl", version, uid, spec={"tasks": [{"name": "a", "command": ["true"]}], **spec})
    dag["metadata"]["generation"] = generation
    return dag


def a_worker(version: int = 1, uid: str = "u1", leases: Any = None, results: Any = None, **spec: Any) -> Obj:
    spec = {"pool": "default", "slots": 4, "leases": leases or {}, **spec}
    return an_object("w1-aaaaa", version, uid, "fencepost-system", spec=spec, status={"results": results or {}})


def a_letter(version: int = 1, uid: str = "u1") -> Obj:
    job = {"dag": "etl", "run": "r1", "runUID": "run-1", "task": "only"}
    return an_object("etl-0123456789", version, uid, spec={"job": job})


def runs(told: Told) -> RunCache:
    return RunCache(16, told.changed, told.gone, told.set_aside)


def dags(told: Told) -> DagCache:
    return DagCache(16, told.changed, told.gone, told.set_aside)


def workers(told: Told) -> WorkerCache:
    return WorkerCache(told.changed, told.gone, told.set_aside)


def letters(told: Told) -> LetterCache:
    return LetterCache(16, told.changed, told.gone, told.set_aside)


CACHES = [(runs, a_run), (dags, a_dag), (workers, a_worker), (letters, a_letter)]
ids = ["runs", "dags", "workers", "letters"]


@pytest.mark.parametrize(("make", "an_obj"), CACHES, ids=ids)
def test_only_what_is_newer_is_taken_in(make: Any, an_obj: Any) -> None:
    told = Told()
    cache = make(told)
    for version in (5, 3, 5, 7):
        cache.upsert(an_obj(version))
    assert told.changes == [(5, None), (7, 5)]


@pytest.mark.parametrize(("make", "an_obj"), CACHES, ids=ids)
def test_another_uid_is_another_object(make: Any, an_obj: Any) -> None:
    told = Told()
    cache = make(told)
    cache.upsert(an_obj(5, "u1"))
    cache.upsert(an_obj(8, "u2"))
    assert told.gone_uids == ["u1"]
    assert told.changes == [(5, None), (8, None)]
    assert [version for _, version in cache.known()] == [8]


@pytest.mark.parametrize(("make", "an_obj"), CACHES, ids=ids)
def test_a_deletion_from_before_what_is_known_is_ignored(make: Any, an_obj: Any) -> None:
    told = Told()
    cache = make(told)
    cache.upsert(an_obj(5))
    [(name, _)] = cache.known()
    cache.remove(name, 4)
    assert not told.gone_uids
    cache.remove(name, 6)
    cache.remove(name, 6)
    assert told.gone_uids == ["u1"]
    assert not list(cache.known())


def test_runs_are_found_by_their_dag() -> None:
    told = Told()
    cache = runs(told)
    for name, dag in (("r1", "etl"), ("r2", "etl"), ("r3", "other")):
        cache.upsert(a_run(name=name, uid=name, dag=dag))
    cache.remove(("demo", "r2"), 9)
    assert [view.key.name for view in cache.of_dag(ETL)] == ["r1"]
    assert cache.active_count(ETL) == 1
    cache.remove(("demo", "r1"), 9)
    assert not list(cache.of_dag(ETL))


def test_runs_that_have_not_finished_are_found_by_their_dag_and_those_that_have_are_not() -> None:
    cache = runs(Told())
    ended = encode_run_status(RunState(phase=RunPhase.SUCCEEDED, finish_s=1.0))
    cache.upsert(a_run(1))
    cache.upsert(a_run(1, "u2", "r2"))
    assert {view.key.name for view in cache.unfinished(ETL)} == {"r1", "r2"}
    cache.upsert(a_run(2, status=ended))
    assert [view.key.name for view in cache.unfinished(ETL)] == ["r2"]
    cache.upsert(a_run(2, "u2", "r2", dag="other"))
    assert cache.active_count(ETL) == 0
    assert [view.key.name for view in cache.of_dag(ETL)] == ["r1"], "one that is another DAG's now is not held twice"
    cache.remove(("demo", "r2"), 9)
    assert cache.active_count(DagKey("demo", "other")) == 0


def test_a_finished_run_is_held_small() -> None:
    lease = {JobKey("a", 0): Lease(1, "w1-aaaaa", 1, 0, 0.0)}
    told = Told()
    cache = runs(told)
    cache.upsert(a_run(1, status=encode_run_status(RunState(RunPhase.RUNNING, leases=lease, total=1))))
    under_way = cache.get(RUN)
    assert under_way is not None
    assert under_way.record is not None
    cache.upsert(a_run(2, status=encode_run_status(RunState(RunPhase.SUCCEEDED, finish_s=9.0, done=1, total=1))))
    ended = cache.get(RUN)
    assert ended is not None
    assert ended.state is not None
    assert ended.record is None
    assert (ended.finished, ended.state.finish_s, ended.state.tasks) == (True, 9.0, {})
    assert cache.active_count(ETL) == 0


def test_a_run_that_cannot_be_read_is_held_with_its_problem_and_comes_back() -> None:
    told = Told()
    cache = runs(told)
    for version in (1, 2, 3):
        cache.upsert(a_run(version, status={"phase": "Dreaming"}))
    view = cache.get(RUN)
    assert view is not None
    assert view.problem
    assert view.finished
    assert told.aside == ["DAGRun"], "once"
    cache.upsert(a_run(4, status=encode_run_status(RunState())))
    view = cache.get(RUN)
    assert view is not None
    assert not view.problem


def test_a_dag_is_checked_when_its_spec_changes_and_not_when_its_status_does() -> None:
    told = Told()
    cache = dags(told)
    cache.upsert(a_dag(1))
    first = cache.get(ETL)
    cache.upsert(a_dag(2) | {"status": {"active": 1}})
    second = cache.get(ETL)
    cache.upsert(a_dag(3, generation=2, timeout="1h"))
    third = cache.get(ETL)
    assert first is not None
    assert second is not None
    assert third is not None
    assert second.checked is first.checked
    assert second.status == {"active": 1}
    assert third.revision != first.revision
    assert third.schedule_hash == first.schedule_hash, "when it fires has not changed"


def test_a_dag_that_is_not_valid_says_so_once_for_each_problem() -> None:
    told = Told()
    cache = dags(told)
    cache.upsert(a_dag(1, tasks="all"))
    cache.upsert(a_dag(2, tasks="all") | {"status": {"active": 0}})
    assert told.aside == ["DAG"]
    view = cache.get(ETL)
    assert view is not None
    assert view.checked is None
    assert view.problems
    cache.upsert(a_dag(3, generation=2))
    view = cache.get(ETL)
    assert view is not None
    assert view.checked is not None


@pytest.mark.parametrize("change", [{"suspend": True}, {"schedule": {"cron": ["1 * * * *"]}}])
def test_what_decides_when_a_dag_fires_changes_its_schedules_hash(change: dict[str, Any]) -> None:
    cache = dags(Told())
    cache.upsert(a_dag(1, schedule={"cron": ["0 * * * *"]}))
    before = cache.get(ETL)
    cache.upsert(a_dag(2, generation=2, **{"schedule": {"cron": ["0 * * * *"]}, **change}))
    after = cache.get(ETL)
    assert before is not None
    assert after is not None
    assert before.schedule_hash != after.schedule_hash
    assert before.revision == after.revision


KEY = "demo/r1.12345678/only/0"


def test_garbled_entries_and_results_are_passed_over_and_told_once_each() -> None:
    told = Told()
    cache = workers(told)
    leases = {KEY: "1 Run", "nonsense": "1 Run", "demo/r2.12345678/only/0": "soon"}
    for version in (1, 2, 3):
        cache.upsert(a_worker(version, leases=leases, results={KEY: "never", "nonsense": "1 Failed"}))
    view = cache.get("w1-aaaaa")
    assert view is not None
    assert dict(view.worker.leases) == {KEY: "1 Run"}
    assert not view.worker.results
    assert told.aside == ["Worker"] * 4
    cache.upsert(a_worker(4, leases={KEY: "1 Run"}, results={KEY: "1 Succeeded"}))
    view = cache.get("w1-aaaaa")
    assert view is not None
    assert dict(view.worker.results) == {KEY: "1 Succeeded"}


def test_a_worker_that_cannot_be_read_is_gone_until_it_can() -> None:
    told = Told()
    cache = workers(told)
    cache.upsert(a_worker(1))
    cache.upsert(a_worker(2, slots="plenty"))
    assert cache.get("w1-aaaaa") is None
    assert told.gone_uids == ["u1"]
    cache.upsert(a_worker(3))
    assert cache.get("w1-aaaaa") is not None
    assert told.aside == ["Worker"]


def test_of_a_dag_it_is_known_when_people_have_edited_it_last_and_not_when_we_have_written_its_status() -> None:
    notes = [
        {"manager": "kubectl", "time": "2026-11-30T11:00:00Z"},
        {"manager": "argo", "time": "2026-11-30T12:00:05Z"},
        {"manager": "fencepost", "subresource": "status", "time": "2026-11-30T13:00:00Z"},
        {"manager": "old-as-the-hills"},
    ]
    cache = dags(Told())
    dag = a_dag()
    dag["metadata"]["managedFields"] = notes
    cache.upsert(dag)
    cache.upsert(a_dag() | {"metadata": a_dag()["metadata"] | {"name": "bare"}})
    noted, bare = cache.get(ETL), cache.get(DagKey("demo", "bare"))

    assert noted is not None
    assert bare is not None
    assert (noted.edited_s - noted.created_s, bare.edited_s) == (5.0, 0.0)


@pytest.mark.parametrize(
    ("given", "want"), [({}, "normal"), ({"priority": "high"}, "high"), ({"priority": 7}, "normal")]
)
def test_a_dags_priority_is_known_without_reading_the_rest(given: dict[str, Any], want: str) -> None:
    cache = dags(Told())
    cache.upsert(a_dag(**given))
    view = cache.get(ETL)

    assert view is not None
    assert str(view.priority) == want
