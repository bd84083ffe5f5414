"""A kind kept in sight, whatever becomes of its watch. Virtual time, and the API server in memory."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import looptime
import orjson
import pytest

from fencepost.api.names import API_VERSION, DAG_RUNS
from fencepost.base.clock import LoopClock
from fencepost.kube.errors import (
    ApiError,
    ConnectionLostError,
    GoneError,
    OverloadedError,
    ServerError,
    UnreachableError,
)
from fencepost.kube.protocol import Obj
from fencepost.memory.faults import Fault, Request
from fencepost.memory.identity import ADMIN, OPERATOR
from fencepost.memory.server import MemoryServer
from fencepost.observe.reflector import (
    PAGE_SIZE,
    RETRY_MAX_S,
    ObjectName,
    Reflector,
    list_page_by_page,
    name_of,
    version_of,
)
from fencepost.observe.refresh import refresh


class Names:
    """The simplest cache: versions by name. `poison`: what it fails on."""

    def __init__(self) -> None:
        self.versions: dict[ObjectName, int] = {}
        self.poison = ""

    def upsert(self, obj: Obj) -> None:
        if obj["metadata"]["name"] == self.poison:
            raise RecursionError("too deep")
        if version_of(obj) > self.versions.get(name_of(obj), 0):
            self.versions[name_of(obj)] = version_of(obj)

    def remove(self, name: ObjectName, version: int) -> None:
        if self.versions.get(name, version + 1) <= version:
            del self.versions[name]

    def known(self) -> Iterable[tuple[ObjectName, int]]:
        return self.versions.items()

    @property
    def names(self) -> list[str]:
        return sorted(name for _, name in self.versions)


class Stage:
    def __init__(self, changes_max: int) -> None:
        self.clock = LoopClock(1_796_040_000.0)
        self.server = MemoryServer(self.clock, faults=self._on_request, changes_max=changes_max)
        self.cache = Names()
        self.contacts = 0
        self.fault: Callable[[Request], Fault | None] = lambda request: None
        self.requests: list[tuple[float, str]] = []
        self.api = self.server.client(OPERATOR)
        self.reflector = Reflector(self.api, DAG_RUNS, self.cache, self.clock, on_contact=self._on_contact)
        self.running = asyncio.create_task(self.reflector.run())

    def make(self, *names: str) -> None:
        for name in names:
            meta = {"namespace": "demo", "name": name}
            run = {"apiVersion": API_VERSION, "kind": "DAGRun", "metadata": meta, "spec": {"dag": "etl"}}
            self.server.engine.create(ADMIN, DAG_RUNS, orjson.dumps(run))

    def change(self, name: str, **labels: str) -> None:
        run = self.server.engine.get(ADMIN, DAG_RUNS, "demo", name)
        run["metadata"]["labels"] = labels
        self.server.engine.replace(ADMIN, DAG_RUNS, orjson.dumps(run), "")

    async def drop(self, name: str) -> None:
        await self.server.client(ADMIN).delete(DAG_RUNS, "demo", name)

    def count(self, verb: str) -> int:
        return sum(seen == verb for _, seen in self.requests)

    def _on_contact(self) -> None:
        self.contacts += 1

    def _on_request(self, request: Request) -> Fault | None:
        if request.identity is not OPERATOR:
            return None
        self.requests.append((self.clock.steady_s(), request.verb))
        return self.fault(request)


def tell(story: Callable[[Stage], Coroutine[Any, Any, None]], changes_max: int = 10_000) -> None:
    async def scene() -> None:
        stage = Stage(changes_max)
        await story(stage)
        assert not stage.running.done(), "it runs for ever"
        stage.running.cancel()

    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=0)) as runner:
        runner.run(scene())


def test_what_was_there_and_what_comes_and_goes() -> None:
    async def story(stage: Stage) -> None:
        stage.make("a", "b")
        await stage.reflector.synced.wait()
        assert stage.cache.names == ["a", "b"]
        stage.make("c")
        await stage.drop("a")
        await asyncio.sleep(0.1)
        assert stage.cache.names == ["b", "c"]
        await asyncio.sleep(1000.0)
        assert stage.count("list") == 1, "bookmarks keep the watch's version fresh"

    tell(story)


def test_a_list_longer_than_a_page_is_read_to_its_end() -> None:
    async def story(stage: Stage) -> None:
        stage.make(*[f"r{number:04}" for number in range(PAGE_SIZE * 2 + 1)])
        await stage.reflector.synced.wait()
        assert len(stage.cache.names) == PAGE_SIZE * 2 + 1
        assert stage.count("list") == 3

    tell(story)


@pytest.mark.parametrize("error", [ConnectionLostError("cut"), ServerError("broken"), GoneError("too old")])
def test_a_watch_that_is_cut_loses_nothing(error: ApiError) -> None:
    async def story(stage: Stage) -> None:
        stage.make("a", "b")
        await stage.reflector.synced.wait()
        cut = [Fault(error=error)]
        stage.fault = lambda request: cut.pop() if cut and request.verb == "event" else None
        stage.make("c")
        stage.make("d")
        await stage.drop("a")
        await asyncio.sleep(5.0)
        assert stage.cache.names == ["b", "c", "d"]

    tell(story)


def test_what_went_while_the_watch_was_away_for_too_long_is_gone() -> None:
    async def story(stage: Stage) -> None:
        stage.make("a", "b")
        await stage.reflector.synced.wait()
        stage.fault = lambda request: Fault(error=UnreachableError("away"))
        stage.make("x")
        await asyncio.sleep(1.0)
        await stage.drop("a")
        for number in range(20):
            stage.make(f"c{number}")
        stage.fault = lambda request: None
        await asyncio.sleep(RETRY_MAX_S + 1.0)
        assert stage.cache.names == sorted(["b", "x", *(f"c{number}" for number in range(20))])
        assert stage.count("list") == 2, "410: the changes since were no longer kept"

    tell(story, changes_max=5)


@pytest.mark.parametrize("error", [UnreachableError("away"), ServerError("broken"), OverloadedError("later")])
def test_an_api_server_that_is_away_is_asked_again_with_a_back_off(error: ApiError) -> None:
    async def story(stage: Stage) -> None:
        stage.fault = lambda request: Fault(error=error)
        stage.make("a")
        await asyncio.sleep(300.0)
        assert not stage.reflector.synced.is_set()
        assert 15 <= len(stage.requests) <= 30
        stage.fault = lambda request: None
        await asyncio.sleep(RETRY_MAX_S + 1.0)
        assert stage.cache.names == ["a"]

    tell(story)


def test_contact_is_a_word_from_the_server_and_nothing_else() -> None:
    async def story(stage: Stage) -> None:
        await stage.reflector.synced.wait()
        assert stage.contacts == 1
        stage.fault = lambda request: Fault(error=UnreachableError("away"))
        stage.make("a")
        await asyncio.sleep(100.0)
        assert stage.contacts == 1
        stage.fault = lambda request: None
        await asyncio.sleep(RETRY_MAX_S + 1.0)
        assert stage.contacts > 1

    tell(story)


def test_an_object_that_the_cache_fails_on_ends_neither_list_nor_watch() -> None:
    async def story(stage: Stage) -> None:
        stage.cache.poison = "b"
        stage.make("a", "b", "c")
        await stage.reflector.synced.wait()
        stage.change("b", x="y")
        stage.make("d")
        await asyncio.sleep(1.0)
        assert stage.cache.names == ["a", "c", "d"]

    tell(story)


def test_an_event_that_comes_late_does_not_undo_what_is_known() -> None:
    async def story(stage: Stage) -> None:
        stage.make("a", "b")
        await stage.reflector.synced.wait()
        stage.fault = lambda request: Fault(delay_s=5.0) if request.verb == "event" else None
        stage.change("a", x="1")
        stage.change("a", x="2")
        newest = stage.server.engine.get(ADMIN, DAG_RUNS, "demo", "a")
        stage.cache.upsert(newest)
        await asyncio.sleep(6.0)
        assert stage.cache.versions["demo", "a"] == version_of(newest)

    tell(story)


def test_a_list_takes_nothing_out_that_is_newer_than_itself() -> None:
    async def story(stage: Stage) -> None:
        stage.make("a")
        await stage.reflector.synced.wait()
        stage.running.cancel()
        stage.running = asyncio.create_task(asyncio.sleep(1e6))
        stage.fault = lambda request: Fault(answer_delay_s=5.0) if request.verb == "list" else None
        listing = asyncio.create_task(list_page_by_page(stage.api, DAG_RUNS, stage.cache, gone_if=lambda name: True))
        await asyncio.sleep(1.0)
        stage.make("b")
        stage.cache.upsert(stage.server.engine.get(ADMIN, DAG_RUNS, "demo", "b"))
        await listing
        assert stage.cache.names == ["a", "b"]

    tell(story)


def test_one_live_read_takes_in_or_takes_out_or_says_that_it_could_not() -> None:
    async def story(stage: Stage) -> None:
        stage.make("a", "b")
        await stage.reflector.synced.wait()
        stage.fault = lambda request: Fault(delay_s=1e6) if request.verb == "event" else None
        stage.change("a", x="1")
        await stage.drop("b")
        assert await refresh(stage.api, DAG_RUNS, stage.cache, "demo", "a")
        assert await refresh(stage.api, DAG_RUNS, stage.cache, "demo", "b")
        assert stage.cache.names == ["a"]
        assert stage.cache.versions["demo", "a"] > 1002
        stage.fault = lambda request: Fault(error=ServerError("broken"))
        assert not await refresh(stage.api, DAG_RUNS, stage.cache, "demo", "a")
        assert stage.cache.names == ["a"]

    tell(story)
