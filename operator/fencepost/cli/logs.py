"""`fencepost logs RUN TASK`: what a job has printed.

Workers print the output of their jobs as JSON, one object a line, so the log of a worker's pod is the job's log too. It
is read through the API server, with the caller's own right to `pods/log`; no worker listens for it. Of a job that runs,
its lease tells the worker. For one that has ended nothing does, so the pods of all live workers of its pool are asked.
Where no log has it any more (the pod is gone, or there are no pods here), what is left is the end of the output that
the dead letter of a failed job keeps, or its run. Which of these it is goes to standard error.

Following asks for what is new once in a while: lines are told apart from those shown before by their own times, of
which the log holds each in the order in which they were printed.
"""

import argparse
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import orjson

from fencepost.api.names import DEAD_LETTERS, POOL_LABEL, RUN_LABEL, SYSTEM_NAMESPACE_DEFAULT, WORKERS
from fencepost.api.times import format_time, parse_time
from fencepost.base.clock import Clock
from fencepost.cli.cluster import Cluster, ClusterError, add_cluster_options
from fencepost.cli.errors import RefusedError
from fencepost.cli.jobs import job_named, size_text, sizes_of
from fencepost.cli.record import RunRecord, read_run
from fencepost.cli.streams import accept_any_text
from fencepost.cli.waiting import EXIT_SUCCEEDED
from fencepost.core.names import NONCE_LENGTH, JobKey
from fencepost.core.phases import JobPhase

DESCRIPTION = """Print what a job has printed: from its worker's log while that is there, else the end that is stored of
failed jobs. Exit code 0: something was there to print; 2: refused, or nothing is left."""
FOLLOW_PERIOD_S = 1.0
SINCE_SLACK_S = 5.0
"""Before a lease or a start, as clocks differ."""
PODS_ASKED_MAX = 100
LAST_WORDS_S = 3.0
"""How long a job that has ended is followed on, as its last lines may still be on their way."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a job."""

    time_s: float
    """Unix seconds, by the worker's clock."""
    text: str


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", help_: str) -> None:
    """Declare the command and its options."""
    parser = subparsers.add_parser("logs", help=help_, description=DESCRIPTION)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("job", metavar="TASK[/INDEX]", help="of a fan-out with its index")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended")
    parser.add_argument(
        "--system-namespace", default=SYSTEM_NAMESPACE_DEFAULT, metavar="NAME", help="of the workers [%(default)s]"
    )
    add_cluster_options(parser)


async def run(args: argparse.Namespace, cluster: Cluster, clock: Clock) -> int:
    """Print what there is, and with --follow what comes until the job has ended."""
    accept_any_text()
    reader = Reader(cluster, args.system_namespace, args.run)
    record = _record(cluster, args.run)
    job = _job(record, args.job)
    last_look = False
    while True:
        reader.print_news(record, job)
        if last_look or not args.follow:
            break
        last_look = _over(record, job)
        await clock.sleep(LAST_WORDS_S if last_look else FOLLOW_PERIOD_S)
        record = _record(cluster, args.run)
    return EXIT_SUCCEEDED if reader.shown else _print_tail(cluster, record, job, reader.why_not)


class Reader:
    """The logs of the pods that may have run one job, and how much of each has been printed."""

    def __init__(self, cluster: Cluster, system_namespace: str, run: str) -> None:
        self.shown = 0
        self.why_not = "no worker of its pool is alive"
        """Why there is nothing, as far as somebody has said so."""
        self._cluster = cluster
        self._system_namespace = system_namespace
        self._run = run
        self._tails: dict[str, Tail] = {}

    def print_news(self, record: RunRecord, job: JobKey) -> None:
        """Print the lines that have come since the last time."""
        for pod in self._pods(record, job):
            tail = self._tails.setdefault(pod, Tail(_since_s(record, job)))
            try:
                raw = list(self._cluster.pod_log(self._system_namespace, pod, format_time(tail.since_s)))
            except ClusterError as error:
                self.why_not = str(error)
                continue
            self.why_not = "no log of a worker has a line of it"
            lines = tail.news(_lines_of(raw, self._cluster.namespace, self._run, job))
            if lines and not tail.announced:
                tail.announced = True
                print(f"from the log of pod {self._system_namespace}/{pod}", file=sys.stderr, flush=True)
            for line in lines:
                print(line.text, flush=True)
            self.shown += len(lines)

    def _pods(self, record: RunRecord, job: JobKey) -> list[str]:
        """Those whose logs may hold something new: the one that has the lease, or else all of the pool."""
        lease = record.state.leases.get(job)
        if lease is not None:
            return list(dict.fromkeys((*self._tails, pod_of(lease.worker))))
        if not _has_run(record, job):
            return []
        selector = f"{POOL_LABEL}={record.definition.pool}"
        workers = self._cluster.list(WORKERS, selector, self._system_namespace)
        pods = sorted({pod_of(worker["metadata"]["name"]) for worker in workers})
        return list(dict.fromkeys((*self._tails, *pods[:PODS_ASKED_MAX])))


