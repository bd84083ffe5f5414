"""What is left of a run when it is over: a table of its tasks, and what failed; or its jobs one by one as JSON."""

from typing import Any

import orjson

from fencepost.cli.ledger import Ledger, TaskRow
from fencepost.cli.narration import job_label, span_text
from fencepost.cli.tables import table_lines
from fencepost.kube.protocol import Obj

HEADINGS = ("TASK", "JOBS", "OUTCOME", "DURATION", "ATTEMPTS")


def summary_lines(ledger: Ledger) -> list[str]:
    """The table of tasks, then the jobs that failed, with their last words."""
    lines = table_lines([HEADINGS, *(_cells(row) for row in ledger.rows())])
    for job, text in ledger.state.failures.items():
        first, *more = text.splitlines() or [""]
        lines += [f"{job_label(ledger.graph, job)}: {first}", *(f"  {line}" for line in more)]
    return lines


def summary_json(run: Obj, ledger: Ledger) -> str:
    """`{"run": …, "jobs": […]}`: the DAGRun as it is stored at the end, and its jobs one by one."""
    whole: dict[str, Any] = {"run": run, "jobs": list(ledger.jobs())}
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2).decode()


def _cells(row: TaskRow) -> tuple[str, ...]:
    open_ones = row.size - row.done
    counts = {str(phase): count for phase, count in row.ended.items()} | (
        {str(row.phase): open_ones} if open_ones else {}
    )
    mixed = ", ".join(f"{count} {phase}" for phase, count in counts.items())
    took = "-" if row.start_s is None or row.end_s is None else span_text(row.end_s - row.start_s)
    outcome = mixed if len(counts) > 1 else str(row.phase)
    return (row.task.name, str(row.size), outcome, took, str(row.attempts) if row.attempts else "-")
