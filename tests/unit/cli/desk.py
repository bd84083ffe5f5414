"""A person at a terminal, on the stage of the loops' stories: the commands that ask a cluster, in virtual time."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import orjson

from fencepost.api.names import Kind
from fencepost.cli import app
from fencepost.cli.cluster import NO_ANSWER, NOT_FOUND, ClusterError
from fencepost.cli.errors import CommandError
from fencepost.kube.errors import ApiError
from fencepost.kube.protocol import Obj
from fencepost.memory.identity import USER
from tests.unit.loops.stage import NAMESPACE, Stage

Change = Mapping[str, Any]
T = TypeVar("T")


class MemoryCluster:
    """`cli.cluster.Cluster` on the stage's API server, as a user with the role `edit`."""

    def __init__(self, stage: Stage) -> None:
        self.namespace = NAMESPACE
        self.away = False
        """Nobody answers."""
        self.answers_lost = 0
        """So many creates are carried out, and their answers lost."""
        self.logs: dict[str, list[bytes]] = {}
        """By pod: what it has printed."""
        self._engine = stage.server.engine

    def get(self, kind: Kind, name: str) -> Obj:
        return self._ask(lambda: self._engine.get(USER, kind, self.namespace, name))

    def find(self, kind: Kind, name: str) -> Obj | None:
        try:
            return self.get(kind, name)
        except ClusterError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def list(self, kind: Kind, label_selector: str = "", namespace: str = "") -> list[Obj]:
        return self._ask(
            lambda: self._engine.list(USER, kind, namespace or self.namespace, label_selector, 0, "").items
        )

    def create(self, kind: Kind, obj: Obj) -> Obj:
        sent = {**obj, "metadata": {**obj["metadata"], "namespace": self.namespace}}
        made = self._ask(lambda: self._engine.create(USER, kind, orjson.dumps(sent)))
        if self.answers_lost:
            self.answers_lost -= 1
            raise ClusterError("nobody answers", NO_ANSWER)
        return made

    def patch(self, kind: Kind, name: str, change: Change) -> Obj:
        changed = _merged(self.get(kind, name), change)
        return self._ask(lambda: self._engine.replace(USER, kind, orjson.dumps(changed), ""))

    def user_name(self) -> str:
        return USER.user

    def pod_log(self, namespace: str, pod: str, since: str) -> Iterator[bytes]:
        if pod not in self.logs:
            raise ClusterError(f"log of pod {namespace}/{pod}: pods {pod!r} not found", NOT_FOUND)
        return iter(self.logs[pod])

    def _ask(self, ask: Callable[[], T]) -> T:
        if self.away:
            raise ClusterError("nobody answers", NO_ANSWER)
        try:
            return ask()
        except ApiError as error:
            raise ClusterError(str(error), error.status) from None


def _merged(old: Any, change: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(change, Mapping):
        return change
    kept = dict(old) if isinstance(old, Mapping) else {}
    for name, value in change.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = _merged(kept.get(name), value)
    return kept


class Desk:
    """Types command lines; keeps the last error that a command ended with."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.cluster = MemoryCluster(stage)
        self.error = ""

    async def types(self, *words: str) -> int:
        """Carry out `fencepost WORDS…` to its end; the exit code."""
        parser = argparse.ArgumentParser()
        command = app.COMMANDS[words[0]].load(parser.add_subparsers())
        assert isinstance(command, app.OnCluster)
        try:
            return await command.ask(parser.parse_args(words), self.cluster, self.stage.clock)
        except CommandError as error:
            self.error = "\n".join(map(str, error.args))
            return error.exit_code
