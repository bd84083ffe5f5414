"""The fences of DAGRun: what no write may do (422), and what not everybody may (403)."""

from typing import Any

import pytest

from fencepost.api.names import DAG_RUNS, SHARD_LABEL
from fencepost.api.times import format_time
from fencepost.kube.errors import AlreadyExistsError, ForbiddenError, InvalidError
from fencepost.kube.protocol import Obj
from tests.e2e.contract.objects import led_run, run, run_status
from tests.e2e.contract.site import SHARD, Site

SLOT_S = 1_800_000_000
SLOT_NAME = f"etl-{SLOT_S}"
LEASE = {"only/0": "7 contract-a-xxxxx 1 2026-11-30T13:00:00.000Z"}


async def led(site: Site, **status: Any) -> Obj:
    """A run with this status, of a shard that is led under a new epoch."""
    await site.lead()
    return await site.eventually(
        lambda: site.operator.create(DAG_RUNS, led_run(site.namespace, shard=SHARD, epoch=site.epoch, **status))
    )


async def scheduled(site: Site, name: str = SLOT_NAME) -> Obj:
    """A run as the operator makes it for a slot, not yet created."""
    await led(site)  # so that the shard's Lease is known to the server
    obj = led_run(site.namespace, name, shard=SHARD, epoch=site.epoch)
    obj["spec"] |= {"dagUID": "u", "revision": "etl-x", "trigger": "Schedule", "scheduledTime": format_time(SLOT_S)}
    return obj


async def refused_as_invalid(site: Site, old: Obj, **status: Any) -> str:
    """Writing this status over the old one is refused by the schema; the message."""
    with pytest.raises(InvalidError) as caught:
        await site.operator.replace(DAG_RUNS, {**old, "status": {**old["status"], **status}})
    assert caught.value.status == 422
    return str(caught.value)


async def test_the_operator_gives_leases_in_the_create_and_in_later_writes(site: Site) -> None:
    obj = await led(site, leases=LEASE)
    assert obj["status"]["leases"] == LEASE
    obj["status"] |= {"leaseCounter": 2, "done": "1/1", "leases": {}}
    assert (await site.operator.replace(DAG_RUNS, obj))["status"]["leaseCounter"] == 2


@pytest.mark.parametrize("name", ["epoch", "leaseCounter"])
async def test_a_counter_of_a_run_never_decreases(site: Site, name: str) -> None:
    old = await led(site, leaseCounter=5)
    assert name in await refused_as_invalid(site, old, **{name: old["status"][name] - 1})


async def test_a_status_cannot_be_removed(site: Site) -> None:
    old = await led(site)
    del old["status"]
    with pytest.raises(InvalidError, match="status cannot be removed"):
        await site.operator.replace(DAG_RUNS, old)


async def test_a_finished_run_rests(site: Site) -> None:
    old = await led(site, phase="Succeeded", done="1/1")
    assert "finished run" in await refused_as_invalid(site, old, phase="Running")
    assert "finished run" in await refused_as_invalid(site, old, message="by the way")


async def test_a_finished_run_can_still_be_labelled(site: Site) -> None:
    old = await led(site, phase="Succeeded", done="1/1")
    old["metadata"]["labels"]["seen"] = "yes"
    assert (await site.user.replace(DAG_RUNS, old))["metadata"]["labels"]["seen"] == "yes"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Cancelled"])
async def test_a_run_cannot_finish_while_a_lease_is_outstanding(site: Site, phase: str) -> None:
    old = await led(site, leases=LEASE)
    assert "lease is outstanding" in await refused_as_invalid(site, old, phase=phase)
    old["status"] |= {"phase": phase, "leases": {}}
    assert (await site.operator.replace(DAG_RUNS, old))["status"]["phase"] == phase


