"""A stage for stories about leadership: one API server in memory, replicas on it, virtual time, and a referee.

The referee looks at every acquisition, and ten times a second in between, whether two replicas say at once that they
may act for one shard; `Stage.led_twice` holds what it saw.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import looptime

from fencepost.api.names import LEASES, SYSTEM_NAMESPACE_DEFAULT, Kind
from fencepost.base.clock import LoopClock
from fencepost.core.lease import LeaseTimes
from fencepost.core.names import shard_lease_name
from fencepost.kube.errors import ApiError, UnreachableError
from fencepost.kube.protocol import Api, Obj, ObjectList, WatchEvent
from fencepost.loops.leadership import Leadership
from fencepost.memory.faults import Fault, Request
from fencepost.memory.identity import ADMIN, Identity, Role
from fencepost.memory.server import MemoryServer

T = TypeVar("T")

NAMESPACE = SYSTEM_NAMESPACE_DEFAULT
START_S = 1_800_000_000.0
REFEREE_PERIOD_S = 0.1


def play(story: Callable[["Stage"], Coroutine[Any, Any, None]], *, shards: int = 16) -> None:
    """Run a story in virtual time, on an empty stage."""

    async def scene() -> None:
        stage = Stage(shards)
        try:
            await story(stage)
        finally:
            await stage.close()
        assert not stage.led_twice, "two replicas led one shard at once"

    # Nothing here waits for real I/O, so the loop need not look for any before it moves time on.
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(noop_cycles=0)) as runner:
        runner.run(scene())


class ReplicaClock(LoopClock):
    """A clock of its own speed, and sleeps that do not end while the process is frozen."""

    def __init__(self, thawed: asyncio.Event, speed: float) -> None:
        super().__init__(START_S)
        self._thawed = thawed
        self._speed = speed

    def steady_s(self) -> float:
        return super().steady_s() * self._speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / self._speed)
        await self._thawed.wait()

    def call_later(self, seconds: float, act: Callable[[], None]) -> asyncio.Task[None]:
        async def later() -> None:
            await self.sleep(seconds)
            act()

        return asyncio.ensure_future(later())


class FreezableApi:
    """A client that sends nothing and hears nothing while its process is frozen."""

    def __init__(self, api: Api, thawed: asyncio.Event) -> None:
        self._api = api
        self._thawed = thawed

    async def _through(self, call: Awaitable[T]) -> T:
        await self._thawed.wait()
        try:
            answer = await call
        except ApiError:
            await self._thawed.wait()
            raise
        await self._thawed.wait()
        return answer

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Obj:
        return await self._through(self._api.get(kind, namespace, name))

    async def list(self, kind: Kind, namespace: str | None = None, **options: Any) -> ObjectList:
        return await self._through(self._api.list(kind, namespace, **options))

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        return await self._through(self._api.create(kind, obj))

    async def replace(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj:
        return await self._through(self._api.replace(kind, obj, subresource=subresource))

    async def delete(self, kind: Kind, namespace: str | None, name: str, **options: Any) -> None:
        await self._through(self._api.delete(kind, namespace, name, **options))

    async def watch(self, kind: Kind, namespace: str | None = None, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        await self._thawed.wait()
        async for event in self._api.watch(kind, namespace, **options):
            await self._thawed.wait()
            yield event


@dataclass(eq=False)
class Replica:
    """One operator process, as far as it leads."""

    name: str
    leadership: Leadership
    thawed: asyncio.Event
    progressing: bool = True
    clock_right: bool = True
    drain_s: float = 0.0
    """How long its scheduler takes to stop acting for a shard."""
    epochs: dict[int, list[int]] = field(default_factory=dict)
    """Shard to the epochs under which it was acquired."""
    released: Counter[int] = field(default_factory=Counter)
    process: asyncio.Task[None] | None = None

    @property
    def shards(self) -> set[int]:
        """For which it may act now."""
        return set(self.leadership.held) if self.process is not None else set()

    def freeze(self) -> None:
        """SIGSTOP."""
        self.thawed.clear()

    def thaw(self) -> None:
        """SIGCONT."""
        self.thawed.set()

    async def kill(self) -> None:
        """SIGKILL: it says goodbye to nobody."""
        process, self.process = self.process, None
        assert process is not None
        process.cancel()
        await asyncio.wait([process])

    async def stop(self) -> None:
        """SIGTERM; a frozen process hears it when it is thawed."""
        self.thaw()
        await self.leadership.step_down()
        await self.kill()


class Stage:
    """An API server in memory and the replicas that use it."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self.times = LeaseTimes()
        self.clock = LoopClock(START_S)
        self.server = MemoryServer(self.clock, system_namespace=NAMESPACE, faults=self._fault)
        self.admin = self.server.client(ADMIN)
        self.replicas: dict[str, Replica] = {}
        self.troubles: list[Callable[[str, Request], Fault | None]] = []
        """Each is asked with the replica's name about each of its requests; the first fault counts."""
        self.requests: list[tuple[str, Request]] = []
        self.led_twice: list[tuple[float, int, list[str]]] = []
        self._referee = asyncio.create_task(self._watch_out())

    def start(self, name: str, *, shards: int | None = None, speed: float = 1.0) -> Replica:
        """A new replica."""
        thawed = asyncio.Event()
        thawed.set()
        nonces = iter(f"{number:05d}" for number in range(1000))

        def acquired(shard: int, epoch: int) -> None:
            replica.epochs.setdefault(shard, []).append(epoch)
            self._judge(shard)

        async def released(shard: int) -> None:
            replica.released[shard] += 1
            await asyncio.sleep(replica.drain_s)

        leadership = Leadership(
            FreezableApi(self.server.client(Identity(Role.OPERATOR, name)), thawed),
            ReplicaClock(thawed, speed),
            namespace=NAMESPACE,
            replica=name,
            shards=self.shards if shards is None else shards,
            times=self.times,
            nonce=lambda: next(nonces),
            progress=lambda: replica.progressing,
            clock_right=lambda: replica.clock_right,
            on_acquired=acquired,
            on_released=released,
        )
        replica = Replica(name, leadership, thawed)
        replica.process = asyncio.create_task(leadership.run(), name=name)
        self.replicas[name] = replica
        return replica

    def outage(self, *names: str) -> Callable[[], None]:
        """No request of these replicas reaches the API server, until the returned function is called."""

        def unreachable(name: str, request: Request) -> Fault | None:
            return Fault(error=UnreachableError("connection refused")) if name in names else None

        return self.trouble(unreachable)

    def trouble(self, fault: Callable[[str, Request], Fault | None]) -> Callable[[], None]:
        """Let this go wrong until the returned function is called."""
        self.troubles.append(fault)
        return lambda: self.troubles.remove(fault)

    def lose_answers(self, name: str, verb: str, lease_prefix: str, times: int, error: ApiError) -> None:
        """The next so many writes of this replica are carried out, and their answers lost."""
        left = iter(range(times))

        def lost(asked: str, request: Request) -> Fault | None:
            hit = asked == name and request.verb == verb and request.name.startswith(lease_prefix)
            return Fault(error=error, carried_out=True) if hit and next(left, None) is not None else None

        self.trouble(lost)

    def leader_of(self, shard: int) -> str:
        """The replica that may act for the shard now; empty if none may."""
        return next((name for name, replica in self.replicas.items() if shard in replica.shards), "")

    def all_led_by(self, *replicas: Replica) -> bool:
        """Whether these, and only these, lead all shards, evenly."""
        loads = [len(replica.shards) for replica in replicas]
        return sum(loads) == self.shards and max(loads) - min(loads) <= 1

    async def until(self, condition: Callable[[], bool], limit_s: float = 60.0) -> float:
        """Wait for a condition; how many seconds it took."""
        started_s = self.clock.steady_s()
        while not condition():
            waited_s = self.clock.steady_s() - started_s
            assert waited_s < limit_s, f"not within {limit_s:g} s"
            await asyncio.sleep(0.01)
        return self.clock.steady_s() - started_s

    async def lease(self, shard: int) -> Obj:
        """The shard's Lease as stored."""
        return await self.admin.get(LEASES, NAMESPACE, shard_lease_name(shard))

    async def epochs(self) -> list[int]:
        """Of all shards, as stored."""
        return [(await self.lease(shard))["spec"]["leaseTransitions"] for shard in range(self.shards)]

    async def close(self) -> None:
        """End everything that was started."""
        self._referee.cancel()
        for replica in self.replicas.values():
            replica.thaw()
            if replica.process is not None:
                replica.process.cancel()
        await asyncio.sleep(0)

    def _fault(self, request: Request) -> Fault | None:
        name = request.identity.user
        self.requests.append((name, request))
        faults = (trouble(name, request) for trouble in self.troubles)
        return next((fault for fault in faults if fault is not None), None)

    async def _watch_out(self) -> None:
        while True:
            for shard in range(self.shards):
                self._judge(shard)
            await asyncio.sleep(REFEREE_PERIOD_S)

    def _judge(self, shard: int) -> None:
        leaders = [name for name, replica in self.replicas.items() if shard in replica.shards]
        if len(leaders) > 1:
            self.led_twice.append((self.clock.steady_s(), shard, leaders))
