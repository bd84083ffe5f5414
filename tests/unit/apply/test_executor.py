"""The executor: guard, call, count; and every answer of an API server as a value."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import looptime
import orjson
import pytest

from fencepost.api.names import API_VERSION, DAG_LABEL, DAG_RUNS, DAGS, EVENTS, LEASES, SHARD_LABEL, WORKERS
from fencepost.apply.executor import Answer, Executor
from fencepost.apply.writers import WINDOW_MAX_S
from fencepost.base.clock import LoopClock
from fencepost.core.intents import (
    Announce,
    Authority,
    CreateRevision,
    CreateRun,
    DeleteRun,
    DeleteWorker,
    FenceWorker,
    Intent,
    WriteDagStatus,
    WriteMailbox,
    WriteRun,
)
from fencepost.core.names import DagKey, RunKey, scheduled_run_name
from fencepost.core.run_state import RunState, Trigger
from fencepost.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ConnectionLostError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    NotReadyError,
    OverloadedError,
    ServerError,
    UnreachableError,
)
from fencepost.kube.protocol import Obj
from fencepost.loops.lease_objects import shard_object
from fencepost.memory.faults import Fault
from fencepost.memory.identity import ADMIN, OPERATOR
from fencepost.memory.server import MemoryServer

NOON_S = 1_796_040_000
DAG = DagKey("demo", "etl")
RUN = RunKey("demo", scheduled_run_name("etl", NOON_S))
LED = Authority(0, 1)
SYSTEM = "fencepost-system"


class Stage:
    """An API server with a DAG, a shard led under epoch 1, and an executor on it."""

    def __init__(self) -> None:
        clock = LoopClock(NOON_S)
        self.server = MemoryServer(clock)
        self.leads = True
        self.refusals: list[tuple[str, int]] = []
        self.latencies_s: list[float] = []
        self.executor = Executor(
            self.server.client(OPERATOR), lambda authority: self.leads, self, clock, self.latencies_s.append
        )
        self.put(LEASES, shard_object(SYSTEM, 0, 16, 1))
        self.dag = self.put(DAGS, an_object("DAG", "demo", "etl", spec={"tasks": []}))

    def refused(self, kind: str, status: int) -> None:
        self.refusals.append((kind, status))

    def put(self, kind: Any, obj: Obj) -> Obj:
        return self.server.engine.create(ADMIN, kind, orjson.dumps(obj))

    def create_run(self, authority: Authority = LED) -> CreateRun:
        uid = self.dag["metadata"]["uid"]
        state = RunState(epoch=authority.epoch)
        return CreateRun(authority, RUN, DAG, uid, "etl-0123456789", Trigger.SCHEDULE, NOON_S, state)

    async def run(self) -> Obj:
        written = await self.executor.execute(self.create_run())
        assert written.object is not None
        return written.object

    def worker(self) -> Obj:
        return self.put(WORKERS, an_object("Worker", SYSTEM, "w1-aaaaa", spec={"pool": "default", "slots": 1}))


def an_object(kind: str, namespace: str, name: str, **content: Any) -> Obj:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"namespace": namespace, "name": name}, **content}


def tell(story: Any) -> None:
    async def scene() -> None:
        told: Coroutine[Any, Any, None] = story(Stage())
        await told

    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=0)) as runner:
        runner.run(scene())


ANSWERS: list[tuple[ApiError, Answer, bool]] = [
    (ConflictError("changed"), Answer.CONFLICT, True),
    (AlreadyExistsError("taken"), Answer.EXISTS, False),
    (NotFoundError("gone"), Answer.GONE, False),
    (ForbiddenError("policy"), Answer.REFUSED, True),
    (InvalidError("rule"), Answer.REFUSED, True),
    (NotReadyError("not yet synced"), Answer.BUSY, False),
    (ServerError("broken"), Answer.UNKNOWN, False),
    (ConnectionLostError("reset"), Answer.UNKNOWN, False),
    (UnreachableError("refused"), Answer.UNKNOWN, False),
    (OverloadedError("later"), Answer.BUSY, False),
]


@pytest.mark.parametrize(("error", "answer", "counted"), ANSWERS, ids=lambda value: type(value).__name__)
def test_each_answer_is_a_value_and_each_refusal_by_a_fence_is_counted(
    error: ApiError, answer: Answer, counted: bool
) -> None:
    async def story(stage: Stage) -> None:
        stage.server.faults = lambda request: Fault(error=error)
        written = await stage.executor.execute(stage.create_run())
        assert (written.answer, written.object) == (answer, None)
        assert str(error) in written.error
        assert stage.refusals == ([("CreateRun", error.status)] if counted else [])

    tell(story)


def test_nothing_is_sent_without_the_lead() -> None:
    async def story(stage: Stage) -> None:
        stage.leads = False
        version = stage.server.engine.version
        run = stage.put(DAG_RUNS, an_object("DAGRun", "demo", "r1", spec={"dag": "etl"}))
        uid = stage.dag["metadata"]["uid"]
        for intent in (
            stage.create_run(),
            WriteRun(LED, run, DAG, uid, "etl-0123456789", RunState(epoch=1)),
            DeleteRun(LED, RunKey("demo", "r1"), run["metadata"]["uid"]),
            CreateRevision(LED, DAG, uid, "etl-0123456789", {}),
            WriteDagStatus(LED, stage.dag, {"active": 1}),
        ):
            assert (await stage.executor.execute(intent)).answer is Answer.NOT_LEADING
        assert stage.server.engine.version == version + 1
        assert not stage.latencies_s

    tell(story)


def test_how_long_a_write_took_is_told_and_too_much_to_do_counts_as_long() -> None:
    async def story(stage: Stage) -> None:
        stage.server.faults = lambda request: Fault(answer_delay_s=0.3)
        await stage.executor.execute(stage.create_run())
        assert stage.latencies_s == [pytest.approx(0.3)]
        stage.server.faults = lambda request: Fault(error=OverloadedError("later"))
        await stage.executor.execute(stage.create_run())
        assert WINDOW_MAX_S in stage.latencies_s

    tell(story)


def test_a_run_is_created_with_label_owner_and_state() -> None:
    async def story(stage: Stage) -> None:
        run = await stage.run()
        assert run["metadata"]["labels"] == {SHARD_LABEL: "0", DAG_LABEL: "etl"}
        assert [owner["uid"] for owner in run["metadata"]["ownerReferences"]] == [stage.dag["metadata"]["uid"]]
        assert run["spec"]["trigger"] == "Schedule"
        assert run["status"]["epoch"] == 1
        assert (await stage.executor.execute(stage.create_run())).answer is Answer.EXISTS

    tell(story)


def test_a_write_of_a_run_keeps_what_others_have_put_on_it() -> None:
    async def story(stage: Stage) -> None:
        run = await stage.run()
        run["metadata"]["labels"]["team"] = "a"
        run["metadata"]["annotations"] = {"note": "b"}
        run = stage.server.engine.replace(ADMIN, DAG_RUNS, orjson.dumps(run), "")
        written = await stage.executor.execute(WriteRun(LED, run, DAG, "", "", RunState(epoch=1, reason="Waiting")))
        assert written.object is not None
        assert written.object["metadata"]["labels"]["team"] == "a"
        assert written.object["metadata"]["annotations"] == {"note": "b"}
        assert written.object["metadata"]["ownerReferences"] == run["metadata"]["ownerReferences"]
        stale = await stage.executor.execute(WriteRun(LED, run, DAG, "", "", RunState(epoch=1)))
        assert stale.answer is Answer.CONFLICT

    tell(story)


def test_a_run_that_is_taken_up_gets_its_owner_once() -> None:
    async def story(stage: Stage) -> None:
        uid = stage.dag["metadata"]["uid"]
        run: Obj | None = stage.put(DAG_RUNS, an_object("DAGRun", "demo", "r1", spec={"dag": "etl"}))
        for _ in range(2):
            assert run is not None
            intent = WriteRun(LED, run, DAG, uid, "etl-0123456789", RunState(epoch=1, lease_counter=_))
            run = (await stage.executor.execute(intent)).object
        assert run is not None
        assert [owner["uid"] for owner in run["metadata"]["ownerReferences"]] == [uid]
        assert (run["spec"]["dagUID"], run["spec"]["revision"]) == (uid, "etl-0123456789")

    tell(story)


def test_a_run_is_deleted_by_its_uid() -> None:
    async def story(stage: Stage) -> None:
        run = await stage.run()
        assert (await stage.executor.execute(DeleteRun(LED, RUN, "another"))).answer is Answer.CONFLICT
        assert (await stage.executor.execute(DeleteRun(LED, RUN, run["metadata"]["uid"]))).answer is Answer.DONE
        assert (await stage.executor.execute(DeleteRun(LED, RUN, run["metadata"]["uid"]))).answer is Answer.GONE

    tell(story)


def test_a_worker_is_fenced_and_deleted_only_as_it_was_read() -> None:
    async def story(stage: Stage) -> None:
        worker = stage.worker()
        fenced = (await stage.executor.execute(FenceWorker(worker))).object
        assert fenced is not None
        assert fenced["spec"]["fenced"] is True
        intents: tuple[Intent, ...] = (FenceWorker(worker), WriteMailbox(worker, {}, 10), DeleteWorker(worker))
        for stale in intents:
            assert (await stage.executor.execute(stale)).answer is Answer.CONFLICT
        assert (await stage.executor.execute(DeleteWorker(fenced))).answer is Answer.DONE

    tell(story)


def test_people_are_told_by_an_event() -> None:
    async def story(stage: Stage) -> None:
        run = await stage.run()
        await stage.executor.execute(Announce(run, "JobsFailed", "m" * 5000))
        [event] = stage.server.engine.list(ADMIN, EVENTS, "", "", 0, "").items
        assert event["involvedObject"]["uid"] == run["metadata"]["uid"]
        assert (event["type"], event["reason"], len(event["message"])) == ("Warning", "JobsFailed", 1024)

    tell(story)
