"""The HTTP client against a server that misbehaves on demand; against a real one it is tested by the contract suite."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from fencepost.api.names import DAG_RUNS, PODS, WORKER_POOLS, WORKERS, Kind
from fencepost.base.clock import SystemClock
from fencepost.kube.access import Access
from fencepost.kube.client import HttpApi
from fencepost.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    NotReadyError,
    OverloadedError,
    ServerError,
    UnreachableError,
)
from fencepost.kube.protocol import EventType, WatchEvent
from tests.unit.kube.http_server import HttpServer, answer, cut, refusal, stream

RUN = {"metadata": {"namespace": "analytics", "name": "etl-1", "resourceVersion": "7"}}


def event_line(type: str, **fields: object) -> bytes:
    return orjson.dumps({"type": type, "object": {"metadata": fields}}) + b"\n"


async def events_of(api: HttpApi, **options: object) -> list[WatchEvent]:
    stream = api.watch(DAG_RUNS, "analytics", resource_version="7", **options)  # type: ignore[arg-type]
    return [event async for event in stream]


async def test_each_call_goes_to_the_path_of_its_kind() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return answer({"metadata": {"resourceVersion": "9"}, "items": []})

    async with HttpServer(handler) as server, server.client() as api:
        await api.get(DAG_RUNS, "analytics", "etl-1")
        await api.list(PODS, "analytics", label_selector="app=x,tier in (a, b)", limit=5, continue_token="t")
        await api.list(WORKER_POOLS)
        await api.create(DAG_RUNS, RUN)
        await api.replace(WORKERS, RUN, subresource="status")
        await api.delete(DAG_RUNS, "analytics", "etl-1", uid="u1")
        seen = [(request.method, request.path_qs) for request in server.requests]
    runs = "/apis/fencepost.dev/v1alpha1/namespaces/analytics/dagruns"
    assert seen == [
        ("GET", f"{runs}/etl-1"),
        ("GET", "/api/v1/namespaces/analytics/pods?labelSelector=app%3Dx%2Ctier+in+%28a%2C+b%29&limit=5&continue=t"),
        ("GET", "/apis/fencepost.dev/v1alpha1/workerpools"),
        ("POST", runs),
        ("PUT", "/apis/fencepost.dev/v1alpha1/namespaces/analytics/workers/etl-1/status"),
        ("DELETE", f"{runs}/etl-1"),
    ]
    assert orjson.loads(server.bodies[-1])["preconditions"] == {"uid": "u1"}
    assert server.requests[0].headers["User-Agent"] == "fencepost/test"


async def test_a_page_of_a_built_in_kind_names_the_kind_in_each_item() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return answer({"metadata": {"resourceVersion": "9", "continue": "next"}, "items": [{"metadata": {}}]})

    async with HttpServer(handler) as server, server.client() as api:
        page = await api.list(PODS, "analytics")
    assert page.items == [{"apiVersion": "v1", "kind": "Pod", "metadata": {}}]
    assert (page.resource_version, page.continue_token) == ("9", "next")


@pytest.mark.parametrize(
    ("status", "reason", "want", "want_unknown"),
    [
        (400, "BadRequest", InvalidError, False),
        (401, "Unauthorized", ForbiddenError, False),
        (403, "Forbidden", ForbiddenError, False),
        (404, "NotFound", NotFoundError, False),
        (409, "Conflict", ConflictError, False),
        (409, "AlreadyExists", AlreadyExistsError, False),
        (410, "Expired", GoneError, False),
        (422, "Invalid", InvalidError, False),
        (429, "TooManyRequests", OverloadedError, False),
        (500, "InternalError", ServerError, True),
        (504, "Timeout", ServerError, True),
    ],
)
async def test_an_answer_becomes_the_error_of_its_status_and_reason(
    status: int, reason: str, want: type[ApiError], want_unknown: bool
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return refusal(status, reason, "the very reason")

    async with HttpServer(handler) as server, server.client() as api:
        with pytest.raises(ApiError, match=r"update .*/etl-1: the very reason") as caught:
            await api.replace(DAG_RUNS, RUN)
    assert type(caught.value) is want
    assert (caught.value.status, caught.value.reason) == (status, reason)
    assert caught.value.outcome_unknown is want_unknown


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            422,
            "failed to configure binding: paramKind kind `coordination.k8s.io/v1, Kind=Lease` not known",
        ),
        (422, "paramKind kind `coordination.k8s.io/v1, Kind=Lease` not yet synced to use for admission"),
        (403, 'dagruns.fencepost.dev "etl-1" is forbidden: not yet ready to handle request'),
    ],
)
async def test_a_server_that_cannot_judge_yet_has_refused_nothing(status: int, message: str) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return refusal(status, "Invalid", message)

    async with HttpServer(handler) as server, server.client() as api:
        with pytest.raises(NotReadyError) as caught:
            await api.replace(DAG_RUNS, RUN)
    assert not caught.value.outcome_unknown


async def test_an_answer_that_is_no_status_is_quoted() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=502, text="<html>bad gateway</html>")

    async with HttpServer(handler) as server, server.client() as api:
        with pytest.raises(ServerError, match="bad gateway"):
            await api.get(DAG_RUNS, "analytics", "etl-1")


async def test_429_says_how_long_to_wait() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return refusal(429, "TooManyRequests", headers={"Retry-After": "7"})

    async with HttpServer(handler) as server, server.client() as api:
        with pytest.raises(OverloadedError) as caught:
            await api.create(DAG_RUNS, RUN)
    assert caught.value.retry_after_s == 7.0


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_write_whose_connection_breaks_is_sent_once_and_its_outcome_is_unknown(method: str) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return cut(request) if request.method == method else answer(RUN)

    async with HttpServer(handler) as server, server.client() as api:
        await api.get(DAG_RUNS, "analytics", "etl-1")  # so that the connection is a kept one
        write = api.replace(DAG_RUNS, RUN) if method == "PUT" else api.delete(DAG_RUNS, "analytics", "etl-1")
        with pytest.raises(ConnectionLostError) as caught:
            await write
        assert [request.method for request in server.requests] == ["GET", method]
    assert caught.value.outcome_unknown


async def test_a_write_to_nobody_was_certainly_not_carried_out() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return answer(RUN)

    async with HttpServer(handler) as server:
        api = server.client()
    async with api:
        with pytest.raises(UnreachableError) as caught:
            await api.replace(DAG_RUNS, RUN)
    assert not caught.value.outcome_unknown


async def test_a_write_that_is_not_answered_in_time_has_an_unknown_outcome() -> None:
    released = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return answer(RUN)

    async with HttpServer(handler) as server, server.client(request_timeout_s=0.05) as api:
        with pytest.raises(ConnectionLostError) as caught:
            await api.replace(DAG_RUNS, RUN)
        released.set()
    assert caught.value.outcome_unknown


async def test_401_is_tried_once_more_with_the_token_that_is_in_the_file_now(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("old")

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer new":
            return answer(RUN)
        token_file.write_text("new\n")
        return refusal(401, "Unauthorized")

    async with HttpServer(handler) as server, server.client(Access("", token_file=token_file)) as api:
        assert await api.replace(DAG_RUNS, RUN) == RUN
        assert len(server.requests) == 2


async def test_401_for_a_token_that_cannot_change_is_raised_at_once() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return refusal(401, "Unauthorized")

    async with HttpServer(handler) as server, server.client(Access("", token="fixed")) as api:
        with pytest.raises(ForbiddenError):
            await api.replace(DAG_RUNS, RUN)
        assert len(server.requests) == 1


async def test_the_observer_hears_of_each_request_once() -> None:
    heard: list[tuple[str, Kind, int]] = []

    def observer(verb: str, kind: Kind, status: int, seconds: float) -> None:
        heard.append((verb, kind, status))

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.method == "PUT":
            return refusal(409, "Conflict")
        return cut(request) if request.method == "POST" else answer(RUN)

    async with HttpServer(handler) as server, server.client(observer=observer) as api:
        await api.get(DAG_RUNS, "analytics", "etl-1")
        for call in (api.replace, api.create):
            with pytest.raises(ApiError):
                await call(DAG_RUNS, RUN)
        await events_of(api)
    assert heard == [
        ("get", DAG_RUNS, 200),
        ("update", DAG_RUNS, 409),
        ("create", DAG_RUNS, 0),
        ("watch", DAG_RUNS, 200),
    ]


async def test_each_new_date_of_the_server_is_told_with_the_moments_between_which_it_was_true() -> None:
    noon = "Mon, 30 Nov 2026 12:00:"
    dates = iter([f"{noon}00 GMT", f"{noon}00 GMT", "at noon", f"{noon}01 GMT"])
    told: list[tuple[float, float, float]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        return answer(RUN, headers={"Date": next(dates)})

    async with (
        HttpServer(handler) as server,
        server.client(on_date=lambda date_s, sent_s, heard_s: told.append((date_s, sent_s, heard_s))) as api,
    ):
        began_s = SystemClock().steady_s()
        for _ in range(4):
            await api.get(DAG_RUNS, "analytics", "etl-1")
        ended_s = SystemClock().steady_s()

    assert [date_s for date_s, _, _ in told] == [1796040000.0, 1796040001.0]
    (_, first_sent_s, first_heard_s), (_, last_sent_s, last_heard_s) = told
    assert began_s <= first_sent_s < first_heard_s <= last_sent_s < last_heard_s <= ended_s


async def test_a_watch_asks_for_bookmarks_and_one_name() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await stream(request, event_line("ADDED", name="etl-1"), event_line("BOOKMARK", resourceVersion="9"))

    async with HttpServer(handler) as server, server.client() as api:
        events = await events_of(api, name="etl-1", timeout_s=60)
        query = dict(server.requests[0].query)
    assert [event.type for event in events] == [EventType.ADDED, EventType.BOOKMARK]
    assert query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "60",
        "fieldSelector": "metadata.name=etl-1",
    }


async def test_a_watch_reads_lines_of_megabytes_in_whatever_pieces_they_come() -> None:
    large = event_line("ADDED", name="größer", note="ü" * 1_000_000)

    async def handler(request: web.Request) -> web.StreamResponse:
        pieces = [large[at : at + 100_001] for at in range(0, len(large), 100_001)]
        return await stream(request, *pieces, event_line("DELETED", name="small"))

    async with HttpServer(handler) as server, server.client() as api:
        events = await events_of(api)
    assert [event.object["metadata"]["name"] for event in events] == ["größer", "small"]
    assert len(events[0].object["metadata"]["note"]) == 1_000_000


@pytest.mark.parametrize(("code", "want"), [(410, GoneError), (500, ServerError)])
async def test_an_error_inside_a_watch_is_raised(code: int, want: type[ApiError]) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        line = orjson.dumps({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "too old"}})
        return await stream(request, line + b"\n")

    async with HttpServer(handler) as server, server.client() as api:
        with pytest.raises(want, match="too old"):
            await events_of(api)


async def test_a_watch_from_too_old_a_version_is_refused_with_gone() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return refusal(410, "Expired")

    async with HttpServer(handler) as server, server.client() as api:
        with pytest.raises(GoneError):
            await events_of(api)


async def test_a_watch_that_breaks_in_the_middle_is_a_lost_connection() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = await stream(request, event_line("ADDED", name="etl-1"), b'{"type": "MOD')
        cut(request)
        return response

    async with HttpServer(handler) as server, server.client() as api:
        with pytest.raises(ConnectionLostError):
            await events_of(api)


async def test_a_watch_on_which_nothing_more_comes_ends_after_a_while() -> None:
    released = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = await stream(request, event_line("ADDED", name="etl-1"))
        await released.wait()
        return response

    async with HttpServer(handler) as server, server.client(watch_silence_max_s=0.05) as api:
        assert [event.type for event in await events_of(api)] == [EventType.ADDED]
        released.set()


async def test_a_watch_that_is_not_even_begun_is_a_lost_connection() -> None:
    released = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return await stream(request)

    async with HttpServer(handler) as server, server.client(watch_silence_max_s=0.05) as api:
        with pytest.raises(ConnectionLostError):
            await events_of(api)
        released.set()


async def test_closing_the_client_ends_what_is_under_way_and_refuses_what_comes_later() -> None:
    asked, released = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            response = await stream(request, event_line("ADDED", name="etl-1"))
        else:
            asked.set()
        await released.wait()
        return response

    async with HttpServer(handler) as server, server.client() as api:
        watch = api.watch(DAG_RUNS, resource_version="7")
        await anext(watch)
        waiting = [asyncio.ensure_future(anext(watch)), asyncio.ensure_future(api.replace(DAG_RUNS, RUN))]
        await asked.wait()
        await api.close()
        for task in waiting:
            with pytest.raises(ConnectionLostError):
                await task
        with pytest.raises(UnreachableError):
            await api.get(DAG_RUNS, "analytics", "etl-1")
        released.set()


async def test_open_watches_leave_the_connections_to_requests() -> None:
    released = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return answer(RUN)
        response = await stream(request, event_line("ADDED", name="etl-1"))
        await released.wait()
        return response

    async with HttpServer(handler) as server, server.client(connections_max=1) as api:
        async with (
            aclosing(api.watch(DAG_RUNS, resource_version="7")) as first,
            aclosing(api.watch(DAG_RUNS, resource_version="7")) as second,
        ):
            assert [(await anext(watch)).type for watch in (first, second)] == [EventType.ADDED] * 2
            assert await api.get(DAG_RUNS, "analytics", "etl-1") == RUN
        released.set()
