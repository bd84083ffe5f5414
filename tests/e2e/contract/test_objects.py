"""What every kind has in common: names, versions, conflicts, subresources, deletion."""

import pytest

from fencepost.api.names import CONFIG_MAPS, CONTROLLER_REVISIONS, DAG_RUNS, DAGS
from fencepost.kube.errors import AlreadyExistsError, ConflictError, InvalidError, NotFoundError, ServerError
from fencepost.kube.protocol import Obj
from tests.e2e.contract.objects import config_map, dag, led_run, owner_reference, run, run_status
from tests.e2e.contract.site import SHARD, Site

FINALIZER = "fencepost.dev/contract"
ABSENT_UID = "00000000-0000-4000-8000-000000000000"


async def test_a_created_object_is_told_what_the_server_has_made_of_it(site: Site) -> None:
    metadata = (await site.user.create(DAGS, dag(site.namespace, labels={"team": "a"})))["metadata"]
    assert metadata["uid"]
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"].endswith("Z")
    assert metadata["labels"] == {"team": "a"}


async def test_what_was_created_can_be_read(site: Site) -> None:
    created = await site.user.create(DAGS, dag(site.namespace))
    assert await site.user.get(DAGS, site.namespace, "etl") == created


async def test_notes_on_who_wrote_which_field_can_be_dropped_for_good(site: Site) -> None:
    old = await site.user.create(DAG_RUNS, run(site.namespace))
    bare = await site.user.replace(DAG_RUNS, {**old, "metadata": {**old["metadata"], "managedFields": [{}]}})
    assert "managedFields" not in bare["metadata"]
    bare["spec"]["suspend"] = True
    later = await site.user.replace(DAG_RUNS, bare)
    assert later["spec"]["suspend"]
    assert "managedFields" not in later["metadata"]


async def test_a_name_can_be_taken_once(site: Site) -> None:
    await site.user.create(DAGS, dag(site.namespace))
    with pytest.raises(AlreadyExistsError):
        await site.user.create(DAGS, dag(site.namespace))


async def test_what_is_not_there_is_not_found(site: Site) -> None:
    absent = dag(site.namespace, resourceVersion="1")
    for call in (
        site.user.get(DAGS, site.namespace, "etl"),
        site.user.replace(DAGS, absent),
        site.user.delete(DAGS, site.namespace, "etl"),
    ):
        with pytest.raises(NotFoundError):
            await call


async def test_a_generated_name_begins_as_asked_and_is_another_each_time(site: Site) -> None:
    wanted = run(site.namespace)
    wanted["metadata"] = {"namespace": site.namespace, "generateName": "etl-"}
    names = {(await site.user.create(DAG_RUNS, wanted))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("etl-") and len(name) == len("etl-") + 5 for name in names)


@pytest.mark.parametrize("name", ["Etl", "etl_nightly", "-etl", "x" * 53])
async def test_a_bad_name_is_invalid(site: Site, name: str) -> None:
    with pytest.raises(InvalidError):
        await site.user.create(DAGS, dag(site.namespace, name))


async def test_an_object_with_no_name_is_invalid(site: Site) -> None:
    nameless = dag(site.namespace)
    del nameless["metadata"]["name"]
    with pytest.raises(InvalidError):
        await site.user.create(DAGS, nameless)


async def test_an_object_of_another_kind_than_its_path_is_invalid(site: Site) -> None:
    with pytest.raises(InvalidError):
        await site.user.create(DAG_RUNS, dag(site.namespace))


async def test_an_object_that_brings_a_version_cannot_be_created(site: Site) -> None:
    with pytest.raises(ServerError, match="resourceVersion should not be set"):
        await site.user.create(DAGS, dag(site.namespace, resourceVersion="1"))


