"""What only the server in memory has: faults, bounded history, and time that is whatever its clock says."""

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing

import pytest

from fencepost.api.names import CONFIG_MAPS, DAG_RUNS, DAGS, SHARD_LABEL
from fencepost.base.clock import LoopClock, SystemClock, Timer
from fencepost.kube.errors import ConnectionLostError, GoneError, InvalidError, NotFoundError, OverloadedError
from fencepost.kube.protocol import EventType, Obj, WatchEvent
from fencepost.memory import watches
from fencepost.memory.faults import Fault, Request
from fencepost.memory.identity import ADMIN, OPERATOR, USER
from fencepost.memory.server import BOOKMARK_PERIOD_S, MemoryServer
from tests.e2e.contract.objects import config_map, dag, run

NAMESPACE = "analytics"


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self._time_s = 1_800_000_000.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now_s(self) -> float:
        return self._time_s

    def steady_s(self) -> float:
        return self._time_s

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return await asyncio.sleep(0)
        woken = asyncio.Event()
        self._sleepers.append((self._time_s + seconds, woken))
        await woken.wait()

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer:
        raise AssertionError("nothing here asks for it")

    async def advance(self, seconds: float) -> None:
        """Let this time pass, and let all that then can go on."""
        self._time_s += seconds
        for due_s, woken in self._sleepers:
            if due_s <= self._time_s:
                woken.set()
        for _ in range(10):
            await asyncio.sleep(0)


def server_with(fault: Fault, verb: str, clock: Hand | None = None) -> MemoryServer:
    """A server on which this goes wrong with every request of this verb."""

    def faults(request: Request) -> Fault | None:
        return fault if request.verb == verb else None

    return MemoryServer(clock or Hand(), faults=faults)


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_request_can_be_refused_instead_of_carried_out() -> None:
    server = server_with(Fault(error=OverloadedError("later")), "create")
    with pytest.raises(OverloadedError):
        await server.client(USER).create(DAGS, dag(NAMESPACE))
    with pytest.raises(NotFoundError):
        await server.client(USER).get(DAGS, NAMESPACE, "etl")


async def test_an_answer_can_be_lost_after_the_request_was_carried_out() -> None:
    server = server_with(Fault(error=ConnectionLostError("lost"), carried_out=True), "create")
    with pytest.raises(ConnectionLostError):
        await server.client(USER).create(DAGS, dag(NAMESPACE))
    assert await server.client(USER).get(DAGS, NAMESPACE, "etl")


async def test_a_request_on_its_way_arrives_though_its_sender_is_gone() -> None:
    clock = Hand()
    server = server_with(Fault(delay_s=40.0), "create", clock)
    sender = asyncio.create_task(server.client(USER).create(DAGS, dag(NAMESPACE)))
    await settled()
    sender.cancel()
    await clock.advance(39.0)
    with pytest.raises(NotFoundError):
        await server.client(USER).get(DAGS, NAMESPACE, "etl")
    await clock.advance(1.0)
    assert sender.cancelled()
    assert await server.client(USER).get(DAGS, NAMESPACE, "etl")


async def test_an_answer_can_be_late_though_the_request_was_carried_out_at_once() -> None:
    clock = Hand()
    server = server_with(Fault(answer_delay_s=5.0), "create", clock)
    sender = asyncio.create_task(server.client(USER).create(DAGS, dag(NAMESPACE)))
    await settled()
    assert await server.client(USER).get(DAGS, NAMESPACE, "etl")
    assert not sender.done()
    await clock.advance(5.0)
    assert sender.done()


async def test_a_request_is_what_it_was_when_it_was_sent() -> None:
    clock = Hand()
    server = server_with(Fault(delay_s=1.0), "create", clock)
    sent = dag(NAMESPACE)
    sender = asyncio.create_task(server.client(USER).create(DAGS, sent))
    await settled()
    sent["spec"]["suspend"] = True
    await clock.advance(1.0)
    assert "suspend" not in (await sender)["spec"]


async def test_a_fault_can_depend_on_who_asks_for_what() -> None:
    seen: list[Request] = []

    def faults(request: Request) -> Fault | None:
        seen.append(request)
        return None

    server = MemoryServer(Hand(), faults=faults)
    created = await server.client(USER).create(DAGS, dag(NAMESPACE))
    await server.client(OPERATOR).replace(DAGS, created, subresource="status")
    assert seen == [
        Request(USER, "create", DAGS, NAMESPACE, "etl"),
        Request(OPERATOR, "update", DAGS, NAMESPACE, "etl", "status"),
    ]


