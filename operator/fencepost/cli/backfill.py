"""`fencepost backfill DAG`: runs for times in the past, a few at a time.

The client makes the runs, as it has the right to (the verb `backfill` on DAGs), and sees to it that no more than a few
are under way. If it dies, no more runs are made, and the same command goes on where it stood: `core.backfill` tells
how. While it waits it asks for the runs that bear its label, and for no others.
"""

import argparse
import asyncio
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from fencepost.api.names import API_VERSION, BACKFILL_LABEL, DAG_LABEL, DAG_RUNS, DAGS
from fencepost.api.read import read_dag
from fencepost.api.times import format_time
from fencepost.base.clock import Clock
from fencepost.base.zones import zone_of
from fencepost.cli.cluster import CONFLICT, Cluster, ClusterError, Obj, add_cluster_options
from fencepost.cli.errors import RefusedError
from fencepost.cli.next import parse_start
from fencepost.cli.trigger import unready
from fencepost.cli.waiting import EXIT_FAILED, EXIT_SUCCEEDED, insist, is_finished, phase_of, summary
from fencepost.core.backfill import SLOTS_MAX, Act, Reprocess, SlotRun, Step, plan_backfill
from fencepost.core.check import CheckedDag, check_dag
from fencepost.core.names import scheduled_run_name
from fencepost.core.phases import RunPhase
from fencepost.core.problems import Problem
from fencepost.core.run_state import Trigger

DESCRIPTION = """Run a DAG for its scheduled times in the past, oldest first, with low priority. A time whose run
exists is left alone, unless --reprocess says otherwise. After an interruption the same command goes on where it stood.
Exit code 0: all its runs have Succeeded, or --dry-run; 1: some have not; 2: refused."""
PERIOD_S = 2.0
PARALLEL_MAX = 100
_NAME = re.compile(r"[a-zA-Z0-9]([-_.a-zA-Z0-9]{0,61}[a-zA-Z0-9])?")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", help_: str) -> None:
    """Declare the command and its options."""
    parser = subparsers.add_parser("backfill", help=help_, description=DESCRIPTION)
    parser.add_argument("dag", metavar="DAG")
    parser.add_argument("--from", dest="start", required=True, metavar="T", help="the first time, RFC 3339")
    parser.add_argument("--to", dest="end", required=True, metavar="T", help="the last time; it may be one of them")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument(
        "--max-parallel", type=int, default=1, metavar="N", help="runs at a time (default: %(default)s)"
    )
    parser.add_argument(
        "--reprocess",
        choices=[each.value for each in Reprocess],
        default=Reprocess.NONE.value,
        help="times whose run has failed, or any, are run again (default: %(default)s)",
    )
    parser.add_argument("--name", metavar="NAME", help="another name than the default begins anew instead of going on")
    add_cluster_options(parser)


async def run(args: argparse.Namespace, cluster: Cluster, clock: Clock) -> int:
    """Deal with each time in turn, then see all runs to their end."""
    start_s, end_s = _time(args.start, "--from"), _time(args.end, "--to")
    if not 1 <= args.max_parallel <= PARALLEL_MAX:
        raise RefusedError(f"--max-parallel {args.max_parallel}: write a number from 1 to {PARALLEL_MAX}")
    if end_s > clock.now_s():
        raise RefusedError(f"--to {args.end}: that is not past yet; the schedule itself sees to times to come")
    slots = _slots(_checked(cluster, args.dag), start_s, end_s)
    reprocess = Reprocess(args.reprocess)
    name = args.name or f"{start_s}-{end_s}" + ("" if reprocess is Reprocess.NONE else f"-{reprocess}")
    if not _NAME.fullmatch(name):
        raise RefusedError(f"--name {name!r}: it becomes a label's value; write up to 63 letters, digits, - _ and .")
    backfill = Backfill(cluster, clock, args.dag, name, reprocess)
    steps = plan_backfill(slots, *backfill.look(slots), reprocess)
    if args.dry_run:
        return _show(args.dag, list(steps))
    print(f"backfill {name}: {len(slots)} times", flush=True)
    try:
        for step in steps:
            await backfill.take(step, args.max_parallel)
        await backfill.room_below(1)
    except asyncio.CancelledError:
        print("interrupted; runs under way go on, and the same command goes on with the others", file=sys.stderr)
        raise
    return backfill.close()


