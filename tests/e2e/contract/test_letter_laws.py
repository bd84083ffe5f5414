"""The fences of DeadLetter: what it tells never changes, people ask for replays, the operator answers."""

from typing import Any

import pytest

from fencepost.api.names import API_VERSION, DEAD_LETTERS
from fencepost.kube.errors import ForbiddenError, InvalidError
from fencepost.kube.protocol import Obj
from tests.e2e.contract.site import Site

JOB = {
    "dag": "etl",
    "dagUID": "u",
    "run": "r1",
    "runUID": "v",
    "revision": "etl-x",
    "round": 0,
    "task": "load",
    "index": 3,
    "scheduledTime": "2026-11-30T13:00:00Z",
    "reason": "Failed",
    "exitCode": 3,
    "attempt": 2,
    "losses": 0,
    "time": "2026-11-30T13:05:00Z",
    "message": "no luck",
    "attempts": [{"attempt": 1, "outcome": "Failed", "exitCode": 3, "startTime": "2026-11-30T13:00:01.250Z"}],
}


def a_letter(site: Site, **spec: Any) -> Obj:
    return {
        "apiVersion": API_VERSION,
        "kind": DEAD_LETTERS.kind,
        "metadata": {"namespace": site.namespace, "name": "etl-dabcdefghi"},
        "spec": {"job": JOB, **spec},
    }


async def stored(site: Site) -> Obj:
    return await site.operator.create(DEAD_LETTERS, a_letter(site))


async def test_only_the_operator_writes_a_letter(site: Site) -> None:
    for api in (site.user, site.worker):
        with pytest.raises(ForbiddenError):
            await api.create(DEAD_LETTERS, a_letter(site))
    assert (await stored(site))["spec"]["job"] == JOB


async def test_what_a_letter_tells_cannot_be_changed_by_anybody(site: Site) -> None:
    letter = await stored(site)
    for api in (site.user, site.admin):
        for job in (JOB | {"exitCode": 4}, {name: value for name, value in JOB.items() if name != "message"}):
            with pytest.raises(InvalidError, match="what has happened"):
                await api.replace(DEAD_LETTERS, {**letter, "spec": {**letter["spec"], "job": job}})


async def test_a_person_asks_for_a_replay_and_cannot_take_that_back(site: Site) -> None:
    letter = await stored(site)
    letter["spec"]["replay"] = 2
    letter = await site.user.replace(DEAD_LETTERS, letter)
    letter["spec"]["replay"] = 1
    with pytest.raises(InvalidError, match="only grows"):
        await site.user.replace(DEAD_LETTERS, letter)


async def test_only_the_operator_says_what_became_of_a_replay(site: Site) -> None:
    letter = await stored(site)
    letter["status"] = {"phase": "Replaying", "replay": 1, "run": "r1", "runUID": "v", "round": 1}
    with pytest.raises(ForbiddenError):
        await site.user.replace(DEAD_LETTERS, letter, subresource="status")
    assert "status" not in await site.user.replace(DEAD_LETTERS, letter)
    letter["metadata"].pop("resourceVersion")
    letter["metadata"]["resourceVersion"] = (await site.user.get(DEAD_LETTERS, site.namespace, "etl-dabcdefghi"))[
        "metadata"
    ]["resourceVersion"]
    written = await site.operator.replace(DEAD_LETTERS, letter, subresource="status")
    assert written["status"]["round"] == 1


async def test_a_person_may_throw_a_letter_away_and_so_may_the_operator(site: Site) -> None:
    for api in (site.user, site.operator):
        await stored(site)
        await api.delete(DEAD_LETTERS, site.namespace, "etl-dabcdefghi")
