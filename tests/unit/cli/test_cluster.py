"""The cluster through pykube: what is sent, and what is said when the server refuses or is not there."""

import argparse
import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import orjson
import pytest
from aiohttp import web

from fencepost.api.names import DAG_RUNS, DAGS, WORKER_POOLS
from fencepost.cli.cluster import ClusterError, PykubeCluster, open_cluster
from fencepost.cli.errors import RefusedError
from fencepost.kube.access import Access
from tests.unit.kube.http_server import HttpServer, answer, refusal

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextmanager
def serving(handler: Handler) -> Iterator[tuple[HttpServer, PykubeCluster]]:
    """A server in a thread of its own, as the commands do not give way, and a person's view of it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = HttpServer(handler)
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
        yield server, PykubeCluster(Access(server.url, token="secret"), "demo")
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def echo(request: web.Request) -> web.Response:
    body = await request.read()
    return answer(orjson.loads(body) if body else {"metadata": {"name": "found"}})


def test_objects_are_read_created_and_patched_in_the_namespace() -> None:
    with serving(echo) as (server, cluster):
        assert cluster.get(DAGS, "etl") == {"metadata": {"name": "found"}}
        cluster.get(WORKER_POOLS, "default")
        made = cluster.create(DAG_RUNS, {"metadata": {"name": "r"}})
        cluster.patch(DAG_RUNS, "r", {"spec": {"cancel": True}})
    assert made["metadata"] == {"name": "r", "namespace": "demo"}
    runs = "/apis/fencepost.dev/v1alpha1/namespaces/demo/dagruns"
    assert [(request.method, request.path) for request in server.requests] == [
        ("GET", "/apis/fencepost.dev/v1alpha1/namespaces/demo/dags/etl"),
        ("GET", "/apis/fencepost.dev/v1alpha1/workerpools/default"),
        ("POST", runs),
        ("PATCH", f"{runs}/r"),
    ]
    assert server.requests[-1].headers["Content-Type"] == "application/merge-patch+json"
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer secret"}


def test_the_server_says_who_asks() -> None:
    async def review(_request: web.Request) -> web.Response:
        return answer({"status": {"userInfo": {"username": "ann@example.com"}}})

    with serving(review) as (server, cluster):
        assert cluster.user_name() == "ann@example.com"
    assert [request.path for request in server.requests] == ["/apis/authentication.k8s.io/v1/selfsubjectreviews"]


def test_a_long_list_comes_page_by_page() -> None:
    async def pages(request: web.Request) -> web.Response:
        last = request.query.get("continue") == "more"
        page = [{"metadata": {"name": "b" if last else "a"}}]
        return answer({"items": page, "metadata": {} if last else {"continue": "more"}})

    with serving(pages) as (server, cluster):
        assert [each["metadata"]["name"] for each in cluster.list(DAG_RUNS, "x=y")] == ["a", "b"]
    assert {request.query["labelSelector"] for request in server.requests} == {"x=y"}


def test_what_is_not_there_is_none_or_refused_by_name() -> None:
    async def nothing(_request: web.Request) -> web.Response:
        return refusal(404, "NotFound", 'dags.fencepost.dev "elt" not found')

    with serving(nothing) as (_, cluster):
        assert cluster.find(DAGS, "elt") is None
        with pytest.raises(RefusedError, match=r"DAG demo/elt: .* not found; check the name, and --namespace"):
            cluster.get(DAGS, "elt")


@pytest.mark.parametrize("name", ["", "a/b", "../dags/etl", "etl?x=y", "a b", "ETL", "\N{SNOWMAN}", "etl\n"])
def test_what_is_no_name_reaches_no_other_object(name: str) -> None:
    with serving(echo) as (server, cluster):
        for ask in (cluster.get, cluster.find, lambda kind, name: cluster.patch(kind, name, {})):
            with pytest.raises(RefusedError, match=r"cannot be the name of a DAGRun; write its metadata\.name"):
                ask(DAG_RUNS, name)
    assert not server.requests


@pytest.mark.parametrize(
    ("status", "passing", "remedy"),
    [(403, False, "ask for the right"), (422, False, "put right"), (429, True, ""), (500, True, "")],
)
def test_a_refusal_says_whether_it_may_pass(status: int, passing: bool, remedy: str) -> None:
    async def refuse(_request: web.Request) -> web.Response:
        return refusal(status, "Reason", "the server's own words")

    with serving(refuse) as (_, cluster), pytest.raises(ClusterError, match="the server's own words; ") as caught:
        cluster.patch(DAGS, "etl", {})
    assert (caught.value.status, caught.value.passing) == (status, passing)
    assert remedy in str(caught.value)


def test_a_server_that_is_not_there_is_named_and_a_write_is_said_to_be_unclear() -> None:
    cluster = PykubeCluster(Access("http://127.0.0.1:1"), "demo")
    with pytest.raises(
        ClusterError, match=r"http://127\.0\.0\.1:1 does not answer \(.*Connection refused\);"
    ) as caught:
        cluster.get(DAGS, "etl")
    assert caught.value.passing
    with pytest.raises(ClusterError, match="whether it was carried out is not known"):
        cluster.create(DAG_RUNS, {"metadata": {"generateName": "etl-"}})


def test_a_kubeconfig_that_is_not_there_is_refused() -> None:
    args = argparse.Namespace(kubeconfig="/nowhere/config", context=None, namespace=None)
    with pytest.raises(RefusedError, match="/nowhere/config"):
        open_cluster(args)
