"""How somebody reads a run who knows the documents and nothing of the code: what its rules, conditions and lists mean.

Small and plain on purpose, and never shared with the product: what both get from one place, both get wrong.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.core.names import JobKey
from fencepost.core.phases import JobPhase
from tests.unit.sim.conditions import NoAnswerError, holds
from tests.unit.sim.history import Stored

Task = Mapping[str, Any]
"""As it is written in a DAG."""
RUN, SKIP, WAIT, FAIL = "run", "skip", "wait", "fail"
SUCCEEDED, FAILED, SKIPPED, CANCELLED = "Succeeded", "Failed", "Skipped", "Cancelled"


def may_be_met(rule: str, parents: Sequence[str | None]) -> bool:
    """Whether a rule is met, or still can be, by parents that ended so; for one that has not (None) all is tried."""
    if None in parents:
        place = list(parents).index(None)
        guesses = ([*parents[:place], end, *parents[place + 1 :]] for end in (SUCCEEDED, FAILED, SKIPPED))
        return any(may_be_met(rule, guess) for guess in guesses)
    match rule:
        case "AllSucceeded":
            return all(end == SUCCEEDED for end in parents)
        case "AllFailed":
            return all(end == FAILED for end in parents)
        case "AnySucceeded":
            return SUCCEEDED in parents
        case "AnyFailed":
            return FAILED in parents
        case "NoneFailed":
            return FAILED not in parents
    assert rule == "AllDone", rule
    return True


class Reading:
    """A run at one moment."""

    def __init__(
        self, run: Stored, tasks: Mapping[str, Task], params: Mapping[str, str], outputs: Mapping[JobKey, str]
    ) -> None:
        self.run = run
        self.tasks = tasks
        self._params = params
        self._outputs = outputs
        self._outcomes: dict[str, str | None] = {}
        self._verdicts: dict[str, str] = {}
        self._closed: dict[str, bool] = {}

    def count(self, name: str, phase: JobPhase) -> int:
        """Jobs of a task that ended so."""
        state = self.run.run.tasks.get(name)
        return state.count(phase) if state is not None else 0

    def size(self, name: str) -> int:
        """How many jobs a task has: as the run has recorded (of a list, of what failed unasked), or by definition."""
        state = self.run.run.tasks.get(name)
        each = self.tasks[name].get("forEach") or {"count": 1}
        if state is not None and state.size is not None:
            return state.size
        return int(each["count"]) if "count" in each else len(each.get("items", [""]))

    def items(self, name: str) -> list[str] | None:
        """The items of a fan-out over a list or over items; None where its list is none."""
        each = self.tasks[name]["forEach"]
        if "from" not in each:
            return list(each["items"]) if "items" in each else [str(index) for index in range(each["count"])]
        try:
            listed = json.loads(self.output(each["from"]))
        except ValueError:
            return None
        return [str(item) for item in listed] if isinstance(listed, list) else None

    def outputs(self, name: str) -> list[str]:
        """Of the jobs of a task that has ended."""
        size = self.size(name)
        if self.count(name, JobPhase.SKIPPED) + self.count(name, JobPhase.CANCELLED) >= size:
            return []
        return [self._outputs.get(JobKey(name, index), "") for index in range(size)]

    def output(self, name: str) -> str:
        """As another task gets it."""
        each = self.outputs(name)
        return json.dumps(each, separators=(",", ":")) if "forEach" in self.tasks[name] else "".join(each)

    def outcome(self, name: str) -> str | None:
        """How a task ended, as those see it that depend on it; None: it has not."""
        if name not in self._outcomes:
            self._outcomes[name] = self._outcome(name)
        return self._outcomes[name]

    def _outcome(self, name: str) -> str | None:
        size = self.size(name)
        if size == 0:
            return {RUN: SUCCEEDED, SKIP: SKIPPED}.get(self.verdict(name))
        succeeded, failed = self.count(name, JobPhase.SUCCEEDED), self.count(name, JobPhase.FAILED)
        skipped, cancelled = self.count(name, JobPhase.SKIPPED), self.count(name, JobPhase.CANCELLED)
        if succeeded + failed + skipped + cancelled < size:
            return None
        if not skipped and not cancelled and succeeded >= self.wanted(name):
            return SUCCEEDED
        return FAILED if failed else CANCELLED if cancelled else SKIPPED

    def wanted(self, name: str) -> int:
        """How many jobs must succeed for the task to have succeeded."""
        size = self.size(name)
        threshold = (self.tasks[name].get("forEach") or {}).get("successThreshold", "100%")
        share = int(str(threshold).removesuffix("%"))
        return min(size, -(-size * share // 100) if str(threshold).endswith("%") else share)

    def closed(self, name: str) -> bool:
        """Whether a task and all that comes before it has ended."""
        if name not in self._closed:
            parents = self.tasks[name].get("dependsOn") or ()
            self._closed[name] = self.outcome(name) is not None and all(self.closed(parent) for parent in parents)
        return self._closed[name]

    def verdict(self, name: str) -> str:
        """What rule, condition and list come to, asked of a task that has not begun."""
        if name not in self._verdicts:
            self._verdicts[name] = self._verdict(name)
        return self._verdicts[name]

    def _verdict(self, name: str) -> str:
        verdict = self.by_rule(name)
        if verdict != RUN:
            return verdict
        try:
            if "when" in self.tasks[name] and not holds(self.tasks[name]["when"], self._ask):
                return SKIP
        except NoAnswerError:
            return FAIL
        return FAIL if "forEach" in self.tasks[name] and self.items(name) is None else RUN

    def by_rule(self, name: str) -> str:
        """What its rule alone says."""
        task = self.tasks[name]
        parents = task.get("dependsOn") or ()
        ends = [self.outcome(parent) for parent in parents]
        if not may_be_met(task.get("rule", "AllSucceeded"), ends):
            return SKIP
        return RUN if all(self.closed(parent) for parent in parents) else WAIT

    def _ask(self, kind: str, name: str, field: str) -> object:
        match kind, field:
            case "params", _:
                return self._params[name]
            case "run", _:
                return {"dag": self.run.spec["dag"]}[name]
            case _, "status":
                return self.outcome(name)
            case _, "output":
                return self.output(name)
            case _, "outputs":
                return self.outputs(name)
            case _, "succeeded":
                return self.count(name, JobPhase.SUCCEEDED)
            case _, "failed":
                return self.count(name, JobPhase.FAILED)
        raise AssertionError(f"{kind}.{name}.{field}")
