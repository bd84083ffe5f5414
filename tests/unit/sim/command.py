"""The command behind `make sim`: many seeds on all cores, or one with its story; or the faults put into the product."""

import argparse
import gc
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tests.unit.sim.coverage import coverage_table, untried
from tests.unit.sim.mutations import MUTATIONS
from tests.unit.sim.plan import SIZES, Plan, draw_plan
from tests.unit.sim.shrink import numbers_of, shrink
from tests.unit.sim.simulate import simulate
from tests.unit.sim.violation import Violation

SHRUNKEN_MAX = 3
"""So many failing seeds are cut down and told; of the others only the promise is named."""
STORY_LINES = 400
PROGRESS_SEEDS = 500
"""After so many a line tells how far a night's run has come."""
SEEDS_FOR_EACH_PROCESS = 20
"""Nothing is tidied up after a seed: twenty megabytes that go with the process."""


@dataclass
class Report:
    """What one process has to say of one seed."""

    seed: int
    size: str
    violation: Violation | None
    coverage: "Counter[str]"
    cpu_s: float


def main(arguments: list[str]) -> int:
    """The exit code: 0 when nothing was violated."""
    parser = argparse.ArgumentParser(prog="make sim")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one alone, with its story")
    parser.add_argument("--steps", default="", help="of that seed's plan these alone, such as 3,17; - for none")
    parser.add_argument("--size", default="", choices=("", *SIZES), help="instead of the drawn one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--mutations", action="store_true", help="put each fault into the product, and see it found")
    args = parser.parse_args(arguments)
    if args.mutations:
        return _mutations(args.jobs)
    if args.seed is not None:
        return _one(args.seed, args.size, args.steps)
    return _many(range(args.first, args.first + args.seeds), args.size, args.jobs)


def _one(seed: int, size: str, steps: str) -> int:
    plan = draw_plan(seed, size)
    if steps:
        plan = plan.only(frozenset(int(number) for number in steps.split(",") if number.isdecimal()))
    outcome = simulate(plan, told=True)
    print("\n".join(outcome.story))
    print("\n".join(coverage_table(outcome.coverage)))
    print(f"fingerprint {outcome.fingerprint & 0xFFFFFFFFFFFFFFFF:016x}, {outcome.writes} writes")
    print(f"1 schedules, {int(outcome.violation is not None)} violations")
    return int(outcome.violation is not None)


def _many(seeds: Iterable[int], size: str, jobs: int) -> int:
    began_s = time.monotonic()
    coverage: Counter[str] = Counter()
    failed: list[Report] = []
    cpu_s, count = 0.0, 0
    with multiprocessing.get_context("fork").Pool(jobs, gc.disable, maxtasksperchild=SEEDS_FOR_EACH_PROCESS) as pool:
        for report in pool.imap_unordered(_report, ((seed, size) for seed in seeds)):
            count += 1
            cpu_s += report.cpu_s
            coverage.update(report.coverage)
            coverage[f"plan {report.size}"] += 1
            if report.violation is not None:
                failed.append(report)
                print(f"seed {report.seed}: {report.violation}", flush=True)
            if count % PROGRESS_SEEDS == 0:
                print(f"{count} seeds, {len(failed)} failed: {_pace(count, began_s, cpu_s)}", flush=True)
    pace = _pace(count, began_s, cpu_s)
    for report in sorted(failed, key=lambda each: each.seed)[:SHRUNKEN_MAX]:
        _tell(report, size)
    print("\n".join(coverage_table(coverage)))
    if missing := untried(coverage):
        print(f"never tried: {', '.join(missing)}")
    print(f"{jobs} processes: {pace}")
    print(f"{count} schedules, {len(failed)} violations")
    return int(bool(failed))


def _mutations(jobs: int) -> int:
    """A line for each: the seed that finds it, or that none of those does in which it must be found."""
    missed = 0
    with multiprocessing.get_context("fork").Pool(jobs, gc.disable, maxtasksperchild=1) as pool:
        for name, seed in pool.imap_unordered(_find, range(len(MUTATIONS))):
            missed += seed is None
            print(f"not found: {name}" if seed is None else f"found by seed {seed}: {name}", flush=True)
    print(f"{len(MUTATIONS)} faults, {missed} not found")
    return int(bool(missed))


def _find(number: int) -> tuple[str, int | None]:
    """The name of a fault, and the seed that finds it."""
    mutation = MUTATIONS[number]
    for seed in range(mutation.seeds_max):
        plan = draw_plan(seed, "small", focus=mutation.focus, clocks_change=mutation.clocks_change)
        with mutation.apply():
            violation = simulate(plan).violation
        if violation is not None and violation.promise.startswith(mutation.promises):
            return mutation.name, seed
    return mutation.name, None


def _pace(count: int, began_s: float, cpu_s: float) -> str:
    a_minute, of_one_core = 60 * count / (time.monotonic() - began_s), 60 * count / max(cpu_s, 1e-9)
    return f"{a_minute:.0f} seeds a minute, {of_one_core:.0f} a minute of one core"


def _report(task: tuple[int, str]) -> Report:
    seed, size = task
    began_s = time.process_time()
    plan = draw_plan(seed, size)
    outcome = simulate(plan)
    return Report(seed, plan.size, outcome.violation, outcome.coverage, time.process_time() - began_s)


def _tell(report: Report, size: str) -> None:
    """A failing seed, cut down, with the end of its story and how to see it again."""
    assert report.violation is not None
    promise = report.violation.promise

    def fails(plan: Plan) -> bool:
        violation = simulate(plan).violation
        return violation is not None and violation.promise == promise

    plan = shrink(draw_plan(report.seed, size), fails)
    outcome = simulate(plan, told=True)
    print(f"\nseed {report.seed}, cut down to {len(plan.steps)} steps:")
    print("\n".join(outcome.story[-STORY_LINES:]))
    sized = f" SIZE={size}" if size else ""
    print(f"again: make sim SEED={report.seed} STEPS={numbers_of(plan.steps)}{sized}\n", flush=True)
