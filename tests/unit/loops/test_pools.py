"""Pools as kopf tells of them, over HTTP on loopback; and that kopf is a guest who does no harm."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from fencepost.api.names import API_VERSION, GROUP, VERSION
from fencepost.base.clock import SystemClock
from fencepost.kube.access import Access
from fencepost.loops.pools import follow_pools

LIMIT_S = 10.0


class HastyClock(SystemClock):
    """Waits a tenth of a second instead of five."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.1))


@dataclass
class Cluster:
    """An API server that knows nothing but pools, and follows a script for whoever watches them."""

    pools: list[dict[str, Any]]
    lines: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    """Of the watch; an empty one ends it."""
    refusals: list[int] = field(default_factory=list)
    """Status codes that the next lists are answered with."""
    tokens: list[str] = field(default_factory=list)
    """That came with requests."""
    methods: set[str] = field(default_factory=set)

    def tell(self, kind: str, obj: dict[str, Any]) -> None:
        """A line of the watch."""
        self.lines.put_nowait(orjson.dumps({"type": kind, "object": obj}) + b"\n")

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.methods.add(request.method)
        self.tokens.append(request.headers.get("Authorization", ""))
        match request.path.split("/")[1:]:
            case ["api"]:
                return web.json_response({"versions": ["v1"]})
            case ["apis"]:
                version = {"version": VERSION}
                group = {"name": GROUP, "versions": [version], "preferredVersion": version}
                return web.json_response({"groups": [group]})
            case ["api", "v1"]:
                return web.json_response({"resources": [resource("Namespace")]})
            case ["apis", _, _]:
                return web.json_response({"resources": [resource("WorkerPool")]})
            case _:
                return await (self._watch(request) if "watch" in request.query else self._list())

    async def _list(self) -> web.Response:
        if self.refusals:
            return web.json_response({"kind": "Status", "code": self.refusals[0]}, status=self.refusals.pop(0))
        return web.json_response({"metadata": {"resourceVersion": "5"}, "items": self.pools})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while line := await self.lines.get():
            await response.write(line)
        return response


def resource(kind: str) -> dict[str, Any]:
    name = kind.lower()
    return {"name": f"{name}s", "singularName": name, "kind": kind, "namespaced": False, "verbs": ["list", "watch"]}


def pool(name: str, version: str = "1") -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "WorkerPool",
        "metadata": {"name": name, "resourceVersion": version, "uid": f"uid-{name}"},
        "spec": {"maxSharePerDAG": "30%"},
    }


@dataclass
class Listener:
    """Who is told of pools."""

    seen: list[str] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    def on_pool(self, obj: dict[str, Any]) -> None:
        self.seen.append(f"{obj['metadata']['name']}@{obj['metadata']['resourceVersion']}")

    def on_pool_gone(self, name: str) -> None:
        self.seen.append(f"{name} gone")

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition():  # noqa: ASYNC110 - what changes is in other hands
                await asyncio.sleep(0.01)


async def play(cluster: Cluster, story: Callable[[Listener], Awaitable[None]], token: str = "", **access: Any) -> None:
    app = web.Application()
    app.router.add_get("/{path:.*}", cluster.answer)
    listener = Listener()
    async with TestServer(app) as server:
        following = asyncio.create_task(
            follow_pools(
                Access(str(server.make_url("")).rstrip("/"), token=token, **access),
                HastyClock(),
                listener.on_pool,
                listener.on_pool_gone,
                listener.ready,
                listener.stop,
            )
        )
        try:
            await story(listener)
            listener.stop.set()
            async with asyncio.timeout(LIMIT_S):
                await following
        finally:
            following.cancel()
            cluster.lines.put_nowait(b"")


async def test_every_pool_that_is_there_changes_or_goes_is_told() -> None:
    cluster = Cluster([pool("default"), pool("gpu")])

    async def story(listener: Listener) -> None:
        await listener.until(lambda: {"default@1", "gpu@1"} <= set(listener.seen))
        cluster.tell("MODIFIED", pool("gpu", "6"))
        await listener.until(lambda: "gpu@6" in listener.seen)
        cluster.tell("DELETED", pool("gpu", "7"))
        await listener.until(lambda: "gpu gone" in listener.seen)

    await play(cluster, story)
    assert cluster.methods == {"GET"}, "it writes nothing on users' objects"


@pytest.mark.parametrize("status", [403, 429, 500, 503])
async def test_a_list_that_is_refused_is_asked_for_again(status: int) -> None:
    cluster = Cluster([pool("default")], refusals=[status])

    async def story(listener: Listener) -> None:
        await listener.until(lambda: listener.seen == ["default@1"])

    await play(cluster, story)


async def test_kopf_that_ends_is_started_again_and_takes_nobody_with_it() -> None:
    cluster = Cluster([pool("default")])

    async def story(listener: Listener) -> None:
        await listener.ready.wait()
        bystander = asyncio.create_task(asyncio.sleep(3600))
        await listener.until(lambda: listener.seen == ["default@1"])
        cluster.tell("ERROR", {"kind": "Status", "code": 500, "message": "etcd is away"})
        await listener.until(lambda: listener.seen == ["default@1", "default@1"])
        listener.stop.set()
        assert not bystander.done()
        bystander.cancel()

    await play(cluster, story)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_sets_stop_also_after_kopf_was_started_again(number: signal.Signals) -> None:
    cluster = Cluster([pool("default")])

    async def story(listener: Listener) -> None:
        await listener.until(lambda: listener.seen == ["default@1"])
        cluster.tell("ERROR", {"kind": "Status", "code": 500, "message": "etcd is away"})
        await listener.until(lambda: len(listener.seen) == 2)
        os.kill(os.getpid(), number)
        await listener.until(listener.stop.is_set)

    await play(cluster, story)


async def test_a_token_that_was_replaced_is_read_anew_when_the_old_one_is_refused(tmp_path: Any) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    cluster = Cluster([pool("default")])

    async def story(listener: Listener) -> None:
        await listener.until(lambda: listener.seen == ["default@1"])
        file.write_text("new")
        cluster.refusals.append(401)
        cluster.tell("ERROR", {"kind": "Status", "code": 410})
        await listener.until(lambda: listener.seen == ["default@1", "default@1"])

    await play(cluster, story, token_file=file)
    assert "Bearer old" in cluster.tokens
    assert cluster.tokens[-1] == "Bearer new"
