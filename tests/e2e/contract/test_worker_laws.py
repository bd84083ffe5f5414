"""The fences of Worker: late results and late deliveries are refused (422), and nobody speaks for another (403)."""

from typing import Any

import pytest

from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT, WORKERS
from fencepost.kube.errors import ConflictError, ForbiddenError, InvalidError
from fencepost.kube.protocol import Api, Obj
from tests.e2e.contract.objects import worker
from tests.e2e.contract.site import CONFINED_POD, OWN_POOL, POD, Site

KEY = "analytics/etl-1.0a1b2c3d/only/0"
OTHER_KEY = "analytics/etl-1.0a1b2c3d/only/1"


async def registered(site: Site) -> Obj:
    return await site.worker.create(WORKERS, worker(site.worker_name))


async def delivered(site: Site, obj: Obj, leases: dict[str, str]) -> Obj:
    return await site.operator.replace(WORKERS, {**obj, "spec": {**obj["spec"], "leases": leases}})


async def answered(api: Api, obj: Obj, results: dict[str, str], **status: Any) -> Obj:
    return await api.replace(WORKERS, {**obj, "status": {"results": results, **status}}, subresource="status")


async def fenced(site: Site, obj: Obj) -> Obj:
    return await site.operator.replace(WORKERS, {**obj, "spec": {**obj["spec"], "fenced": True}})


async def test_a_result_under_the_token_of_its_entry_is_taken(site: Site) -> None:
    obj = await delivered(site, await registered(site), {KEY: "7 Run rest"})
    obj = await answered(site.worker, obj, {KEY: "7 Succeeded 0"}, seen=obj["metadata"]["resourceVersion"])
    assert obj["status"]["results"] == {KEY: "7 Succeeded 0"}
    assert obj["spec"]["leases"] == {KEY: "7 Run rest"}


@pytest.mark.parametrize("spec", [{"leases": {KEY: "1 Run"}}, {"fenced": True}])
async def test_a_worker_registers_empty_and_unfenced(site: Site, spec: Obj) -> None:
    with pytest.raises(InvalidError, match="registers with an empty mailbox and unfenced"):
        await site.worker.create(WORKERS, worker(site.worker_name, **spec))


@pytest.mark.parametrize("spec", [{"pool": "another"}, {"slots": 3}])
async def test_a_worker_stays_what_it_is(site: Site, spec: Obj) -> None:
    obj = await registered(site)
    with pytest.raises(InvalidError, match="fixed when a worker registers"):
        await site.operator.replace(WORKERS, {**obj, "spec": {**obj["spec"], **spec}})


async def test_a_worker_keeps_no_more_slots_than_it_has(site: Site) -> None:
    obj = await registered(site)
    slots = obj["spec"]["slots"]
    obj = await site.operator.replace(WORKERS, {**obj, "spec": {**obj["spec"], "reservedSlots": slots}})
    with pytest.raises(InvalidError, match="keeps no more slots than it has"):
        await site.operator.replace(WORKERS, {**obj, "spec": {**obj["spec"], "reservedSlots": slots + 1}})


async def test_a_worker_registers_with_no_more_slots_to_keep_than_it_has(site: Site) -> None:
    with pytest.raises(InvalidError, match="keeps no more slots than it has"):
        await site.worker.create(WORKERS, worker(site.worker_name, reservedSlots=3))


async def test_a_fence_stays(site: Site) -> None:
    obj = await fenced(site, await registered(site))
    for spec in ({**obj["spec"], "fenced": False}, worker("any")["spec"]):
        with pytest.raises(InvalidError, match="stays true"):
            await site.operator.replace(WORKERS, {**obj, "spec": spec})


async def test_a_fenced_worker_cannot_answer(site: Site) -> None:
    obj = await delivered(site, await registered(site), {KEY: "7 Run", OTHER_KEY: "7 Run"})
    obj = await answered(site.worker, obj, {KEY: "7 Succeeded 0"})
    obj = await fenced(site, obj)
    late: list[dict[str, str]] = [{}, {KEY: "7 Succeeded 0", OTHER_KEY: "7 Succeeded 0"}]
    for results in late:
        with pytest.raises(InvalidError, match="this worker is fenced"):
            await answered(site.worker, obj, results)
    assert (await site.operator.get(WORKERS, SYSTEM_NAMESPACE_DEFAULT, site.worker_name))["status"] == obj["status"]


async def test_the_mailbox_of_a_fenced_worker_can_be_emptied(site: Site) -> None:
    obj = await fenced(site, await delivered(site, await registered(site), {KEY: "7 Run"}))
    assert (await delivered(site, obj, {}))["spec"]["leases"] == {}


@pytest.mark.parametrize("result", ["6 Succeeded 0", "8 Succeeded 0", "70 Succeeded 0"])
async def test_a_result_under_another_token_is_refused(site: Site, result: str) -> None:
    obj = await delivered(site, await registered(site), {KEY: "7 Run"})
    with pytest.raises(InvalidError, match="must carry the token"):
        await answered(site.worker, obj, {KEY: result})


async def test_a_result_without_an_entry_is_refused(site: Site) -> None:
    obj = await delivered(site, await registered(site), {KEY: "7 Run"})
    with pytest.raises(InvalidError, match="must carry the token"):
        await answered(site.worker, obj, {OTHER_KEY: "7 Succeeded 0"})


