"""The fences of DAG: the mark never falls, and its status is the operator's."""

import pytest

from fencepost.api.names import DAGS
from fencepost.kube.errors import ConflictError, ForbiddenError, InvalidError
from fencepost.kube.protocol import Obj
from tests.e2e.contract.objects import dag
from tests.e2e.contract.site import Site

MARK = "2026-11-30T13:00:00Z"


async def marked(site: Site) -> Obj:
    obj = await site.user.create(DAGS, dag(site.namespace))
    return await site.operator.replace(DAGS, {**obj, "status": {"lastScheduledTime": MARK}}, subresource="status")


@pytest.mark.parametrize("status", [{"lastScheduledTime": "2026-11-30T12:59:59Z"}, {"state": "Ready"}, None])
async def test_the_mark_never_falls(site: Site, status: Obj | None) -> None:
    obj = await marked(site)
    with pytest.raises(InvalidError, match="lastScheduledTime never falls"):
        await site.operator.replace(DAGS, {**obj, "status": status}, subresource="status")


async def test_the_mark_may_stay_or_rise(site: Site) -> None:
    obj = await marked(site)
    for mark in (MARK, "2026-11-30T13:00:01Z"):
        status = {"lastScheduledTime": mark, "state": "Ready"}
        obj = await site.operator.replace(DAGS, {**obj, "status": status}, subresource="status")
        assert obj["status"]["lastScheduledTime"] == mark


async def test_only_the_operator_writes_the_status(site: Site) -> None:
    obj = await marked(site)
    for api in (site.user, site.worker):
        with pytest.raises(ForbiddenError):
            await api.replace(DAGS, {**obj, "status": {"lastScheduledTime": MARK}}, subresource="status")


async def test_the_operator_never_writes_the_rest_and_deletes_one_that_is_over_in_the_version_it_has_seen(
    site: Site,
) -> None:
    obj = await marked(site)
    with pytest.raises(ForbiddenError):
        await site.operator.replace(DAGS, {**obj, "spec": {**obj["spec"], "suspend": True}})
    uid = obj["metadata"]["uid"]
    with pytest.raises(ConflictError):
        await site.operator.delete(DAGS, site.namespace, "etl", uid=uid, resource_version="1")
    await site.operator.delete(DAGS, site.namespace, "etl", uid=uid)