async def watched(server: MemoryServer, events: list[WatchEvent]) -> None:
    api = server.client(USER)
    since = (await api.list(DAGS)).resource_version
    async with aclosing(api.watch(DAGS, resource_version=since)) as watch:
        async for event in watch:
            events.append(event)


async def test_a_watch_can_lag_and_then_tells_all_in_order() -> None:
    clock, events = Hand(), list[WatchEvent]()
    server = server_with(Fault(delay_s=3.0), "event", clock)
    reader = asyncio.create_task(watched(server, events))
    await settled()
    for name in ("a", "b"):
        await server.client(USER).create(DAGS, dag(NAMESPACE, name))
    await clock.advance(2.9)
    assert events == []
    await clock.advance(0.1)
    await clock.advance(3.0)
    assert [event.object["metadata"]["name"] for event in events] == ["a", "b"]
    reader.cancel()


async def test_a_watch_can_be_cut() -> None:
    events = list[WatchEvent]()
    server = server_with(Fault(error=ConnectionLostError("cut")), "event")
    reader = asyncio.create_task(watched(server, events))
    await settled()
    await server.client(USER).create(DAGS, dag(NAMESPACE))
    with pytest.raises(ConnectionLostError):
        await reader
    assert events == []


async def test_a_watch_from_before_the_changes_that_are_kept_is_gone() -> None:
    server = MemoryServer(SystemClock(), changes_max=3)
    api = server.client(USER)
    versions = [
        (await api.create(DAGS, dag(NAMESPACE, f"dag-{number}")))["metadata"]["resourceVersion"] for number in range(5)
    ]
    async with aclosing(api.watch(DAGS, resource_version=versions[1])) as watch:
        assert (await anext(watch)).object["metadata"]["name"] == "dag-2"
    with pytest.raises(GoneError):
        await anext(api.watch(DAGS, resource_version=versions[0]))


async def test_a_list_that_is_left_lying_too_long_is_gone() -> None:
    api = MemoryServer(SystemClock()).client(USER)
    for name in ("a", "b"):
        await api.create(DAGS, dag(NAMESPACE, name))
    token = (await api.list(DAGS, limit=1)).continue_token
    for _ in range(64):
        await api.list(DAGS, limit=1)
    with pytest.raises(GoneError):
        await api.list(DAGS, limit=1, continue_token=token)


async def test_a_watch_that_is_not_read_is_ended_by_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "WATCH_BACKLOG_MAX", 3)
    server, events = MemoryServer(SystemClock()), list[WatchEvent]()
    api = server.client(USER)
    since = (await api.list(DAGS)).resource_version
    async with aclosing(api.watch(DAGS, resource_version=since)) as watch:
        await api.create(DAGS, dag(NAMESPACE, "first"))
        events.append(await anext(watch))
        for number in range(5):
            await api.create(DAGS, dag(NAMESPACE, f"dag-{number}"))
        events += [event async for event in watch]
    assert [event.object["metadata"]["name"] for event in events] == ["first", "dag-0", "dag-1", "dag-2"]


@pytest.mark.looptime
async def test_under_virtual_time_a_day_of_watching_passes_at_once() -> None:
    server = MemoryServer(LoopClock(1_800_000_000.0))
    api = server.client(USER)
    since = (await api.list(DAGS)).resource_version
    events = [event async for event in api.watch(DAGS, resource_version=since, timeout_s=86_400)]
    assert [event.type for event in events] == [EventType.BOOKMARK] * int(86_400 / BOOKMARK_PERIOD_S)
    assert server.clock.now_s() == 1_800_086_400.0


async def test_two_servers_that_are_asked_the_same_give_the_same_answers() -> None:
    async def history() -> list[Obj]:
        api = MemoryServer(Hand()).client(USER)
        nameless = run(NAMESPACE)
        nameless["metadata"] = {"namespace": NAMESPACE, "generateName": "etl-"}
        return [await api.create(DAGS, dag(NAMESPACE)), *[await api.create(DAG_RUNS, nameless) for _ in range(3)]]

    assert await history() == await history()


