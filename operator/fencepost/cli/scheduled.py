"""The schedule of a DAG in a file, as the operator would follow it."""

import sys

from fencepost.cli.check import checked_dag
from fencepost.cli.errors import RefusedError
from fencepost.cli.sources import pick_dag
from fencepost.core.schedule import Schedule


def schedule_in(file: str, dag: str | None) -> Schedule:
    """RefusedError where there is no such DAG, or it could not run."""
    document = pick_dag(file, dag)
    checked = checked_dag(document)
    if isinstance(checked, list):
        raise RefusedError(*(f"{document}: {problem}" for problem in checked))
    if not checked.schedule:
        raise RefusedError(f"{document}: it has no schedule; add spec.schedule, or name another")
    if checked.spec.suspend:
        print(f"warning: {document} is suspended and has no run until that ends", file=sys.stderr)
    return checked.schedule
