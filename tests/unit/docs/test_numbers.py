"""Defaults and limits in the documents are those of the code."""

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fencepost.api.read import read_dag
from fencepost.core import definition, fan_out, history, names, outputs, run_size
from fencepost.core.dag_spec import DagSpec
from fencepost.core.lease import LeaseTimes
from fencepost.core.plan_dag import LATENESS_MAX_S
from fencepost.loops import beginning
from fencepost.loops import history as history_loop
from fencepost.main import add_operator_parser, add_worker_parser
from fencepost.worker.settings import WorkerSettings
from tests.unit.docs.pages import DOCS, README, rows, section, words
from tests.unit.docs.test_reference import OPERATING, schema_of

KIB = 1024


def flag_rows() -> Iterator[tuple[str, str]]:
    """Flags with a default of their own in the table."""
    for row in rows(section(OPERATING, "## Flags")):
        flags = words(row[0])
        if len(flags) == 1 and re.fullmatch(r"[0-9.]+|`[^`]+`", row[1]):
            yield flags[0], row[1].strip("`")


@pytest.mark.parametrize(("flag", "told"), list(flag_rows()))
def test_a_flag_has_the_default_that_is_told(flag: str, told: str) -> None:
    for add_parser in (add_operator_parser, add_worker_parser):
        parser = argparse.ArgumentParser()
        add_parser(subparsers := parser.add_subparsers())
        (command,) = subparsers.choices.values()
        for action in command._actions:
            if flag in action.option_strings:
                default = float(action.default) if isinstance(action.default, (int, float)) else action.default
                assert default == (float(told) if isinstance(default, float) else told)
                return
    raise AssertionError(f"there is no {flag}")


def default_of(field: str) -> Any:
    """Of a field such as `retries.backoff`, as the schema has it."""
    schema: Mapping[str, Any] = schema_of("dags")["properties"]["spec"]
    for name in field.split("."):
        schema = schema["properties"][name]
    return schema.get("default")


def field_rows() -> Iterator[tuple[str, str]]:
    """Fields with one default in the table, a number or a word."""
    for row in rows(section(DOCS / "fields.md", "# The fields of a DAG")):
        fields = words(row[0])
        if len(fields) == 1 and "[]" not in fields[0] and re.fullmatch(r"[0-9]+|`[A-Za-z0-9]+`", row[1]):
            yield fields[0], row[1].strip("`")


@pytest.mark.parametrize(("field", "told"), list(field_rows()))
def test_a_field_has_the_default_that_is_told(field: str, told: str) -> None:
    default = default_of(field)
    if default is None:  # left to the code, so that nothing is stored that nobody has written
        default = defaults_of_the_code()[field]
    assert (str(default).lower() if isinstance(default, bool) else str(default)) == told


def defaults_of_the_code() -> dict[str, object]:
    """By field: as the smallest DAG is read."""
    smallest = {"metadata": {"name": "a"}, "spec": {"tasks": [{"name": "only", "command": ["true"]}]}}
    spec = read_dag(smallest)
    assert isinstance(spec, DagSpec)
    (task,) = spec.definition.tasks
    return {
        "schedule.startingDeadline": f"{LATENESS_MAX_S / 60:g}m",
        "concurrency.limit": spec.limits.runs_max,
        "concurrency.queueLimit": spec.limits.queue_max,
        "terminationGracePeriod": f"{spec.definition.grace_s:g}s",
        "retries.limit": task.retries.limit,
        "retries.lossLimit": task.retries.loss_limit,
    }


def thousands(number: int) -> str:
    return f"{number:,}".replace(",", " ")


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (README, f"A DAG's name has at most {names.DAG_NAME_LENGTH_MAX} characters"),
        (README, f"a DAG at most {thousands(definition.TASKS_MAX)} tasks"),
        (README, f"command, args and env of a task {definition.COMMAND_BYTES_MAX // KIB} KiB"),
        (README, f"a run {definition.RUN_BYTES_MAX // KIB} KiB and {thousands(run_size.JOBS_OPEN_MAX)} open jobs"),
        (README, f"Over all DAGs {thousands(history_loop.TOTAL_MAX)} finished runs are kept"),
        (README, f"a file to write up to {outputs.OUTPUT_BYTES_MAX // KIB} KiB of UTF-8 to"),
        (README, f"spread over {names.SHARDS_DEFAULT} shards"),
        (README, f"silent for {LeaseTimes().duration_s} s (`--lease-duration`)"),
        (README, f"each replica has a Lease that it renews every {LeaseTimes().renewal_s:g} s"),
        (README, f"{WorkerSettings('w', 'aaaaa').lease_duration_s} s in a cluster of fewer workers"),
        (DOCS / "graphs.md", f"as many, up to {thousands(definition.FAN_OUT_MAX)}"),
        (DOCS / "graphs.md", f"lists of more than {thousands(fan_out.LISTED_JOBS_MAX)} items"),
        (
            DOCS / "graphs.md",
            f"more than {outputs.OUTPUT_BYTES_MAX // KIB} KiB | the job fails; {outputs.LIST_BYTES_MAX // KIB} KiB are",
        ),
        (DOCS / "graphs.md", f"outputs of a run of more than {outputs.RUN_OUTPUT_BYTES_MAX // KIB} KiB together"),
        (DOCS / "graphs.md", f"{definition.ITEMS_BYTES_MAX // KIB} KiB of items together"),
        (DOCS / "attempts.md", f"`retries.lossLimit` ({definition.LOSS_LIMIT_DEFAULT})"),
    ],
)
def test_a_limit_is_what_it_is_said_to_be(page: Path, sentence: str) -> None:
    assert sentence in " ".join(page.read_text().split())


def test_what_is_said_in_words_is_so() -> None:
    day_s = 24 * 3600.0
    assert history_loop.AGE_MIN_S == 120.0, "README: none within two minutes of its creation"
    assert day_s == beginning.BEGIN_WITHIN_S == history_loop.NO_DAG_LIMITS.ttl_s, "README: after a day, a day after"
    assert day_s == history.PROGRESS_KEPT_S, "commands.md: given again within a day"
