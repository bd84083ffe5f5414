"""The webhook's answer to an AdmissionReview, and that all three who ask are told the same."""

from typing import Any

import pytest

from fencepost.api.admission import PROBLEMS_TOLD_MAX, NoReviewError, review_dag

NOW_S = 1_796_040_000.0


def a_review(**spec: Any) -> dict[str, Any]:
    """As the API server asks about a DAG."""
    dag = {"metadata": {"namespace": "demo", "name": "etl"}, "spec": {"tasks": [a_task("only")], **spec}}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u1", "operation": "CREATE", "object": dag},
    }


def a_task(name: str, *parents: str) -> dict[str, Any]:
    return {"name": name, "command": ["true"], "dependsOn": list(parents)}


def test_a_valid_dag_is_let_through() -> None:
    assert review_dag(a_review(), NOW_S) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u1", "allowed": True},
    }


def test_one_that_is_not_is_refused_with_all_that_is_wrong_with_it() -> None:
    review = a_review(tasks=[a_task("a", "b"), a_task("b", "a")], schedule={"cron": ["61 * * * *"]})
    response = review_dag(review, NOW_S)["response"]
    assert (response["uid"], response["allowed"]) == ("u1", False)
    assert (response["status"]["code"], response["status"]["reason"]) == (422, "Invalid")
    assert response["status"]["message"].splitlines() == [
        "spec.tasks: the tasks depend on each other: a -> b -> a; remove one edge",
        "spec.schedule.cron[0]: '61' in the minute field is outside 0 to 59; write 0 to 59",
    ]


def test_a_refusal_is_not_longer_than_anybody_reads() -> None:
    tasks = [a_task(f"t{number}", "nobody") for number in range(PROBLEMS_TOLD_MAX + 5)]
    lines = review_dag(a_review(tasks=tasks), NOW_S)["response"]["status"]["message"].splitlines()
    assert (len(lines), lines[-1]) == (PROBLEMS_TOLD_MAX + 1, "and 5 more")


@pytest.mark.parametrize(
    ("schedule", "warned"),
    [({"cron": ["0 3 30 2 *"]}, True), ({"cron": ["0 3 * * *"]}, False), (None, False)],
    ids=["30 February", "each day", "none"],
)
def test_a_schedule_that_never_fires_is_let_through_with_a_warning(
    schedule: dict[str, Any] | None, warned: bool
) -> None:
    response = review_dag(a_review(**({} if schedule is None else {"schedule": schedule})), NOW_S)["response"]
    assert response["allowed"]
    assert ("warnings" in response) is warned


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"kind": "DAG"},
        {**a_review(), "kind": "Other"},
        {"kind": "AdmissionReview", "request": {"uid": 1}},
    ],
)
def test_what_is_no_review_is_named(body: Any) -> None:
    with pytest.raises(NoReviewError):
        review_dag(body, NOW_S)
