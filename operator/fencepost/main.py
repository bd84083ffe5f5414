"""The composition root: the only place that builds clocks, clients and loops.

An operator replica is two clients on one API server (the Leases have their own, so that a renewal never waits behind
bulk work), leadership over shards, the scheduler that plans for them, kopf for the pools, and an HTTP server for probes
and metrics. A worker is one client and one Worker.
"""

import argparse
import asyncio
import cProfile
import gc
import logging
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.api.names import SYSTEM_NAMESPACE_DEFAULT
from fencepost.base.clock import SystemClock
from fencepost.base.identity import nonce
from fencepost.base.logs import configure_logging
from fencepost.base.metrics import Metrics
from fencepost.base.probes import Probes
from fencepost.core.lease import LeaseTimes
from fencepost.core.names import SHARDS_DEFAULT
from fencepost.kube.access import Access, AccessError, access_default, access_from_kubeconfig
from fencepost.kube.client import HttpApi
from fencepost.loops.clock_check import ClockCheck
from fencepost.loops.history import AGE_MIN_S, TOTAL_MAX
from fencepost.loops.leadership import Leadership
from fencepost.loops.lease_store import ShardCountError
from fencepost.loops.pools import follow_pools
from fencepost.loops.scheduler import Scheduler
from fencepost.loops.webhook import Webhook
from fencepost.worker.entry import WorkerProcess
from fencepost.worker.metrics import WorkerCounters
from fencepost.worker.settings import WorkerSettings

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

log = logging.getLogger(__name__)

EXIT_FAILED = 1
EXIT_REFUSED = 2
OPERATOR_PORT = 8080
WORKER_PORT = 8081
WEBHOOK_PORT = 9443
WINDOW_S = 0.05
WORKER_SLOTS = 4
DRAIN_TIMEOUT_S = 300.0
COLLECTOR_THRESHOLDS = (10_000, 20, 20)
"""Python would look for cycles after every 700 new objects, once or twice for each API request, and find next to none,
as nearly everything is freed by its reference count: a tenth of the CPU that a job costs."""
NO_CLOCK_RIGHT = (
    "no other replica's is right either, so NOTHING SCHEDULED FIRES: it may be the API server's own clock that is wrong"
)


def add_operator_parser(subparsers: "Subparsers") -> None:
    """Declare `fencepost operator`; each option can be given by an environment variable as well."""
    parser = subparsers.add_parser("operator", help="one replica of the operator")
    _add_common(parser, OPERATOR_PORT)
    _add(parser, "--replica", socket.gethostname(), "name of this replica, in a pod its name")
    _add(parser, "--shards", SHARDS_DEFAULT, "number of shards, the same for all replicas for ever")
    _add(parser, "--lease-duration", LeaseTimes().duration_s, "seconds after which a silent replica is replaced")
    _add(parser, "--window", WINDOW_S, "seconds that a write waits for company when the API server is quick")
    _add(parser, "--profile", "", "file to write a profile of this process into at its end; slows it down by a third")
    _add(parser, "--webhook-cert", "", "PEM file with the webhook's certificate; empty: no webhook")
    _add(parser, "--webhook-key", "", "PEM file with its key")
    _add(parser, "--webhook-port", WEBHOOK_PORT, "port of the webhook; 0: any free one")
    _add(parser, "--history-age", AGE_MIN_S, "seconds that every run is kept at least")
    _add(parser, "--history-total", TOTAL_MAX, "finished runs that are kept over all DAGs")


def add_worker_parser(subparsers: "Subparsers") -> None:
    """Declare `fencepost worker`; each option can be given by an environment variable as well."""
    parser = subparsers.add_parser("worker", help="one worker of a pool")
    _add_common(parser, WORKER_PORT)
    _add(parser, "--pod", socket.gethostname(), "name of the pod that it runs in, to which its token is bound")
    _add(parser, "--pool", "default", "the WorkerPool that it belongs to")
    _add(parser, "--slots", WORKER_SLOTS, "jobs at a time")
    _add(parser, "--drain-timeout", DRAIN_TIMEOUT_S, "seconds that running jobs get at the end")
    _add(parser, "--scratch", "", "folder for the working directories of jobs")


def run_operator(args: argparse.Namespace) -> int:
    """`fencepost operator`: until SIGTERM; the exit code."""
    return _run(args, _operate)


def run_worker(args: argparse.Namespace) -> int:
    """`fencepost worker`: until SIGTERM or until it is lost; the exit code."""
    return _run(args, _work)


def _add_common(parser: argparse.ArgumentParser, port: int) -> None:
    _add(parser, "--kubeconfig", "", "file to reach the API server with; default: as kubectl, or as the pod does")
    _add(parser, "--namespace", SYSTEM_NAMESPACE_DEFAULT, "where Leases and Workers live")
    _add(parser, "--http-host", "", "address for probes and metrics; empty: all")
    _add(parser, "--http-port", port, "port for /livez, /readyz and /metrics; 0: any free one")
    _add(parser, "--log-format", "auto", "json, text, or auto: text on a terminal")
    _add(parser, "--log-level", "info", "debug, info, warning or error")


def _add(parser: argparse.ArgumentParser, flag: str, default: str | int | float, text: str) -> None:
    """One option; its variable is FENCEPOST_ and its name, its type that of its default."""
    variable = "FENCEPOST_" + flag.lstrip("-").replace("-", "_").upper()
    parser.add_argument(
        flag, type=type(default), default=os.environ.get(variable, default), help=f"{text} [{default}; {variable}]"
    )