async def test_every_write_has_a_version_above_all_before_it(site: Site) -> None:
    first = await site.user.create(DAGS, dag(site.namespace))
    second = await site.user.create(DAG_RUNS, run(site.namespace))
    second["spec"]["cancel"] = True
    third = await site.user.replace(DAG_RUNS, second)
    versions = [int(obj["metadata"]["resourceVersion"]) for obj in (first, second, third)]
    assert versions == sorted(set(versions))


async def test_a_write_on_a_version_that_has_moved_is_a_conflict(site: Site) -> None:
    old = await site.user.create(DAGS, dag(site.namespace))
    await site.user.replace(DAGS, {**old, "spec": {**old["spec"], "suspend": True}})
    with pytest.raises(ConflictError):
        await site.user.replace(DAGS, {**old, "spec": {**old["spec"], "suspend": False}})


async def test_a_write_on_no_version_is_invalid(site: Site) -> None:
    await site.user.create(DAGS, dag(site.namespace))
    with pytest.raises(InvalidError):
        await site.user.replace(DAGS, dag(site.namespace))


async def test_a_write_on_another_uid_is_a_conflict(site: Site) -> None:
    obj = await site.user.create(DAGS, dag(site.namespace))
    obj["metadata"]["uid"] = ABSENT_UID
    with pytest.raises(ConflictError):
        await site.user.replace(DAGS, obj)


async def test_a_conflict_comes_before_a_broken_law(site: Site) -> None:
    old = await site.user.create(DAG_RUNS, run(site.namespace))
    await site.user.replace(DAG_RUNS, {**old, "spec": {**old["spec"], "cancel": True}})
    with pytest.raises(ConflictError):
        await site.user.replace(DAG_RUNS, {**old, "spec": {"dag": "another"}})


async def test_a_write_that_changes_nothing_makes_no_version(site: Site) -> None:
    obj = await site.user.create(DAGS, dag(site.namespace))
    assert await site.user.replace(DAGS, obj) == obj