@dataclass(slots=True)
class Backfill:
    """One backfill under way."""

    cluster: Cluster
    clock: Clock
    dag: str
    name: str
    reprocess: Reprocess
    open: set[str] = field(default_factory=set)
    """Names of its runs that have not ended."""
    ended: dict[str, RunPhase | None] = field(default_factory=dict)
    """Its runs that have ended, and how; None: deleted before anybody saw."""
    waits: set[str] = field(default_factory=set)
    """Why some of its runs have not begun, as far as it has been told."""

    def look(self, slots: list[int]) -> tuple[dict[int, SlotRun], int | None]:
        """The runs that exist under the names of these slots, and the latest slot that bears the label."""
        found: dict[int, SlotRun] = {}
        reached_s: int | None = None
        wanted = {scheduled_run_name(self.dag, slot_s): slot_s for slot_s in slots}
        for run in self.cluster.list(DAG_RUNS, f"{DAG_LABEL}={self.dag}"):
            slot_s = wanted.get(run["metadata"]["name"])
            if slot_s is None:
                continue
            found[slot_s] = slot_run(run, self.name)
            if found[slot_s].ours:
                reached_s = max(slot_s, reached_s or slot_s)
                if not found[slot_s].under_way:
                    self.ended[run["metadata"]["name"]] = phase_of(run)
        return found, reached_s

    async def take(self, step: Step, parallel_max: int) -> None:
        """Carry out one step, once there is room for it."""
        run = scheduled_run_name(self.dag, step.slot_s)
        match step.act:
            case Act.LEAVE:
                print(f"{run}: left alone: {step.why}", flush=True)
                return
            case Act.FOLLOW:
                print(f"{run}: is under way", flush=True)
            case Act.CREATE:
                await self.room_below(parallel_max)
                if not await self._create(run, step.slot_s):
                    print(f"{run}: left alone: somebody else has made it meanwhile", flush=True)
                    return
                print(f"{run}: created", flush=True)
            case Act.RERUN:
                await self.room_below(parallel_max)
                change = self._another_round(step.round)
                await insist(self.clock, lambda: self.cluster.patch(DAG_RUNS, run, change))
                print(f"{run}: run again, round {step.round}", flush=True)
            case _:
                assert_never(step.act)
        self.open.add(run)

    async def room_below(self, parallel_max: int) -> None:
        """Wait until fewer runs than this are under way, and tell of those that end."""
        label = f"{BACKFILL_LABEL}={self.name}"
        while len(self.open) >= parallel_max:
            await self.clock.sleep(PERIOD_S)
            runs = await insist(self.clock, lambda: self.cluster.list(DAG_RUNS, label))
            by_name = {run["metadata"]["name"]: run for run in runs}
            for name in sorted(self.open):
                self._note(name, by_name.get(name) or await self._elsewhere(name))

    def close(self) -> int:
        """Say how all of it has ended; the exit code."""
        well = sum(phase is RunPhase.SUCCEEDED for phase in self.ended.values())
        print(f"backfill {self.name}: {well} of {len(self.ended)} runs Succeeded")
        return EXIT_SUCCEEDED if well == len(self.ended) else EXIT_FAILED

    async def _create(self, name: str, slot_s: int) -> bool:
        """Make a slot's run. Made again after an answer that was lost, its name is taken; the label tells by whom."""
        labels = {BACKFILL_LABEL: self.name, DAG_LABEL: self.dag}
        spec = {"dag": self.dag, "trigger": str(Trigger.BACKFILL), "scheduledTime": format_time(slot_s)}
        meta = {"name": name, "labels": labels}
        body = {"apiVersion": API_VERSION, "kind": DAG_RUNS.kind, "metadata": meta, "spec": spec}
        try:
            await insist(self.clock, lambda: self.cluster.create(DAG_RUNS, body))
        except ClusterError as error:
            if error.status != CONFLICT:
                raise
            found = await insist(self.clock, lambda: self.cluster.find(DAG_RUNS, name))
            return found is not None and slot_run(found, self.name).ours
        return True

    def _another_round(self, number: int) -> Obj:
        """One change: the wish, and the label by which it is not wished again."""
        source = "All" if self.reprocess is Reprocess.ALL else "Failed"
        rerun = {"round": number, "from": source, "jobs": None, "downstream": None}
        return {
            "metadata": {"labels": {BACKFILL_LABEL: self.name}},
            "spec": {"round": number, "rerun": rerun, "cancel": False},
        }

    async def _elsewhere(self, name: str) -> Obj | None:
        """A run that bears our label no longer: another backfill runs it again, or it is gone."""
        return await insist(self.clock, lambda: self.cluster.find(DAG_RUNS, name))

    def _note(self, name: str, run: Obj | None) -> None:
        if run is None:
            print(f"{name}: deleted before it had been seen to end", flush=True)
            self.ended[name] = None
        elif is_finished(run) and not slot_run(run, self.name).round_due:
            print(summary(run), flush=True)
            self.ended[name] = phase_of(run)
        elif phase_of(run) is RunPhase.PENDING and (why := run.get("status", {}).get("reason")) not in (
            None,
            *self.waits,
        ):
            print(summary(run), flush=True)
            self.waits.add(why)
        if name in self.ended:
            self.open.discard(name)