@pytest.mark.parametrize(("name", "value"), [("dag", "another"), ("trigger", "Backfill"), ("params", {"region": "us"})])
async def test_what_a_run_is_cannot_be_changed(site: Site, name: str, value: Any) -> None:
    old = await site.user.create(DAG_RUNS, run(site.namespace, params={"region": "eu"}))
    old["spec"][name] = value
    with pytest.raises(InvalidError, match=name):
        await site.operator.replace(DAG_RUNS, old)


@pytest.mark.parametrize(
    ("name", "value"), [("dagUID", "v"), ("revision", "etl-x"), ("scheduledTime", "2026-11-30T13:00:00Z")]
)
async def test_what_the_operator_fills_in_is_fixed_once_it_is_set(site: Site, name: str, value: str) -> None:
    obj = await site.user.create(DAG_RUNS, run(site.namespace))
    obj["spec"][name] = value
    obj = await site.operator.replace(DAG_RUNS, obj)
    obj["spec"][name] = "2027-01-01T00:00:00Z"
    with pytest.raises(InvalidError, match=name):
        await site.operator.replace(DAG_RUNS, obj)
    del obj["spec"][name]
    with pytest.raises(InvalidError, match=name):
        await site.operator.replace(DAG_RUNS, obj)


async def test_cancel_may_be_set_by_a_person_at_any_time(site: Site) -> None:
    obj = await led(site)
    obj["spec"]["cancel"] = True
    assert (await site.user.replace(DAG_RUNS, obj))["spec"]["cancel"] is True


async def test_the_operator_makes_a_run_named_by_its_slot(site: Site) -> None:
    created = await site.operator.create(DAG_RUNS, await scheduled(site))
    assert created["spec"]["trigger"] == "Schedule"


@pytest.mark.parametrize("name", [f"etl-{SLOT_S + 60}", f"other-{SLOT_S}", f"etl-0{SLOT_S}", "etl-now"])
async def test_a_scheduled_run_cannot_be_named_otherwise(site: Site, name: str) -> None:
    obj = await scheduled(site, name)
    with pytest.raises(InvalidError, match="slot's run is named"):
        await site.operator.create(DAG_RUNS, obj)


@pytest.mark.parametrize("missing", ["dagUID", "revision", "scheduledTime"])
async def test_a_scheduled_run_is_complete(site: Site, missing: str) -> None:
    obj = await scheduled(site)
    del obj["spec"][missing]
    with pytest.raises(InvalidError, match="names its scheduledTime, and a scheduled one its dagUID and revision"):
        await site.operator.create(DAG_RUNS, obj)


async def test_a_person_cannot_create_a_run_with_a_status(site: Site) -> None:
    await site.lead()
    with pytest.raises(ForbiddenError):
        await site.user.create(DAG_RUNS, run(site.namespace, status=run_status()))


async def test_a_person_cannot_change_the_status_of_a_run(site: Site) -> None:
    obj = await led(site)
    obj["status"]["leaseCounter"] = 2
    with pytest.raises(ForbiddenError, match="only the operator writes a run's status"):
        await site.user.replace(DAG_RUNS, obj)


async def test_a_person_may_delete_a_run_and_so_may_the_operator(site: Site) -> None:
    for api in (site.user, site.operator):
        await led(site, leases=LEASE)
        await api.delete(DAG_RUNS, site.namespace, "etl-by-hand")


async def test_a_worker_cannot_write_a_run_at_all(site: Site) -> None:
    obj = await site.user.create(DAG_RUNS, run(site.namespace))
    assert await site.worker.get(DAG_RUNS, site.namespace, "etl-by-hand") == obj
    with pytest.raises(ForbiddenError):
        await site.worker.replace(DAG_RUNS, {**obj, "spec": {**obj["spec"], "cancel": True}})


async def test_a_scheduled_run_is_created_with_its_status(site: Site) -> None:
    obj = await scheduled(site)
    del obj["status"]
    with pytest.raises(InvalidError, match="created with its status"):
        await site.operator.create(DAG_RUNS, obj)


