"""Real workflow graphs as DAGs, with their durations cut to milliseconds.

The files in `tests/e2e/data/wfcommons` are instances of the WfCommons collection (github.com/wfcommons/WfInstances);
each says which. A task there is a name, the places of its parents in the list, and its runtime in seconds.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.support.dags import Obj, dag, task
from tests.e2e.support.ledger import Ledger

FOLDER = Path(__file__).parents[1] / "data" / "wfcommons"
SHARE = 1e-3
"""Of a task's real runtime that it takes here."""
SECONDS_MAX = 0.1
NAME_LENGTH_MAX = 24


@dataclass(frozen=True)
class Workflow:
    """One instance."""

    name: str
    tasks: dict[str, tuple[list[str], float]]
    """By name, a DNS label: its parents' names, and its real runtime in seconds."""

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Parent and child of each edge."""
        return [(parent, child) for child, (parents, _) in self.tasks.items() for parent in parents]

    def dag(self, name: str, ledger: Ledger) -> Obj:
        """The DAG whose jobs note their start and end."""
        tasks = (
            task(each, *parents, command=ledger.sleep(min(SECONDS_MAX, seconds * SHARE)))
            for each, (parents, seconds) in self.tasks.items()
        )
        return dag(name, *tasks)


def load(stem: str) -> Workflow:
    """The instance in the file of this name."""
    content = json.loads((FOLDER / f"{stem}.json").read_text())
    names = [_label(name, place) for place, (name, _, _) in enumerate(content["tasks"])]
    tasks = {
        names[place]: ([names[parent] for parent in parents], float(seconds))
        for place, (_, parents, seconds) in enumerate(content["tasks"])
    }
    return Workflow(content["name"], tasks)


def _label(name: str, place: int) -> str:
    """A DNS label that still tells the task: the end of its name, made unique by its place."""
    plain = re.sub("[^a-z0-9]+", "-", name.lower())[-NAME_LENGTH_MAX:].strip("-")
    return f"{plain}-{place}"
