"""Watches: every change after a version, in order, once."""

import asyncio
from contextlib import aclosing

import pytest

from fencepost.api.names import CONFIG_MAPS, DAGS
from fencepost.kube.errors import GoneError, ServerError
from fencepost.kube.protocol import EventType, Obj, WatchEvent
from tests.e2e.contract.objects import config_map, dag
from tests.e2e.contract.site import Site

READ_LIMIT_S = 20.0


async def now(site: Site) -> str:
    """The version to watch from."""
    return (await site.user.list(DAGS, site.namespace)).resource_version


async def read(site: Site, count: int, *, since: str, name: str = "", selector: str = "") -> list[WatchEvent]:
    """The first `count` events but bookmarks."""
    events: list[WatchEvent] = []
    watch = site.user.watch(DAGS, site.namespace, name=name, label_selector=selector, resource_version=since)
    async with asyncio.timeout(READ_LIMIT_S), aclosing(watch):
        async for event in watch:
            if event.type is not EventType.BOOKMARK:
                events.append(event)
                if len(events) == count:
                    return events
    raise AssertionError(f"the watch ended after {events}")


def told(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(event.type.value, event.object["metadata"]["name"]) for event in events]


async def suspended(site: Site, obj: Obj) -> Obj:
    return await site.user.replace(DAGS, {**obj, "spec": {**obj["spec"], "suspend": True}})


async def test_a_watch_tells_each_change_after_its_version_in_order(site: Site) -> None:
    await site.user.create(DAGS, dag(site.namespace, "before"))
    since = await now(site)
    created = await site.user.create(DAGS, dag(site.namespace, "a"))
    changed = await suspended(site, created)
    await site.user.delete(DAGS, site.namespace, "a")
    events = await read(site, 3, since=since)
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert [event.object for event in events[:2]] == [created, changed]
    assert events[2].object["spec"] == changed["spec"]
    versions = [int(event.object["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))


async def test_a_watch_tells_what_happens_while_it_is_open(site: Site) -> None:
    since = await now(site)
    reading = asyncio.create_task(read(site, 2, since=since))
    await site.user.create(DAGS, dag(site.namespace, "a"))
    await site.user.create(DAGS, dag(site.namespace, "b"))
    assert told(await reading) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_of_one_name_tells_of_that_object_only(site: Site) -> None:
    since = await now(site)
    await site.user.create(DAGS, dag(site.namespace, "other"))
    mine = await site.user.create(DAGS, dag(site.namespace, "mine"))
    await suspended(site, mine)
    events = await read(site, 2, since=since, name="mine")
    assert told(events) == [("ADDED", "mine"), ("MODIFIED", "mine")]


async def test_to_a_selector_an_object_comes_and_goes_with_its_labels(site: Site) -> None:
    since = await now(site)
    obj = await site.user.create(DAGS, dag(site.namespace, "a"))
    obj["metadata"]["labels"] = {"team": "a"}
    obj = await site.user.replace(DAGS, obj)
    obj["metadata"]["labels"] = {"team": "b"}
    left = await site.user.replace(DAGS, obj)
    events = await read(site, 2, since=since, selector="team=a")
    assert told(events) == [("ADDED", "a"), ("DELETED", "a")]
    assert events[1].object["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_a_write_that_changes_nothing_is_no_event(site: Site) -> None:
    since = await now(site)
    obj = await site.user.create(DAGS, dag(site.namespace, "a"))
    await site.user.replace(DAGS, obj)
    await site.user.create(DAGS, dag(site.namespace, "b"))
    assert told(await read(site, 2, since=since)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_an_object_held_by_a_finalizer_is_deleted_when_it_is_gone(site: Site) -> None:
    since = await now(site)
    await site.user.create(DAGS, dag(site.namespace, "a", finalizers=["fencepost.dev/contract"]))
    await site.user.delete(DAGS, site.namespace, "a")
    held = await site.user.get(DAGS, site.namespace, "a")
    held["metadata"]["finalizers"] = []
    await site.user.replace(DAGS, held)
    events = await read(site, 3, since=since)
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_watch_ends_by_itself_at_its_time_after_a_bookmark(site: Site) -> None:
    since = await now(site)
    watch = site.user.watch(DAGS, site.namespace, name="mine", resource_version=since, timeout_s=6)
    async with asyncio.timeout(READ_LIMIT_S):
        mine = await site.user.create(DAGS, dag(site.namespace, "mine"))
        assert (await anext(watch)).object == mine
        other = await site.user.create(DAGS, dag(site.namespace, "other"))
        bookmark = [event async for event in watch][-1]
    assert bookmark.type is EventType.BOOKMARK
    assert bookmark.object["kind"] == DAGS.kind
    assert int(bookmark.object["metadata"]["resourceVersion"]) >= int(other["metadata"]["resourceVersion"])


async def test_a_watch_of_built_in_objects_is_no_different(site: Site) -> None:
    since = (await site.user.list(CONFIG_MAPS, site.namespace, label_selector="mine")).resource_version
    await site.user.create(CONFIG_MAPS, config_map(site.namespace, "a", labels={"mine": ""}))
    watch = site.user.watch(CONFIG_MAPS, site.namespace, label_selector="mine", resource_version=since)
    async with asyncio.timeout(READ_LIMIT_S), aclosing(watch):
        event = await anext(watch)
    assert (event.type, event.object["kind"], event.object["metadata"]["name"]) == (EventType.ADDED, "ConfigMap", "a")


async def test_a_watch_from_before_all_that_is_kept_is_gone(site: Site) -> None:
    await site.user.create(DAGS, dag(site.namespace, "a"))
    with pytest.raises(GoneError):
        await read(site, 1, since="1")


async def test_a_watch_from_what_is_no_version_is_refused(site: Site) -> None:
    with pytest.raises(ServerError):
        await read(site, 1, since="soon")
