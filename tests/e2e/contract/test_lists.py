"""Lists: consistent, in pages, by namespace and label."""

import pytest

from fencepost.api.names import DAG_RUNS, DAGS
from fencepost.kube.errors import ApiError
from tests.e2e.contract.objects import dag, run
from tests.e2e.contract.site import Site


async def names(site: Site, selector: str) -> list[str]:
    page = await site.user.list(DAGS, site.namespace, label_selector=selector)
    return [item["metadata"]["name"] for item in page.items]


async def test_a_list_is_in_the_order_of_names_and_tells_its_version(site: Site) -> None:
    created = {name: await site.user.create(DAGS, dag(site.namespace, name)) for name in ("b", "c", "a")}
    page = await site.user.list(DAGS, site.namespace)
    assert page.items == [created["a"], created["b"], created["c"]]
    assert int(page.resource_version) >= int(created["a"]["metadata"]["resourceVersion"])
    assert page.continue_token == ""


async def test_a_list_of_nothing_has_a_version_too(site: Site) -> None:
    page = await site.user.list(DAG_RUNS, site.namespace)
    assert page.items == []
    assert int(page.resource_version) > 0


async def test_a_list_of_all_namespaces_holds_those_of_this_one(site: Site) -> None:
    created = await site.user.create(DAGS, dag(site.namespace))
    assert created in (await site.user.list(DAGS)).items


async def test_pages_show_the_objects_as_they_were_when_the_first_was_read(site: Site) -> None:
    for number in range(5):
        await site.user.create(DAG_RUNS, run(site.namespace, f"run-{number}"))
    page = await site.user.list(DAG_RUNS, site.namespace, limit=2)
    version = page.resource_version
    await site.user.create(DAG_RUNS, run(site.namespace, "run-25"))
    await site.user.delete(DAG_RUNS, site.namespace, "run-4")
    seen = [item["metadata"]["name"] for item in page.items]
    while page.continue_token:
        page = await site.user.list(DAG_RUNS, site.namespace, limit=2, continue_token=page.continue_token)
        assert len(page.items) <= 2
        assert page.resource_version == version
        seen += [item["metadata"]["name"] for item in page.items]
    assert seen == [f"run-{number}" for number in range(5)]


async def test_a_page_can_be_read_again(site: Site) -> None:
    for name in ("a", "b", "c"):
        await site.user.create(DAGS, dag(site.namespace, name))
    token = (await site.user.list(DAGS, site.namespace, limit=1)).continue_token
    pages = [await site.user.list(DAGS, site.namespace, limit=1, continue_token=token) for _ in range(2)]
    assert pages[0].items == pages[1].items


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("", ["a", "b", "bare"]),
        ("team=a", ["a"]),
        ("team==b", ["b"]),
        ("team!=a", ["b", "bare"]),
        ("team in (a, b)", ["a", "b"]),
        ("team notin (a)", ["b", "bare"]),
        ("team", ["a", "b"]),
        ("!team", ["bare"]),
        ("team,tier=gold", ["b"]),
        ("tier=gold,team=a", []),
    ],
)
async def test_a_label_selector_chooses(site: Site, selector: str, want: list[str]) -> None:
    await site.user.create(DAGS, dag(site.namespace, "a", labels={"team": "a"}))
    await site.user.create(DAGS, dag(site.namespace, "b", labels={"team": "b", "tier": "gold"}))
    await site.user.create(DAGS, dag(site.namespace, "bare"))
    assert await names(site, selector) == want


@pytest.mark.parametrize("selector", ["team=a=b", "team in a", "=a", "team,,tier"])
async def test_what_is_no_selector_is_refused(site: Site, selector: str) -> None:
    with pytest.raises(ApiError) as caught:
        await names(site, selector)
    assert caught.value.status == 400