async def test_what_the_server_alone_decides_cannot_be_written(site: Site) -> None:
    obj = await site.user.create(DAGS, dag(site.namespace))
    sent: Obj = {**obj, "metadata": {**obj["metadata"], "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}}
    assert (await site.user.replace(DAGS, sent))["metadata"] == obj["metadata"]


async def test_the_generation_counts_changes_of_the_spec_and_not_of_labels(site: Site) -> None:
    obj = await site.user.create(DAGS, dag(site.namespace))
    obj["metadata"]["labels"] = {"team": "a"}
    obj = await site.user.replace(DAGS, obj)
    assert obj["metadata"]["generation"] == 1
    obj["spec"]["suspend"] = True
    assert (await site.user.replace(DAGS, obj))["metadata"]["generation"] == 2


async def test_without_a_status_subresource_a_status_counts_as_well(site: Site) -> None:
    epoch = await site.lead()
    obj = await site.eventually(
        lambda: site.operator.create(DAG_RUNS, led_run(site.namespace, shard=SHARD, epoch=epoch))
    )
    obj["status"]["leaseCounter"] = 2
    assert (await site.operator.replace(DAG_RUNS, obj))["metadata"]["generation"] == 2


async def test_a_status_with_a_way_of_its_own_is_left_out_of_a_create(site: Site) -> None:
    assert "status" not in await site.user.create(DAGS, {**dag(site.namespace), "status": {"state": "Ready"}})


async def test_a_plain_write_leaves_such_a_status_alone(site: Site) -> None:
    obj = await site.user.create(DAGS, dag(site.namespace))
    obj = await site.operator.replace(DAGS, {**obj, "status": {"state": "Ready"}}, subresource="status")
    obj["status"] = {"state": "Suspended"}
    obj["spec"]["suspend"] = True
    obj = await site.user.replace(DAGS, obj)
    assert (obj["status"], obj["spec"]["suspend"]) == ({"state": "Ready"}, True)


async def test_a_write_of_the_status_leaves_all_else_alone(site: Site) -> None:
    obj = await site.user.create(DAGS, dag(site.namespace))
    sent: Obj = {**obj, "spec": {**obj["spec"], "suspend": True}, "status": {"state": "Ready"}}
    sent["metadata"] = {**obj["metadata"], "labels": {"team": "a"}}
    stored = await site.operator.replace(DAGS, sent, subresource="status")
    assert stored["status"] == {"state": "Ready"}
    assert stored["spec"] == obj["spec"]
    assert "labels" not in stored["metadata"]
    assert stored["metadata"]["generation"] == 1


async def test_a_write_of_the_status_needs_no_spec(site: Site) -> None:
    obj = await site.user.create(DAGS, dag(site.namespace))
    sent = {name: obj[name] for name in ("apiVersion", "kind", "metadata")}
    stored = await site.operator.replace(DAGS, {**sent, "status": {"state": "Ready"}}, subresource="status")
    assert (stored["spec"], stored["status"]) == (obj["spec"], {"state": "Ready"})


async def test_a_status_that_is_no_subresource_cannot_be_written_as_one(site: Site) -> None:
    obj = await site.user.create(DAG_RUNS, run(site.namespace))
    with pytest.raises(NotFoundError):
        await site.operator.replace(DAG_RUNS, {**obj, "status": run_status()}, subresource="status")


async def test_what_was_deleted_is_gone(site: Site) -> None:
    await site.user.create(DAGS, dag(site.namespace))
    await site.user.delete(DAGS, site.namespace, "etl")
    with pytest.raises(NotFoundError):
        await site.user.get(DAGS, site.namespace, "etl")


async def test_a_name_that_was_deleted_comes_back_as_another_object(site: Site) -> None:
    first = await site.user.create(DAGS, dag(site.namespace))
    await site.user.delete(DAGS, site.namespace, "etl")
    second = await site.user.create(DAGS, dag(site.namespace))
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert first["metadata"]["uid"][:8] != second["metadata"]["uid"][:8]


async def test_a_deletion_under_another_uid_or_version_is_a_conflict(site: Site) -> None:
    metadata = (await site.user.create(DAGS, dag(site.namespace)))["metadata"]
    with pytest.raises(ConflictError):
        await site.user.delete(DAGS, site.namespace, "etl", uid=ABSENT_UID)
    with pytest.raises(ConflictError):
        await site.user.delete(DAGS, site.namespace, "etl", resource_version="1")
    uid, version = metadata["uid"], metadata["resourceVersion"]
    await site.user.delete(DAGS, site.namespace, "etl", uid=uid, resource_version=version)
    with pytest.raises(NotFoundError):
        await site.user.get(DAGS, site.namespace, "etl")


async def test_a_finalizer_holds_a_deleted_object_until_it_is_taken_off(site: Site) -> None:
    await site.user.create(DAGS, dag(site.namespace, finalizers=[FINALIZER]))
    await site.user.delete(DAGS, site.namespace, "etl")
    held = await site.user.get(DAGS, site.namespace, "etl")
    assert held["metadata"]["deletionTimestamp"]
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert held["metadata"]["generation"] == 2
    await site.user.delete(DAGS, site.namespace, "etl")
    assert await site.user.get(DAGS, site.namespace, "etl") == held
    held["metadata"]["finalizers"].append("fencepost.dev/late")
    with pytest.raises(InvalidError):
        await site.user.replace(DAGS, held)
    held["metadata"]["finalizers"] = []
    await site.user.replace(DAGS, held)
    with pytest.raises(NotFoundError):
        await site.user.get(DAGS, site.namespace, "etl")


async def test_what_lost_its_only_owner_is_deleted(site: Site) -> None:
    owner = await site.user.create(DAGS, dag(site.namespace))
    await site.admin.create(CONFIG_MAPS, config_map(site.namespace, "kept"))
    await site.admin.create(CONFIG_MAPS, config_map(site.namespace, "owned", ownerReferences=[owner_reference(owner)]))
    await site.user.delete(DAGS, site.namespace, "etl")

    async def gone() -> None:
        with pytest.raises(NotFoundError):
            await site.admin.get(CONFIG_MAPS, site.namespace, "owned")

    await site.eventually(gone)
    await site.admin.get(CONFIG_MAPS, site.namespace, "kept")


async def test_what_lost_one_of_two_owners_stays_and_forgets_it(site: Site) -> None:
    owners = [await site.user.create(DAGS, dag(site.namespace, name)) for name in ("one", "two")]
    references = [owner_reference(owner) for owner in owners]
    await site.admin.create(CONFIG_MAPS, config_map(site.namespace, "owned", ownerReferences=references))
    await site.user.delete(DAGS, site.namespace, "one")

    async def forgotten() -> None:
        owned = await site.admin.get(CONFIG_MAPS, site.namespace, "owned")
        assert [owner["name"] for owner in owned["metadata"]["ownerReferences"]] == ["two"]

    await site.eventually(forgotten)


async def test_what_names_an_owner_that_is_gone_is_deleted(site: Site) -> None:
    owner = await site.user.create(DAGS, dag(site.namespace))
    await site.user.delete(DAGS, site.namespace, "etl")
    await site.admin.create(CONFIG_MAPS, config_map(site.namespace, "late", ownerReferences=[owner_reference(owner)]))

    async def gone() -> None:
        with pytest.raises(NotFoundError):
            await site.admin.get(CONFIG_MAPS, site.namespace, "late")

    await site.eventually(gone)


async def test_orphans_outlive_their_owner_and_forget_it(site: Site) -> None:
    owner = await site.user.create(DAGS, dag(site.namespace))
    await site.admin.create(CONFIG_MAPS, config_map(site.namespace, "owned", ownerReferences=[owner_reference(owner)]))
    await site.user.delete(DAGS, site.namespace, "etl", propagation="Orphan")

    async def orphaned() -> None:
        with pytest.raises(NotFoundError):
            await site.user.get(DAGS, site.namespace, "etl")
        owned = await site.admin.get(CONFIG_MAPS, site.namespace, "owned")
        assert "ownerReferences" not in owned["metadata"]

    await site.eventually(orphaned)


async def test_revisions_are_orphaned_whatever_their_data_hold(site: Site) -> None:
    """The server compares their data by bytes, and the garbage collector writes them in another spelling."""
    owner = await site.user.create(DAGS, dag(site.namespace))
    revision = {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {"namespace": site.namespace, "name": "etl-1", "ownerReferences": [owner_reference(owner)]},
        "revision": 1,
        "data": {"tasks": [{"name": "é", "command": ["1 > 0 && 0 < 1", "\u2028"], "factor": 1.5}], "pool": "big"},
    }
    made = await site.operator.create(CONTROLLER_REVISIONS, revision)
    await site.user.delete(DAGS, site.namespace, "etl", propagation="Orphan")

    async def orphaned() -> None:
        with pytest.raises(NotFoundError):
            await site.user.get(DAGS, site.namespace, "etl")
        kept = await site.operator.get(CONTROLLER_REVISIONS, site.namespace, "etl-1")
        assert "ownerReferences" not in kept["metadata"]
        assert kept["data"] == made["data"] == revision["data"]

    await site.eventually(orphaned)


async def test_a_caller_owns_what_it_gets(site: Site) -> None:
    created = await site.user.create(DAGS, dag(site.namespace))
    created["spec"]["tasks"].clear()
    assert (await site.user.get(DAGS, site.namespace, "etl"))["spec"]["tasks"]


async def test_an_empty_map_in_the_metadata_is_left_out(site: Site) -> None:
    emptied = dag(site.namespace, labels={}, annotations={}, finalizers=[], ownerReferences=[])
    metadata = (await site.user.create(DAGS, emptied))["metadata"]
    assert not {"labels", "annotations", "finalizers", "ownerReferences"} & metadata.keys()
