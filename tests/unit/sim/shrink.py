"""Cuts a failing plan down to the few steps that matter: delta debugging, asking for the same broken promise."""

from collections.abc import Callable, Sequence

from tests.unit.sim.plan import Plan


def shrink(plan: Plan, still_fails: Callable[[Plan], bool], tries_max: int = 200) -> Plan:
    """The plan with as few of its steps as still fail, as far as leaving out ever smaller parts finds it."""
    kept = [step.number for step in plan.steps]
    tries = 0
    part = max(1, len(kept) // 2)
    while kept and tries < tries_max:
        for start in range(0, len(kept), part):
            fewer = kept[:start] + kept[start + part :]
            tries += 1
            if still_fails(plan.only(frozenset(fewer))):
                kept = fewer
                break
            if tries >= tries_max:
                break
        else:
            if part == 1:
                break
            part = max(1, part // 2)
    return plan.only(frozenset(kept))


def numbers_of(steps: Sequence[object]) -> str:
    """As `STEPS=` wants them; a dash for none."""
    return ",".join(str(step.number) for step in steps if hasattr(step, "number")) or "-"
