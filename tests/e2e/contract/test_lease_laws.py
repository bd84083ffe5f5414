"""The fences of Leases: the record of an epoch stays, and everybody renews only his own."""

import pytest

from fencepost.api.names import LEASES, SYSTEM_NAMESPACE_DEFAULT
from fencepost.core.names import member_lease_name, shard_lease_name
from fencepost.kube.errors import ForbiddenError
from tests.e2e.contract.objects import lease, shard_lease
from tests.e2e.contract.site import OTHER_POD, SHARD, Site


async def test_the_lease_of_a_shard_cannot_be_deleted_by_anybody(site: Site) -> None:
    await site.lead()
    for api in (site.operator, site.worker, site.user, site.admin):
        with pytest.raises(ForbiddenError):
            await api.delete(LEASES, SYSTEM_NAMESPACE_DEFAULT, shard_lease_name(SHARD))


async def test_only_the_operator_writes_the_lease_of_a_shard(site: Site) -> None:
    await site.lead()
    old = await site.operator.get(LEASES, SYSTEM_NAMESPACE_DEFAULT, shard_lease_name(SHARD))
    old["spec"]["leaseTransitions"] += 1
    for api in (site.worker, site.user):
        with pytest.raises(ForbiddenError):
            await api.replace(LEASES, old)
        with pytest.raises(ForbiddenError):
            await api.create(LEASES, shard_lease(14, epoch=1))


async def test_an_epoch_never_falls_and_rises_with_each_holder(site: Site) -> None:
    await site.lead()
    old = await site.operator.get(LEASES, SYSTEM_NAMESPACE_DEFAULT, shard_lease_name(SHARD))
    for spec in ({"leaseTransitions": site.epoch - 1}, {"holderIdentity": "another"}):
        with pytest.raises(ForbiddenError, match="never falls, and rises"):
            await site.operator.replace(LEASES, {**old, "spec": {**old["spec"], **spec}})
    spec = {**old["spec"], "holderIdentity": "contract", "leaseTransitions": site.epoch + 1}
    assert (await site.operator.replace(LEASES, {**old, "spec": spec}))["spec"]["leaseTransitions"] == site.epoch + 1


async def test_a_shard_may_be_let_go_under_the_same_epoch(site: Site) -> None:
    await site.lead()
    old = await site.operator.get(LEASES, SYSTEM_NAMESPACE_DEFAULT, shard_lease_name(SHARD))
    let_go = await site.operator.replace(LEASES, {**old, "spec": {**old["spec"], "holderIdentity": ""}})
    assert let_go["spec"]["leaseTransitions"] == site.epoch
    taken = {**let_go["spec"], "holderIdentity": "contract", "leaseTransitions": site.epoch + 1}
    await site.operator.replace(LEASES, {**let_go, "spec": taken})


async def test_the_lease_of_a_member_is_the_operators(site: Site) -> None:
    name = member_lease_name(f"x-{site.nonce}")
    for api in (site.worker, site.user):
        with pytest.raises(ForbiddenError):
            await api.create(LEASES, lease(name, role="member"))
    await site.operator.create(LEASES, lease(name, role="member"))
    for api in (site.worker, site.user):
        with pytest.raises(ForbiddenError):
            await api.delete(LEASES, SYSTEM_NAMESPACE_DEFAULT, name)
    await site.operator.delete(LEASES, SYSTEM_NAMESPACE_DEFAULT, name)


async def test_a_worker_renews_the_lease_of_its_own_name(site: Site) -> None:
    obj = await site.worker.create(LEASES, lease(site.worker_name, role="worker", holderIdentity=site.worker_name))
    obj["spec"]["holderIdentity"] = "still me"
    await site.worker.replace(LEASES, obj)


async def test_a_worker_cannot_renew_for_another(site: Site) -> None:
    obj = await site.worker.create(LEASES, lease(site.worker_name, role="worker"))
    obj["spec"]["holderIdentity"] = "me"
    with pytest.raises(ForbiddenError):
        await site.other_worker.replace(LEASES, obj)
    for refused in (
        lease(f"{OTHER_POD}-{site.nonce}", role="worker"),
        lease(f"{site.worker_name}x", role="worker"),
        lease("contract-a-xxxxx", role="member"),
        lease("contract-a-xxxxx"),
    ):
        with pytest.raises(ForbiddenError):
            await site.worker.create(LEASES, refused)


async def test_leases_without_a_role_are_anybodys(site: Site) -> None:
    obj = await site.user.create(LEASES, lease(f"theirs-{site.nonce}"))
    obj["spec"]["holderIdentity"] = "me"
    await site.user.replace(LEASES, obj)
    await site.user.delete(LEASES, SYSTEM_NAMESPACE_DEFAULT, f"theirs-{site.nonce}")
    await site.user.create(LEASES, lease(shard_lease_name(0), site.namespace))
    await site.user.delete(LEASES, site.namespace, shard_lease_name(0))
