"""The webhook over HTTPS on loopback, as the API server calls it."""

import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from fencepost.base.clock import SystemClock
from fencepost.base.metrics import Metrics
from fencepost.loops import webhook
from fencepost.loops.webhook import PATH, CertificateError, Webhook
from tests.unit.api.test_admission import a_review, a_task
from tests.unit.support.certificates import write_certificate


class Caller:
    """A webhook, and whoever asks it."""

    def __init__(self, folder: Path) -> None:
        self.files = write_certificate(folder)
        self.metrics = Metrics()
        self.webhook = Webhook("127.0.0.1", 0, *self.files, SystemClock(), self.metrics)

    async def ask(self, body: Any) -> tuple[int, Any]:
        """Status and body of the answer, from whoever has the certificate that is in the file now."""
        context = ssl.create_default_context(cafile=str(self.files[0]))
        url = f"https://127.0.0.1:{self.webhook.port}{PATH}"
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=orjson.dumps(body), ssl=context) as answer,
        ):
            content = await answer.read()
            return answer.status, orjson.loads(content) if answer.status == 200 else content.decode()


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    caller = Caller(tmp_path)
    async with caller.webhook:
        yield caller


async def test_dags_are_let_through_or_refused_and_counted(caller: Caller) -> None:
    _, good = await caller.ask(a_review())
    _, bad = await caller.ask(a_review(tasks=[a_task("a", "a")]))
    assert (good["response"]["allowed"], bad["response"]["allowed"]) == (True, False)
    lines = caller.metrics.text().decode().splitlines()
    assert 'fencepost_admission_reviews_total{allowed="true"} 1.0' in lines
    assert 'fencepost_admission_reviews_total{allowed="false"} 1.0' in lines


async def test_a_dag_of_two_thousand_tasks_with_its_older_self_is_answered(caller: Caller) -> None:
    review = a_review(tasks=[a_task(f"task-{number}") | {"args": ["x" * 500]} for number in range(2000)])
    review["request"]["oldObject"] = review["request"]["object"]
    status, answer = await caller.ask(review)
    assert (status, answer["response"]["allowed"]) == (200, True)


async def test_what_is_no_review_gets_no_verdict(caller: Caller) -> None:
    status, text = await caller.ask({"kind": "Pod"})
    assert status == 400
    assert "no AdmissionReview" in text


async def test_a_renewed_certificate_is_taken_into_use(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    stamp = caller.webhook._stamp
    caller.files[1].write_text("garbled")
    with pytest.raises(CertificateError):
        caller.webhook._load()
    write_certificate(caller.files[0].parent)
    os.utime(caller.files[0], (1, 1))
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await caller.ask(a_review())
    assert caller.webhook._stamp_now() != stamp
    caller.webhook._load()
    assert (await caller.ask(a_review()))[0] == 200


async def test_the_files_are_looked_at_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "RELOAD_PERIOD_S", 0.01)
    caller = Caller(tmp_path)
    async with caller.webhook:
        write_certificate(tmp_path)
        for _ in range(200):
            try:
                status, _ = await caller.ask(a_review())
            except aiohttp.ClientConnectorCertificateError:
                continue
            break
        assert status == 200


@pytest.mark.parametrize("what", ["absent", "garbled"])
def test_a_certificate_that_cannot_be_used_is_named_at_the_start(tmp_path: Path, what: str) -> None:
    certificate, key = write_certificate(tmp_path)
    if what == "absent":
        key.unlink()
    else:
        key.write_text("garbled")
    with pytest.raises(CertificateError, match=r"webhook\.crt and .*webhook\.key"):
        Webhook("127.0.0.1", 0, certificate, key, SystemClock(), Metrics())
