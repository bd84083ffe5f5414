"""When a task may run: its rule over how its parents ended.

| rule | the task runs when all parents have ended and | it is skipped as soon as |
|---|---|---|
| AllSucceeded | all succeeded | one ended otherwise |
| AllDone | however | never |
| AnySucceeded | at least one succeeded | all have ended, and none succeeded |
| AnyFailed | at least one failed | all have ended, and none failed |
| AllFailed | all failed | one ended otherwise |
| NoneFailed | none failed | one failed |

A parent that was skipped has neither succeeded nor failed, and nor has one that was cancelled. Every rule waits for the
last parent before the task runs, so that what it sees of them is final; to skip it, no rule waits longer than it must.
A task that no other comes before runs at once under each rule that it can have (the kind DAG refuses the others).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import assert_never


class Rule(StrEnum):
    """A task's `rule`."""

    ALL_SUCCEEDED = "AllSucceeded"
    ALL_DONE = "AllDone"
    ANY_SUCCEEDED = "AnySucceeded"
    ANY_FAILED = "AnyFailed"
    ALL_FAILED = "AllFailed"
    NONE_FAILED = "NoneFailed"

    @property
    def needs_parents(self) -> bool:
        """Without parents it could never be met."""
        return self in (Rule.ANY_SUCCEEDED, Rule.ANY_FAILED, Rule.ALL_FAILED)


class TaskOutcome(StrEnum):
    """How a whole task ended, as those see it that depend on it."""

    SUCCEEDED = "Succeeded"
    """Its jobs succeeded, as many as must; or it has none, and its own rule was met."""
    FAILED = "Failed"
    """Its last job has ended, one of them Failed, and too few succeeded."""
    SKIPPED = "Skipped"
    """Its jobs were skipped, and none failed; or it has none, and its own rule was not met."""
    CANCELLED = "Cancelled"
    """Some of its jobs were cancelled, and none failed."""


class Verdict(StrEnum):
    """What follows from a rule."""

    WAIT = "Wait"
    """A parent has not ended, and the rule may still be met."""
    RUN = "Run"
    """All parents have ended, and the rule is met."""
    SKIP = "Skip"
    """The rule can no longer be met."""


def judge(rule: Rule, parents: Sequence[TaskOutcome | None]) -> Verdict:
    """What the rule says of parents that ended so; None stands for one that has not ended."""
    waiting = parents.count(None)
    succeeded, failed = parents.count(TaskOutcome.SUCCEEDED), parents.count(TaskOutcome.FAILED)
    if _is_lost(rule, waiting, len(parents) - waiting, succeeded, failed):
        return Verdict.SKIP
    return Verdict.WAIT if waiting else Verdict.RUN


def _is_lost(rule: Rule, waiting: int, ended: int, succeeded: int, failed: int) -> bool:
    match rule:
        case Rule.ALL_SUCCEEDED:
            return succeeded < ended
        case Rule.ALL_DONE:
            return False
        case Rule.ANY_SUCCEEDED:
            return not waiting and not succeeded
        case Rule.ANY_FAILED:
            return not waiting and not failed
        case Rule.ALL_FAILED:
            return failed < ended
        case Rule.NONE_FAILED:
            return failed > 0
        case _:
            assert_never(rule)