@dataclass(slots=True)
class Tail:
    """What has been printed of one pod's log, which only grows. It is asked for from a moment on that moves along."""

    since_s: float
    announced: bool = False
    printed: list[float] = field(default_factory=list)
    """The times of lines printed so far that are no older than `since_s`."""

    def news(self, lines: Iterable[Line]) -> list[Line]:
        """The lines that have not been printed yet; they count as printed now."""
        recent = [line for line in lines if line.time_s >= self.since_s]
        new = recent[len(self.printed) :]
        if new:
            self.since_s = max(self.since_s, math.floor(new[-1].time_s))
            self.printed = [line.time_s for line in recent if line.time_s >= self.since_s]
        return new


def pod_of(worker: str) -> str:
    """The pod that a worker's name begins with."""
    return worker[: -NONCE_LENGTH - 1]


def _lines_of(raw: Iterable[bytes], namespace: str, run: str, job: JobKey) -> Iterator[Line]:
    """The lines of this job among all that a worker has printed, in order."""
    wanted = {"namespace": namespace, "run": run, "task": job.task, "index": job.index}
    needle = orjson.dumps(run)
    for text in raw:
        if needle not in text:
            continue
        try:
            entry = orjson.loads(text)
            if all(entry.get(name) == value for name, value in wanted.items()):
                yield Line(parse_time(entry["time"]), entry["line"])
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # whatever else a pod prints


def _letter(cluster: Cluster, record: RunRecord, job: JobKey) -> str:
    """The end of the output that the job's dead letter keeps; empty where there is none."""
    meta = record.object["metadata"]
    for letter in cluster.list(DEAD_LETTERS, f"{RUN_LABEL}={meta['name']}"):
        dead = letter["spec"]["job"]
        if (dead["runUID"], dead["task"], dead.get("index", 0)) == (meta["uid"], job.task, job.index):
            return str(dead.get("message", ""))
    return ""


def _record(cluster: Cluster, name: str) -> RunRecord:
    record = read_run(cluster, name)
    if not isinstance(record, RunRecord):
        raise RefusedError(f"DAGRun {cluster.namespace}/{name} has not begun; `fencepost explain {name}` tells why")
    return record


def _job(record: RunRecord, text: str) -> JobKey:
    """The job that `TASK` or `TASK/INDEX` names; RefusedError where there is none, or there are several."""
    sizes = sizes_of(record.definition.tasks, record.state)
    task, index = job_named(text, sizes)
    size = sizes[task]
    if index is None and size is not None and size != 1:
        raise RefusedError(f"{text!r}: {size_text(task, size)}")
    return JobKey(task, index or 0)


def _phase(record: RunRecord, job: JobKey) -> JobPhase | None:
    """How it ended; None while it has not."""
    task = record.state.tasks.get(job.task)
    return None if task is None else task.phase_of(job.index)


def _over(record: RunRecord, job: JobKey) -> bool:
    return record.state.phase.finished or _phase(record, job) is not None


def _has_run(record: RunRecord, job: JobKey) -> bool:
    return job in record.state.waiting or _phase(record, job) not in (None, JobPhase.SKIPPED)


def _since_s(record: RunRecord, job: JobKey) -> float:
    """From when on a log may hold something of this job."""
    lease, task = record.state.leases.get(job), record.state.tasks.get(job.task)
    started_s = task.first_start_s if task is not None else None
    return (started_s or (lease.leased_at_s if lease else 0.0) or record.state.start_s or 0.0) - SINCE_SLACK_S


def _print_tail(cluster: Cluster, record: RunRecord, job: JobKey, why_not: str) -> int:
    """What is kept of a job that failed: in its dead letter, or in the run."""
    letter = _letter(cluster, record, job)
    kept, where = letter, "dead letter" if letter else "run"
    if not letter and job in record.state.failures:
        kept = record.state.failures[job]
    if kept:
        print(f"{why_not}; what follows is the end that its {where} keeps", file=sys.stderr)
        print(kept)
        return EXIT_SUCCEEDED
    phase = _phase(record, job)
    if job in record.state.leases or phase is not None:
        fact = "runs" if phase is None else f"has ended as {phase}"
        remedy = f"look into your store of logs for task {job.task!r}, index {job.index}"
        raise RefusedError(f"job {job} {fact}, and nothing that it printed is to be had: {why_not}; {remedy}")
    raise RefusedError(f"job {job} has not been started; `fencepost explain` tells why, and -f waits for it")