async def test_requests_of_two_clients_take_turns() -> None:
    server, order = MemoryServer(SystemClock()), list[str]()

    async def write(name: str) -> None:
        for number in range(3):
            await server.client(USER).create(DAGS, dag(NAMESPACE, f"{name}-{number}"))
            order.append(name)

    await asyncio.gather(write("a"), write("b"))
    assert order == ["a", "b"] * 3


def garbled_status(obj: Obj) -> Obj:
    return {**obj, "status": "Running"}


def garbled_time(obj: Obj) -> Obj:
    return {
        **obj,
        "spec": {**obj["spec"], "trigger": "Schedule", "scheduledTime": "noon", "dagUID": "", "revision": ""},
    }


@pytest.mark.parametrize("garble", [garbled_status, garbled_time])
async def test_what_the_laws_cannot_read_is_invalid(garble: Callable[[Obj], Obj]) -> None:
    obj = garble(run(NAMESPACE))
    obj["metadata"]["labels"] = {SHARD_LABEL: "many"}
    with pytest.raises(InvalidError):
        await MemoryServer(SystemClock()).client(OPERATOR).create(DAG_RUNS, obj)


async def test_a_garbled_object_can_be_planted_and_is_seen_as_it_is() -> None:
    server, garbled = MemoryServer(SystemClock()), {**run(NAMESPACE), "spec": "none", "status": ["?"]}
    api = server.client(OPERATOR)
    since = (await api.list(DAG_RUNS)).resource_version
    server.plant(DAG_RUNS, garbled)
    [listed] = (await api.list(DAG_RUNS)).items
    assert (listed["spec"], listed["status"]) == ("none", ["?"])
    async with aclosing(api.watch(DAG_RUNS, resource_version=since)) as watch:
        assert (await anext(watch)).object == listed
    await api.delete(DAG_RUNS, NAMESPACE, "etl-by-hand", uid=listed["metadata"]["uid"])
    assert (await api.list(DAG_RUNS)).items == []


async def test_an_object_that_etcd_would_not_take_is_refused() -> None:
    api = MemoryServer(SystemClock()).client(ADMIN)
    with pytest.raises(InvalidError) as caught:
        await api.create(CONFIG_MAPS, {**config_map(NAMESPACE, "huge"), "data": {"x": "x" * 2_000_000}})
    assert caught.value.status == 413


async def test_a_deletion_in_the_foreground_is_not_known_here() -> None:
    api = MemoryServer(SystemClock()).client(USER)
    await api.create(DAGS, dag(NAMESPACE))
    with pytest.raises(InvalidError, match="Foreground"):
        await api.delete(DAGS, NAMESPACE, "etl", propagation="Foreground")


async def test_a_deletion_falls_through_owners_of_owners_once() -> None:
    api = MemoryServer(SystemClock()).client(ADMIN)

    def owned(name: str, *owners: Obj) -> Obj:
        references = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
            }
            for owner in owners
        ]
        return config_map(NAMESPACE, name, ownerReferences=references)

    top = await api.create(CONFIG_MAPS, config_map(NAMESPACE, "top"))
    middle = await api.create(CONFIG_MAPS, owned("middle", top))
    await api.create(CONFIG_MAPS, owned("bottom", middle, top))
    await api.delete(CONFIG_MAPS, NAMESPACE, "top")
    assert (await api.list(CONFIG_MAPS)).items == []


@pytest.mark.parametrize("salts", [("", ""), ("a", "a"), ("a", "b")])
async def test_uids_and_drawn_names_follow_from_the_salt(salts: tuple[str, str]) -> None:
    made = []
    for salt in salts:
        api = MemoryServer(SystemClock(), salt=salt).client(ADMIN)
        for _ in range(2):
            obj = config_map("analytics", "")
            obj["metadata"] = {"namespace": "analytics", "generateName": "map-"}
            made.append((await api.create(CONFIG_MAPS, obj))["metadata"])
    identities = [(meta["uid"], meta["name"]) for meta in made]
    assert (identities[:2] == identities[2:]) == (salts[0] == salts[1])
    assert len({uid[:8] for uid, _ in identities[:2]}) == 2, "mailbox keys hold no more of a UID"
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uid) for uid, _ in identities)
