"""Environment variables whose values come from Secrets and ConfigMaps of the DAG's namespace."""

import base64
from typing import Any

import orjson
import pytest

from fencepost.api.names import CONFIG_MAPS, SECRETS, WORKER_POOLS, WORKERS, Kind
from fencepost.core.run_state import Outcome
from fencepost.kube.errors import ConnectionLostError, ForbiddenError
from fencepost.memory.faults import Fault
from tests.unit.worker.stage import RUN, Stage, entry, key_of, play, revision_of

A = key_of(0)
PASSWORD = "correct horse battery staple"
HIDDEN = base64.b64encode(PASSWORD.encode()).decode()


def secret_ref(name: str = "db", key: str = "password", **more: Any) -> dict[str, Any]:
    return {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": name, "key": key, **more}}}


def config_ref(name: str = "site", key: str = "region", **more: Any) -> dict[str, Any]:
    return {"name": "REGION", "valueFrom": {"configMapKeyRef": {"name": name, "key": key, **more}}}


async def put(stage: Stage, kind: Kind, name: str, **content: Any) -> None:
    namespace = {"namespace": RUN.namespace} if kind.namespaced else {}
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **namespace}, **content}
    await stage.admin.create(kind, obj)


async def run_job(stage: Stage, *env: dict[str, Any], allow: list[str] | None = None) -> None:
    """Deliver a job with this environment to a worker whose pool lets it read what these namespaces hold."""
    await put(stage, WORKER_POOLS, "default", spec={"secrets": {"allow": allow}} if allow is not None else {})
    await put(stage, SECRETS, "db", data={"password": HIDDEN, "raw": base64.b64encode(b"\xff\xfe").decode()})
    await put(stage, CONFIG_MAPS, "site", data={"region": "eu"})
    data = {"tasks": [{"name": "load", "command": ["load"], "env": list(env)}]}
    await stage.open()
    await stage.store_revision(data)
    await stage.deliver({A: entry(revision=revision_of(data))})


@pytest.mark.parametrize("allow", [[RUN.namespace], ["*"], ["other", RUN.namespace]])
def test_values_stand_in_the_environment_of_the_job(allow: list[str]) -> None:
    async def story(stage: Stage) -> None:
        await run_job(stage, {"name": "PLAIN", "value": "x"}, secret_ref(), config_ref(), allow=allow)
        await stage.until(lambda: bool(stage.runner.jobs))
        env = stage.runner.jobs[0].launch.env
        assert (env["PLAIN"], env["PASSWORD"], env["REGION"]) == ("x", PASSWORD, "eu")

    play(story)


def test_a_secret_is_written_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        caplog.set_level("DEBUG")
        began_at = str(stage.server.engine.version)
        await run_job(stage, secret_ref(), allow=["*"])
        await stage.until(lambda: bool(stage.runner.jobs))
        stage.runner.jobs[0].end(1, tail="it failed")
        await stage.answer(A)
        versions = stage.admin.watch(WORKERS, resource_version=began_at, timeout_s=0.0)
        told = [orjson.dumps(event.object).decode() async for event in versions]
        assert told
        assert not [text for text in told if PASSWORD in text or HIDDEN in text]
        assert PASSWORD not in caplog.text
        assert HIDDEN not in caplog.text

    play(story)


@pytest.mark.parametrize("allow", [None, [], ["other"]])
def test_nothing_is_read_unless_the_pool_allows_the_namespace(allow: list[str] | None) -> None:
    async def story(stage: Stage) -> None:
        await run_job(stage, secret_ref(), allow=allow)
        result = await stage.answer(A)
        assert result.outcome is Outcome.INVALID
        assert result.message == (
            "WorkerPool 'default' does not let its workers read Secrets and ConfigMaps of namespace 'analytics'; "
            "add it to spec.secrets.allow, or name another pool"
        )
        assert not stage.seen("get", SECRETS)

    play(story)


def test_a_job_that_asks_for_none_reads_nothing_more() -> None:
    async def story(stage: Stage) -> None:
        await run_job(stage, {"name": "PLAIN", "value": "x"}, allow=["*"])
        await stage.until(lambda: bool(stage.runner.jobs))
        assert not stage.seen("get", WORKER_POOLS)

    play(story)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (secret_ref("absent"), "Secret analytics/absent, from which PASSWORD comes, does not exist; create it"),
        (secret_ref(key="user"), "Secret analytics/db, from which PASSWORD comes, has no key 'user'; add it"),
        (secret_ref(key="raw"), "Secret analytics/db, from which PASSWORD comes, holds no text under 'raw'"),
        (config_ref("absent"), "ConfigMap analytics/absent, from which REGION comes, does not exist; create it"),
        (config_ref(key="zone"), "ConfigMap analytics/site, from which REGION comes, has no key 'zone'; add it"),
    ],
    ids=["no secret", "no key of it", "no text", "no config map", "no key of that"],
)
def test_a_value_that_is_not_there_fails_the_attempt_and_is_named(env: dict[str, Any], message: str) -> None:
    async def story(stage: Stage) -> None:
        await run_job(stage, env, allow=["*"])
        result = await stage.answer(A)
        assert result.outcome is Outcome.FAILED
        assert result.message.startswith(message)

    play(story)


def test_an_optional_value_that_is_not_there_is_left_out() -> None:
    async def story(stage: Stage) -> None:
        await run_job(stage, secret_ref("absent", optional=True), config_ref(key="zone", optional=True), allow=["*"])
        await stage.until(lambda: bool(stage.runner.jobs))
        assert not {"PASSWORD", "REGION"} & stage.runner.jobs[0].launch.env.keys()

    play(story)


def test_a_worker_without_the_right_says_so_at_once() -> None:
    async def story(stage: Stage) -> None:
        refused = Fault(error=ForbiddenError("no right"))
        stage.fault = lambda request: refused if request.kind is SECRETS else None
        await run_job(stage, secret_ref(), allow=["*"])
        result = await stage.answer(A, limit_s=5)
        assert result.outcome is Outcome.FAILED
        assert "may not be read by this worker; give its service account the right" in result.message

    play(story)


def test_an_api_server_that_is_away_is_waited_for_and_then_the_job_is_handed_back() -> None:
    async def story(stage: Stage) -> None:
        gone = Fault(error=ConnectionLostError("no answer"))
        stage.fault = lambda request: gone if request.kind is SECRETS else None
        await run_job(stage, secret_ref(), allow=["*"])
        result = await stage.answer(A, limit_s=120)
        assert result.outcome is Outcome.HANDED_BACK
        assert "could not be read for 60 s" in result.message

    play(story)


def test_a_pool_that_is_gone_allows_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.fault = lambda request: None
        await run_job(stage, {"name": "PLAIN", "value": "x"}, allow=["*"])
        await stage.admin.delete(WORKER_POOLS, None, "default")
        data = {"tasks": [{"name": "load", "command": ["load"], "env": [secret_ref()]}]}
        await stage.store_revision(data)
        await stage.deliver({A: entry(2, revision=revision_of(data))})
        result = await stage.answer(A)
        assert result.outcome is Outcome.INVALID
        assert "cannot be read, which says who may use Secrets" in result.message

    play(story)
