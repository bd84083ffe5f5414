"""When a task may run: every rule over every way in which two parents can stand."""

import pytest

from fencepost.core.rules import Rule, TaskOutcome, Verdict, judge

WAITING = None
GOOD, BAD, SKIPPED, CANCELLED = TaskOutcome
WAIT, RUN, SKIP = Verdict

TABLE = {
    # (parents): AllSucceeded, AllDone, AnySucceeded, AnyFailed, AllFailed, NoneFailed
    (WAITING, WAITING): (WAIT, WAIT, WAIT, WAIT, WAIT, WAIT),
    (WAITING, GOOD): (WAIT, WAIT, WAIT, WAIT, SKIP, WAIT),
    (WAITING, BAD): (SKIP, WAIT, WAIT, WAIT, WAIT, SKIP),
    (WAITING, SKIPPED): (SKIP, WAIT, WAIT, WAIT, SKIP, WAIT),
    (WAITING, CANCELLED): (SKIP, WAIT, WAIT, WAIT, SKIP, WAIT),
    (GOOD, GOOD): (RUN, RUN, RUN, SKIP, SKIP, RUN),
    (GOOD, BAD): (SKIP, RUN, RUN, RUN, SKIP, SKIP),
    (GOOD, SKIPPED): (SKIP, RUN, RUN, SKIP, SKIP, RUN),
    (BAD, BAD): (SKIP, RUN, SKIP, RUN, RUN, SKIP),
    (BAD, SKIPPED): (SKIP, RUN, SKIP, RUN, SKIP, SKIP),
    (SKIPPED, SKIPPED): (SKIP, RUN, SKIP, SKIP, SKIP, RUN),
    (CANCELLED, GOOD): (SKIP, RUN, RUN, SKIP, SKIP, RUN),
    (CANCELLED, CANCELLED): (SKIP, RUN, SKIP, SKIP, SKIP, RUN),
}


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("parents", TABLE)
def test_a_rule_says_of_its_parents_what_the_table_says(
    rule: Rule, parents: tuple[TaskOutcome | None, TaskOutcome | None]
) -> None:
    want = TABLE[parents][list(Rule).index(rule)]

    assert judge(rule, parents) is want
    assert judge(rule, parents[::-1]) is want


@pytest.mark.parametrize("rule", [rule for rule in Rule if not rule.needs_parents])
def test_a_task_that_no_other_comes_before_runs_at_once(rule: Rule) -> None:
    assert judge(rule, []) is RUN