def backfilled(site: Site, name: str = SLOT_NAME, **spec: Any) -> Obj:
    """A run of a slot as whoever backfills makes it."""
    return run(site.namespace, name, trigger="Backfill", **{"scheduledTime": format_time(SLOT_S), **spec})


async def test_a_person_with_the_right_to_backfill_makes_the_run_of_a_slot(site: Site) -> None:
    created = await site.user.create(DAG_RUNS, backfilled(site))
    assert created["spec"]["trigger"] == "Backfill"
    with pytest.raises(AlreadyExistsError):
        await site.operator.create(DAG_RUNS, await scheduled(site))


async def test_nor_is_the_run_of_a_backfill_named_otherwise_or_without_its_time(site: Site) -> None:
    with pytest.raises(InvalidError, match="slot's run is named"):
        await site.user.create(DAG_RUNS, backfilled(site, f"etl-{SLOT_S + 1}"))
    obj = backfilled(site)
    del obj["spec"]["scheduledTime"]
    with pytest.raises(InvalidError, match="names its scheduledTime"):
        await site.user.create(DAG_RUNS, obj)


async def test_a_backfill_says_no_more_than_a_person_may(site: Site) -> None:
    await led(site)
    with pytest.raises(ForbiddenError):
        await site.user.create(DAG_RUNS, {**backfilled(site), "status": run_status(epoch=site.epoch)})
    with pytest.raises(ForbiddenError, match="fills in dagUID and revision"):
        await site.user.create(DAG_RUNS, backfilled(site, revision="etl-0123456789", dagUID="u"))


async def test_a_person_suspends_a_run_and_lets_it_go_on(site: Site) -> None:
    obj = await led(site)
    for wanted in (True, False):
        obj["spec"]["suspend"] = wanted
        obj = await site.user.replace(DAG_RUNS, obj)
        assert obj["spec"]["suspend"] is wanted


async def test_a_run_takes_no_round_that_nobody_asked_for(site: Site) -> None:
    assert "goes no further than spec.round" in await refused_as_invalid(site, await led(site), round=1)


async def test_a_person_cannot_take_the_name_of_a_slot(site: Site) -> None:
    for obj in (run(site.namespace, SLOT_NAME), await scheduled(site)):
        with pytest.raises(ForbiddenError):
            await site.user.create(DAG_RUNS, obj)


async def test_not_even_the_operator_gives_a_manual_run_the_name_of_a_slot(site: Site) -> None:
    with pytest.raises(ForbiddenError, match="ten digits"):
        await site.operator.create(DAG_RUNS, run(site.namespace, SLOT_NAME))


@pytest.mark.parametrize("spec", [{"dagUID": "u"}, {"revision": "etl-0123456789"}])
async def test_a_person_cannot_say_what_a_run_executes(site: Site, spec: Obj) -> None:
    with pytest.raises(ForbiddenError, match="fills in dagUID and revision"):
        await site.user.create(DAG_RUNS, run(site.namespace, **spec))


async def test_a_run_with_a_status_has_the_label_of_a_shard(site: Site) -> None:
    await site.lead()
    for label in ({}, {SHARD_LABEL: "16"}, {SHARD_LABEL: "03"}):
        obj = run(site.namespace, status=run_status(epoch=site.epoch))
        obj["metadata"]["labels"] = label
        with pytest.raises(ForbiddenError, match="carries the label"):
            await site.operator.create(DAG_RUNS, obj)


async def test_a_run_that_carries_no_label_of_a_shard_is_given_no_status(site: Site) -> None:
    """However long it has stood without: what was let in without a status says nothing for the label."""
    await site.lead()
    for name, label in (("etl-bare", {}), ("etl-odd", {SHARD_LABEL: "16"})):
        obj = run(site.namespace, name)
        obj["metadata"]["labels"] = label
        stored = await site.operator.create(DAG_RUNS, obj)
        with pytest.raises(ForbiddenError, match="carries the label"):
            await site.operator.replace(DAG_RUNS, {**stored, "status": run_status(epoch=site.epoch)})