def slot_run(run: Obj, name: str) -> SlotRun:
    """A stored run, as the backfill of this name sees it."""
    spec, status = run["spec"], run.get("status", {})
    asked, taken_up = spec.get("round", 0), status.get("round", 0)
    ours = run["metadata"].get("labels", {}).get(BACKFILL_LABEL) == name
    return SlotRun(phase_of(run), asked, round_due=asked > taken_up and not spec.get("cancel"), ours=ours)


def _time(text: str, option: str) -> int:
    moment = parse_start(text)
    if isinstance(moment, Problem):
        raise RefusedError(str(moment.below(option)))
    return int(moment.timestamp())


def _checked(cluster: Cluster, name: str) -> CheckedDag:
    """The DAG; RefusedError where it has no schedule, or could run nothing."""
    dag = cluster.get(DAGS, name)
    where = f"DAG {cluster.namespace}/{name}"
    spec = read_dag(dag)
    checked = check_dag(spec, zone_of) if not isinstance(spec, list) else spec
    if isinstance(checked, list):
        raise RefusedError(*(f"{where}: {problem}" for problem in checked))
    if problem := unready(dag):
        raise RefusedError(f"{where} is not ready: {problem}")
    if not checked.schedule:
        raise RefusedError(f"{where} has no schedule, so there are no times to make up for; use `fencepost trigger`")
    return checked


def _slots(dag: CheckedDag, start_s: int, end_s: int) -> list[int]:
    """All slots from start to end, both included."""
    slots = list(_walk(dag, start_s, end_s))
    if not slots:
        raise RefusedError("the schedule has no time between --from and --to; `fencepost next --from T` shows some")
    if len(slots) > SLOTS_MAX:
        fact = f"there are more than {SLOTS_MAX} times between --from and --to"
        raise RefusedError(f"{fact}; take a part of them, such as up to {format_time(slots[-2])}")
    return slots


def _walk(dag: CheckedDag, start_s: int, end_s: int) -> Iterator[int]:
    slot_s = dag.schedule.next_slot(start_s - 1)
    for _ in range(SLOTS_MAX + 1):
        if slot_s is None or slot_s > end_s:
            return
        yield int(slot_s)
        slot_s = dag.schedule.next_slot(slot_s)


def _show(dag: str, steps: list[Step]) -> int:
    words = {Act.CREATE: "would be created", Act.FOLLOW: "is under way"}
    for step in steps:
        said = words.get(step.act) or (
            f"would be run again, round {step.round}" if step.act is Act.RERUN else f"would be left alone: {step.why}"
        )
        print(f"{scheduled_run_name(dag, step.slot_s)}  {format_time(step.slot_s)}  {said}")
    return EXIT_SUCCEEDED
