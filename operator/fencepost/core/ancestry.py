"""Who comes before whom, through however many tasks.

A task may refer only to what has ended when it starts, and that is what comes before it. Each task's ancestors are one
integer with a bit for each task, so the sets of a DAG of five thousand tasks are joined in a few milliseconds.
"""

from collections.abc import Mapping

from fencepost.core.graph import Graph


class Ancestry:
    """The ancestors of each task of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._bits: Mapping[str, int] = {task.name: 1 << place for place, task in enumerate(graph.order)}
        self._above: dict[str, int] = {}
        for task in graph.order:
            above = 0
            for parent in task.depends_on:
                above |= self._above[parent] | self._bits[parent]
            self._above[task.name] = above

    def comes_before(self, earlier: str, task: str) -> bool:
        """Whether a task of the name `earlier` exists, and `task` depends on it, directly or through others."""
        return bool(self._bits.get(earlier, 0) & self._above[task])