async def test_the_label_of_a_shard_cannot_be_changed(site: Site) -> None:
    old = await led(site)
    changed = {**old, "metadata": {**old["metadata"], "labels": {}}}
    for api in (site.operator, site.user):
        with pytest.raises(ForbiddenError):
            await api.replace(DAG_RUNS, changed)


async def test_a_person_cannot_choose_a_shard(site: Site) -> None:
    await site.lead()
    obj = run(site.namespace)
    obj["metadata"]["labels"] = {SHARD_LABEL: str(SHARD)}

    async def refused() -> None:
        with pytest.raises(ForbiddenError, match="only the operator sets the label"):
            await site.user.create(DAG_RUNS, obj)

    await site.eventually(refused)


async def test_a_write_under_an_older_epoch_is_refused(site: Site) -> None:
    old = await led(site)
    old_epoch = site.epoch
    await site.lead()

    async def create_late() -> None:
        late = led_run(site.namespace, "etl-late", shard=SHARD, epoch=old_epoch)
        with pytest.raises(ForbiddenError, match="epoch"):
            await site.operator.create(DAG_RUNS, late)

    await site.eventually(create_late)
    with pytest.raises(ForbiddenError, match="epoch"):
        await site.operator.replace(DAG_RUNS, {**old, "status": {**old["status"], "leaseCounter": 2}})
    new = {**old, "status": {**old["status"], "leaseCounter": 2, "epoch": site.epoch}}
    assert (await site.operator.replace(DAG_RUNS, new))["status"]["epoch"] == site.epoch


async def test_a_person_may_still_cancel_a_run_of_an_older_epoch(site: Site) -> None:
    obj = await led(site)
    await site.lead()
    obj["spec"]["cancel"] = True
    assert (await site.user.replace(DAG_RUNS, obj))["spec"]["cancel"] is True


async def test_nobody_writes_for_a_shard_that_nobody_leads(site: Site) -> None:
    with pytest.raises(InvalidError):
        await site.operator.create(DAG_RUNS, led_run(site.namespace, shard=15, epoch=1))


async def finished(site: Site, **spec: Any) -> Obj:
    """A run that has ended."""
    obj = await led(site, phase="Failed", done="1/1")
    obj["spec"] |= spec
    return await site.user.replace(DAG_RUNS, obj) if spec else obj


async def refused_wish(site: Site, obj: Obj, why: str, **spec: Any) -> None:
    """A person's change of the spec is refused by the schema; None removes a field."""
    changed = {name: value for name, value in (obj["spec"] | spec).items() if value is not None}
    with pytest.raises(InvalidError, match=why):
        await site.user.replace(DAG_RUNS, {**obj, "spec": changed})


async def test_cancel_only_rises_but_for_a_round_of_a_run_that_has_ended(site: Site) -> None:
    obj = await led(site)
    obj["spec"]["cancel"] = True
    obj = await site.user.replace(DAG_RUNS, obj)
    for taken_back in ({"cancel": False}, {"cancel": None}, {"cancel": False, "round": 1}):
        await refused_wish(site, obj, "cancel|rises by one", **taken_back)
    obj["status"]["phase"] = "Cancelled"
    obj = await site.operator.replace(DAG_RUNS, obj)
    await refused_wish(site, obj, "cancel", cancel=False)
    await refused_wish(site, obj, "a cancelled run is not run again", round=1)
    obj["spec"] |= {"cancel": False, "round": 1}
    assert (await site.user.replace(DAG_RUNS, obj))["spec"]["round"] == 1