async def test_a_result_may_stay_while_its_entry_goes_or_is_leased_again(site: Site) -> None:
    obj = await delivered(site, await registered(site), {KEY: "7 Run", OTHER_KEY: "7 Run"})
    results = {KEY: "7 Succeeded 0", OTHER_KEY: "7 Failed 1"}
    obj = await answered(site.worker, obj, results)
    obj = await delivered(site, obj, {OTHER_KEY: "8 Run"})
    assert obj["status"]["results"] == results
    obj = await answered(site.worker, obj, results, draining=True)
    assert obj["status"]["draining"] is True


async def test_a_result_whose_entry_has_gone_cannot_be_changed(site: Site) -> None:
    obj = await delivered(site, await registered(site), {KEY: "7 Run"})
    obj = await answered(site.worker, obj, {KEY: "7 Failed 1"})
    obj = await delivered(site, obj, {})
    with pytest.raises(InvalidError, match="must carry the token"):
        await answered(site.worker, obj, {KEY: "7 Succeeded 0"})


async def test_the_token_of_an_entry_never_decreases(site: Site) -> None:
    obj = await delivered(site, await registered(site), {KEY: "10 Run"})
    with pytest.raises(InvalidError, match="never decreases"):
        await delivered(site, obj, {KEY: "9 Run"})
    obj = await delivered(site, obj, {KEY: "10 Stop"})
    assert (await delivered(site, obj, {KEY: "11 Run"}))["spec"]["leases"] == {KEY: "11 Run"}


async def test_an_entry_begins_with_a_token(site: Site) -> None:
    obj = await delivered(site, await registered(site), {KEY: "1 Run"})
    with pytest.raises(InvalidError):
        await delivered(site, obj, {KEY: "Run at once"})


async def test_a_mailbox_has_64_entries_at_most(site: Site) -> None:
    obj = await delivered(site, await registered(site), {f"{KEY}{number}": "1 Run" for number in range(64)})
    with pytest.raises(InvalidError):
        await delivered(site, obj, {f"{KEY}{number}": "1 Run" for number in range(65)})


async def test_a_delivery_on_an_old_version_is_a_conflict(site: Site) -> None:
    obj = await registered(site)
    await delivered(site, obj, {KEY: "7 Run"})
    with pytest.raises(ConflictError):
        await delivered(site, obj, {KEY: "7 Run"})


@pytest.mark.parametrize("name", ["contract-b-{nonce}", "contract-a-x{nonce}", "contract-a", "contract-a{nonce}"])
async def test_a_worker_registers_only_under_its_pods_name_and_five_characters(site: Site, name: str) -> None:
    with pytest.raises(ForbiddenError, match=POD):
        await site.worker.create(WORKERS, worker(name.format(nonce=site.nonce)))


async def test_an_account_runs_workers_of_the_pools_that_it_may_serve_and_of_no_other(site: Site) -> None:
    name = f"{CONFINED_POD}-{site.nonce}"

    async def registers(**spec: Any) -> Obj:
        return await site.confined_worker.create(WORKERS, worker(name, **spec))

    obj = await site.eventually(lambda: registers(pool=OWN_POOL))
    obj = await delivered(site, obj, {KEY: "7 Run"})
    assert (await answered(site.confined_worker, obj, {KEY: "7 Succeeded 0"}))["status"]["results"]
    await site.operator.delete(WORKERS, SYSTEM_NAMESPACE_DEFAULT, name)
    with pytest.raises(ForbiddenError, match="may not run workers of pool default"):
        await registers()


async def test_a_worker_cannot_write_its_own_mailbox(site: Site) -> None:
    obj = await registered(site)
    with pytest.raises(ForbiddenError):
        await site.worker.replace(WORKERS, {**obj, "spec": {**obj["spec"], "leases": {KEY: "1 Run"}}})
    sent = {**obj, "spec": {**obj["spec"], "leases": {KEY: "1 Run"}}, "status": {"draining": True}}
    stored = await site.worker.replace(WORKERS, sent, subresource="status")
    assert "leases" not in stored["spec"]


async def test_nobody_answers_for_another_worker(site: Site) -> None:
    obj = await delivered(site, await registered(site), {KEY: "7 Run"})
    for api in (site.other_worker, site.operator, site.user, site.admin):
        with pytest.raises(ForbiddenError):
            await answered(api, obj, {KEY: "7 Succeeded 0"})


async def test_only_the_operator_deletes_a_worker(site: Site) -> None:
    obj = await registered(site)
    for api in (site.worker, site.user):
        with pytest.raises(ForbiddenError):
            await api.delete(WORKERS, SYSTEM_NAMESPACE_DEFAULT, site.worker_name)
    await site.operator.delete(WORKERS, SYSTEM_NAMESPACE_DEFAULT, site.worker_name, uid=obj["metadata"]["uid"])


async def test_a_worker_watches_itself(site: Site) -> None:
    obj = await registered(site)
    await delivered(site, obj, {KEY: "7 Run"})
    watch = site.worker.watch(
        WORKERS,
        SYSTEM_NAMESPACE_DEFAULT,
        name=site.worker_name,
        resource_version=obj["metadata"]["resourceVersion"],
    )
    try:
        assert (await anext(watch)).object["spec"]["leases"] == {KEY: "7 Run"}
    finally:
        await watch.aclose()
