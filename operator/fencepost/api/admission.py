"""Whether a DAG is valid, asked from three sides by one function: the operator, `fencepost check`, and the webhook.

The API server sends the webhook an AdmissionReview and gets one back. A DAG that is not valid is refused with all that
is wrong with it, each as path, fact and remedy; one whose schedule never fires is let through with a warning.
"""

from collections.abc import Mapping
from typing import Any

from fencepost.api.read import read_dag
from fencepost.base.zones import zone_of
from fencepost.core.check import CheckedDag, check_dag
from fencepost.core.problems import Problem

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
PROBLEMS_TOLD_MAX = 20
"""In one refusal: who has made more mistakes than that corrects these first."""


class NoReviewError(Exception):
    """The request is no AdmissionReview of a DAG; `str()` says what it is."""


def checked_dag(dag: Mapping[str, Any]) -> CheckedDag | list[Problem]:
    """A DAG's object ready to run, or everything that is wrong with it beyond what the API server has refused."""
    spec = read_dag(dag)
    return spec if isinstance(spec, list) else check_dag(spec, zone_of)


def review_dag(review: Any, now_s: float) -> dict[str, Any]:
    """The AdmissionReview that answers one; NoReviewError if it cannot be answered."""
    try:
        request = review["request"]
        uid, dag = request["uid"], request["object"]
        if review["kind"] != KIND or not isinstance(dag, dict):
            raise NoReviewError(f"a {review['kind']} without an object")
    except (KeyError, TypeError) as error:
        raise NoReviewError(f"no AdmissionReview: {error!r}") from error
    checked = checked_dag(dag)
    response: dict[str, Any] = {"uid": uid, "allowed": isinstance(checked, CheckedDag)}
    if isinstance(checked, list):
        response["status"] = {"code": 422, "reason": "Invalid", "message": _told(checked)}
    elif warning := _warning(checked, now_s):
        response["warnings"] = [warning]
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _told(problems: list[Problem]) -> str:
    lines = [str(problem) for problem in problems[:PROBLEMS_TOLD_MAX]]
    if len(problems) > PROBLEMS_TOLD_MAX:
        lines.append(f"and {len(problems) - PROBLEMS_TOLD_MAX} more")
    return "\n".join(lines)


def _warning(checked: CheckedDag, now_s: float) -> str:
    if checked.schedule and checked.schedule.next_slot(now_s) is None:
        return "spec.schedule: it never fires from now on; correct it, or remove it and start runs by hand"
    return ""