async def test_a_round_is_asked_for_of_a_run_that_has_ended_and_one_at_a_time(site: Site) -> None:
    await refused_wish(site, await led(site), "rises by one", round=1)
    await site.admin.delete(DAG_RUNS, site.namespace, "etl-by-hand")
    obj = await finished(site)
    await refused_wish(site, obj, "rises by one", round=2)
    obj["spec"]["round"] = 1
    obj = await site.user.replace(DAG_RUNS, obj)
    await refused_wish(site, obj, "rises by one", round=2)
    await refused_wish(site, obj, "only grows", round=0)
    await refused_wish(site, obj, "only grows|rises by one", round=None)


async def test_the_operator_takes_up_a_round_in_one_write_and_the_run_goes_on(site: Site) -> None:
    obj = await finished(site, round=1)
    assert "finished run" in await refused_as_invalid(site, obj, phase="Running")
    obj["status"] |= {"phase": "Running", "round": 1, "leases": LEASE, "leaseCounter": 9}
    assert (await site.operator.replace(DAG_RUNS, obj))["status"]["phase"] == "Running"


async def test_what_a_round_runs_again_is_said_when_it_is_asked_for(site: Site) -> None:
    obj = await finished(site)
    await refused_wish(site, obj, "rerun changes only", rerun={"round": 1})
    await refused_wish(site, obj, "rerun changes only", round=1, rerun={"round": 2})
    obj["spec"] |= {"round": 1, "rerun": {"round": 1, "from": "Jobs", "jobs": {"only": "*"}}}
    obj = await site.user.replace(DAG_RUNS, obj)
    await refused_wish(site, obj, "rerun changes only", rerun={"round": 1, "from": "All"})


@pytest.mark.parametrize("spec", [{"round": 1}, {"rerun": {"round": 1}}])
async def test_a_run_begins_with_round_0(site: Site, spec: Obj) -> None:
    with pytest.raises(InvalidError, match="begins with round 0"):
        await site.user.create(DAG_RUNS, run(site.namespace, **spec))


async def test_a_mark_names_who_made_it_and_stays_as_it_is_when_others_write(site: Site) -> None:
    obj = await led(site)
    for by in ("somebody-else", "system:serviceaccount:fencepost-system:fencepost-operator"):
        changed = {**obj["spec"], "overrides": {"only/0": {"phase": "Succeeded", "by": by}}}
        with pytest.raises(ForbiddenError, match="by whom"):
            await site.user.replace(DAG_RUNS, {**obj, "spec": changed})
    obj["spec"]["overrides"] = {"only/0": {"phase": "Succeeded", "by": site.user_name}}
    obj = await site.user.replace(DAG_RUNS, obj)
    obj["status"] |= {"phase": "Succeeded", "done": "1/1"}
    obj = await site.operator.replace(DAG_RUNS, obj)
    assert obj["spec"]["overrides"]["only/0"]["by"] == site.user_name
    changed = {**obj["spec"], "overrides": {"only/0": {"phase": "Failed", "by": site.user_name}}}
    with pytest.raises(ForbiddenError, match="by whom"):
        await site.admin.replace(DAG_RUNS, {**obj, "spec": {**changed, "round": 1}})


async def test_a_mark_is_of_a_job_and_of_no_later_round(site: Site) -> None:
    obj = await led(site)
    mark = {"phase": "Succeeded", "by": site.user_name}
    await refused_wish(site, obj, "not for a later one", overrides={"only": {**mark, "round": 1}})
    for job in ("only/x", "only/", "only/0/0", "Only", "only/00"):
        await refused_wish(site, obj, "the key of an override", overrides={job: mark})


async def test_a_run_that_has_ended_is_marked_only_with_a_round(site: Site) -> None:
    obj = await finished(site)
    mark = {"phase": "Succeeded", "by": site.user_name}
    await refused_wish(site, obj, "overrides", overrides={"only": mark})
    obj["spec"] |= {"round": 1, "overrides": {"only": {**mark, "round": 1}}}
    assert (await site.user.replace(DAG_RUNS, obj))["spec"]["round"] == 1