def _run(args: argparse.Namespace, work: Callable[[argparse.Namespace, Access], Coroutine[None, None, int]]) -> int:
    try:
        configure_logging(args.log_format, args.log_level)
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
        access = access_from_kubeconfig(Path(args.kubeconfig)) if args.kubeconfig else access_default()
        return asyncio.run(_profiled(work(args, access), getattr(args, "profile", "")))
    except (AccessError, ShardCountError, ValueError) as error:
        log.error("%s", error)
        return EXIT_REFUSED


async def _profiled(work: Coroutine[None, None, int], file: str) -> int:
    if not file:
        return await work
    profile = cProfile.Profile()
    profile.enable()
    try:
        return await work
    finally:
        profile.disable()
        profile.dump_stats(file)


async def _operate(args: argparse.Namespace, access: Access) -> int:
    clock, metrics = SystemClock(), Metrics()
    check = ClockCheck(clock, metrics)
    observer, on_date = metrics.api_request, check.note
    async with (
        HttpApi(access, clock, component="operator", observer=observer, on_date=on_date) as api,
        HttpApi(access, clock, component="operator-leases", observer=observer, on_date=on_date) as lease_api,
    ):
        replica = Replica(args, api, lease_api, clock, check, metrics)
        probes = Probes(
            args.http_host, args.http_port, alive=replica.stuck, ready=replica.unready, metrics=metrics.text
        )
        async with probes, _webhook(args, clock, metrics):
            return await replica.run(access)


def _webhook(args: argparse.Namespace, clock: SystemClock, metrics: Metrics) -> AbstractAsyncContextManager[object]:
    """The webhook, if a certificate is there for it."""
    if not args.webhook_cert:
        return nullcontext()
    certificate, key = Path(args.webhook_cert), Path(args.webhook_key)
    return Webhook(args.http_host, args.webhook_port, certificate, key, clock, metrics)


class Replica:
    """One operator replica, wired."""

    def __init__(
        self,
        args: argparse.Namespace,
        api: HttpApi,
        lease_api: HttpApi,
        clock: SystemClock,
        clock_check: ClockCheck,
        metrics: Metrics,
    ) -> None:
        self._clock = clock
        self._clock_check = clock_check
        self._stop = asyncio.Event()
        self._kopf_ready = asyncio.Event()
        self.scheduler = Scheduler(
            api,
            clock,
            clock_check,
            metrics,
            system_namespace=args.namespace,
            shards=args.shards,
            window_s=args.window,
            holds=lambda shard: self.leadership.holds(shard),
            rivals=lambda pool: self.leadership.rivals(pool),
            on_critical=lambda: self.leadership.hurry(),
            history_age_min_s=args.history_age,
            history_total=args.history_total,
        )
        self.leadership = Leadership(
            lease_api,
            clock,
            namespace=args.namespace,
            replica=args.replica,
            shards=args.shards,
            times=LeaseTimes(duration_s=args.lease_duration),
            nonce=nonce,
            progress=lambda: not self.stuck(),
            clock_right=lambda: not clock_check.wrong,
            on_acquired=self.scheduler.acquired,
            on_released=self.scheduler.released,
            waiting=self.scheduler.backlogs,
        )

    def stuck(self) -> str:
        """Which loop has made no progress for too long; empty when all have."""
        return self.scheduler.stuck()

    def unready(self) -> str:
        """What is missing before this replica can plan, or why it should not; empty when nothing is."""
        if problem := self._clock_check.problem():
            return problem if self.leadership.clock_right_somewhere else f"{problem}; {NO_CLOCK_RIGHT}"
        if not self.scheduler.filled.is_set():
            return "the caches are not filled yet"
        return "" if self._kopf_ready.is_set() else "the pools are not known yet"

    async def run(self, access: Access) -> int:
        """Until SIGTERM or SIGINT; then hand everything over and end. EXIT_FAILED if a part of it ended by itself."""
        scheduler, stop = self.scheduler, self._stop
        pools = asyncio.create_task(
            follow_pools(access, self._clock, scheduler.pool_changed, scheduler.pool_gone, self._kopf_ready, stop)
        )
        work = [asyncio.create_task(scheduler.run()), asyncio.create_task(self._lead())]
        stopping = asyncio.create_task(stop.wait())
        parts: list[asyncio.Task[Any]] = [stopping, pools, *work]
        await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        ended_alone = [pools, *work] if not stop.is_set() else work  # once stop is set, pools end as they are told
        failed = [task for task in ended_alone if task.done()]
        log.info("stopping")
        stop.set()
        await self.leadership.step_down()
        await scheduler.close()
        for task in work:
            task.cancel()
        await asyncio.gather(*work, pools, return_exceptions=True)
        for task in failed:
            task.result()
        return EXIT_FAILED if failed else 0

    async def _lead(self) -> None:
        """Lead once the caches are filled: a replica that cannot plan yet should not take shards from one that can."""
        await self.scheduler.filled.wait()
        await self.leadership.run()


async def _work(args: argparse.Namespace, access: Access) -> int:
    clock, metrics = SystemClock(), WorkerCounters(args.slots)
    settings = WorkerSettings(
        pod=args.pod,
        nonce=nonce(),
        pool=args.pool,
        slots=args.slots,
        namespace=args.namespace,
        drain_timeout_s=args.drain_timeout,
    )
    scratch = Path(args.scratch) if args.scratch else None
    async with HttpApi(access, clock, component="worker", observer=metrics.api_request) as api:
        process = WorkerProcess(settings, api, clock, metrics, scratch)
        probes = Probes(
            args.http_host, args.http_port, alive=process.stuck, ready=process.unready, metrics=metrics.text
        )
        async with probes:
            return await process.run()
