"""`fencepost rerun` and `fencepost mark`: a finished run goes on in another round, and a job ends by a person's word.

Each is one conditional write: it names the version of the run that was looked at, so whatever has changed meanwhile is
looked at first.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS
from fencepost.api.revisions import read_definition
from fencepost.api.rounds import rerun_part
from fencepost.api.times import format_time
from fencepost.base.clock import Clock
from fencepost.cli.cluster import Cluster, Obj, add_cluster_options, named
from fencepost.cli.errors import RefusedError
from fencepost.cli.jobs import job_named, sizes_of
from fencepost.cli.record import read_state
from fencepost.cli.waiting import EXIT_SUCCEEDED, PERIOD_S, exit_code, insist, is_finished, wait_for_end
from fencepost.core.definition import Definition
from fencepost.core.intervals import IntervalSet
from fencepost.core.phases import MARKS, JobPhase
from fencepost.core.run_spec import Rerun, RerunFrom

RERUN = """Run a finished run again, in another round of it: without options, or with --from-failed, the jobs that have
not succeeded. All others keep their ends and outputs.
Exit code 0: it has been asked for, or with --wait has Succeeded; 1: it Failed or was Cancelled; 2: refused."""
MARK = """Say of a job how it ended, whatever it did. One that runs is stopped first. In a finished run, what was
skipped below the job goes on, in another round. Exit code 0: it is marked; 2: refused."""


def add_rerun_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", help_: str) -> None:
    """Declare `rerun` and its options."""
    parser = subparsers.add_parser("rerun", help=help_, description=RERUN)
    parser.add_argument("run", metavar="RUN")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--from-failed", action="store_true", help="what has not succeeded (the default)")
    which.add_argument("--all", action="store_true", help="every job")
    which.add_argument("--task", metavar="TASK[/INDEX]", action="append", help="these; may be given several times")
    parser.add_argument("--downstream", action="store_true", help="and all that depends on it, though it succeeded")
    parser.add_argument("--wait", action="store_true", help="until the round has ended, and tell how it goes on")
    add_cluster_options(parser)


def add_mark_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", help_: str) -> None:
    """Declare `mark` and its options."""
    parser = subparsers.add_parser("mark", help=help_, description=MARK)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("job", metavar="TASK[/INDEX]", help="without an index: all jobs of the task")
    parser.add_argument("phase", choices=[str(phase) for phase in MARKS])
    add_cluster_options(parser)


async def rerun(args: argparse.Namespace, cluster: Cluster, clock: Clock) -> int:
    """Raise `spec.round`; RefusedError for a run under way, or one in which nothing is to be run again."""
    run = cluster.get(DAG_RUNS, args.run)
    where = f"DAGRun {cluster.namespace}/{args.run}"
    if not is_finished(run):
        raise RefusedError(f"{where} is still under way; wait until it has ended, or cancel it")
    number = _next_round(run, where)
    what = _chosen(args, run, cluster, where)
    cluster.patch(DAG_RUNS, args.run, _change(run, {**_round(run, number), "rerun": rerun_part(what, number)}))
    print(f"{named(DAG_RUNS, args.run)} is run again, in round {number}", flush=True)
    if not args.wait:
        return EXIT_SUCCEEDED
    await _begun(cluster, clock, args.run, number)
    return exit_code(await wait_for_end(cluster, clock, args.run))


async def mark(args: argparse.Namespace, cluster: Cluster, clock: Clock) -> int:
    """Write an override; RefusedError for a job that the run does not have."""
    run = cluster.get(DAG_RUNS, args.run)
    where = f"DAGRun {cluster.namespace}/{args.run}"
    task, index = job_named(args.job, _sizes(run, cluster))
    spec: dict[str, Any] = {}
    number = run["spec"].get("round", 0)
    if is_finished(run):
        number = _next_round(run, where)
        spec = {**_round(run, number), "rerun": rerun_part(Rerun(RerunFrom.JOBS), number)}
    over = {job: None for job, old in run["spec"].get("overrides", {}).items() if old.get("round", 0) < number}
    override = {"phase": args.phase, "by": cluster.user_name(), "at": format_time(clock.now_s()), "round": number}
    key = task if index is None else f"{task}/{index}"
    cluster.patch(DAG_RUNS, args.run, _change(run, {**spec, "overrides": {**over, key: override}}))
    print(f"job {key} of {named(DAG_RUNS, args.run)} is marked {args.phase}")
    return EXIT_SUCCEEDED


def _change(run: Obj, spec: Mapping[str, Any]) -> Obj:
    return {"metadata": {"resourceVersion": run["metadata"]["resourceVersion"]}, "spec": spec}


def _next_round(run: Obj, where: str) -> int:
    asked: int = run["spec"].get("round", 0)
    if run["status"]["round"] < asked and not run["spec"].get("cancel"):
        raise RefusedError(f"{where}: round {asked} has been asked for and has not begun yet; wait until it has ended")
    return asked + 1


def _round(run: Obj, number: int) -> dict[str, Any]:
    return {"round": number, **({"cancel": False} if run["spec"].get("cancel") else {})}


def _chosen(args: argparse.Namespace, run: Obj, cluster: Cluster, where: str) -> Rerun:
    if args.task:
        sizes = _sizes(run, cluster)
        jobs: dict[str, IntervalSet | None] = {}
        for text in args.task:
            task, index = job_named(text, sizes)
            one = None if index is None else IntervalSet.of([index])
            before = jobs.get(task, IntervalSet())
            jobs[task] = None if one is None or before is None else before.union(one)
        return Rerun(RerunFrom.JOBS, jobs, args.downstream)
    if args.all:
        return Rerun(RerunFrom.ALL)
    ended = [task.ended for task in read_state(run).tasks.values()]
    if ended and all(phases.keys() <= {JobPhase.SUCCEEDED} for phases in ended):
        raise RefusedError(f"{where}: every job of it has succeeded; say --all, or name a --task")
    return Rerun(RerunFrom.FAILED, downstream=args.downstream)


def _sizes(run: Obj, cluster: Cluster) -> dict[str, int | None]:
    """How many jobs each task of a run has; nothing where its definition is not to be had."""
    revision = run["spec"].get("revision")
    stored = cluster.find(CONTROLLER_REVISIONS, revision) if revision else None
    definition = read_definition(stored.get("data")) if stored is not None else None
    return sizes_of(definition.tasks, read_state(run)) if isinstance(definition, Definition) else {}


async def _begun(cluster: Cluster, clock: Clock, name: str, number: int) -> None:
    """Wait until the operator has taken the round up."""
    while (await insist(clock, lambda: cluster.get(DAG_RUNS, name)))["status"]["round"] < number:
        await clock.sleep(PERIOD_S)
