"""Many workers in one process, for the bench: each with its own identity, Worker and Lease.

    python -m tests.e2e.bench.workers --jobs inprocess --slots 32 KUBECONFIG…

`inprocess`: a job `sleep N` sleeps inside the worker, so that what is measured is Fencepost and not the cost of
starting processes. `process`: jobs are processes, as in production.
"""

import argparse
import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from fencepost.base.clock import SystemClock
from fencepost.base.identity import nonce
from fencepost.base.logs import configure_logging
from fencepost.kube.access import access_from_kubeconfig
from fencepost.kube.client import HttpApi
from fencepost.worker.job_log import JsonJobLog
from fencepost.worker.metrics import WorkerCounters
from fencepost.worker.process import ProcessRunner
from fencepost.worker.runner import Ending, Launch, Runner
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.worker import Worker


class SleepingJob:
    """A `sleep N` that is no process."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._signalled = asyncio.Event()

    async def wait(self) -> Ending:
        """Until it has slept, or was signalled."""
        try:
            await asyncio.wait_for(self._signalled.wait(), self._seconds)
        except TimeoutError:
            return Ending(0)
        return Ending(-signal.SIGTERM)

    def signal(self, number: int) -> bool:
        """End it."""
        self._signalled.set()
        return True


class SleepingRunner:
    """Takes `sleep N` and nothing else."""

    async def start(self, launch: Launch) -> SleepingJob:
        """The job, asleep already."""
        assert launch.command[0] == "sleep", f"the bench's in-process jobs are sleeps, not {launch.command}"
        return SleepingJob(float(launch.command[1]))


async def main(jobs: str, slots: int, kubeconfigs: list[Path]) -> None:
    """Run all workers until SIGTERM."""
    clock, metrics = SystemClock(), WorkerCounters(slots)
    workers: list[Worker] = []
    async with AsyncExitStack() as stack:
        for path in kubeconfigs:
            api = await stack.enter_async_context(HttpApi(access_from_kubeconfig(path), clock, component="worker"))
            pod = path.stem.removeprefix("worker-")
            settings = WorkerSettings(pod=pod, nonce=nonce(), slots=slots)
            runner: Runner = SleepingRunner()
            if jobs == "process":
                process_runner = ProcessRunner(settings.name, JsonJobLog(1, clock), os.environ)
                stack.callback(process_runner.close)
                runner = process_runner
            workers.append(Worker(api, clock, settings, runner, metrics))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, _hurry, workers)
        await asyncio.gather(*(worker.run() for worker in workers))


def _hurry(workers: list[Worker]) -> None:
    for worker in workers:
        worker.hurry()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", choices=("inprocess", "process"), required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("kubeconfigs", nargs="+", type=Path)
    args = parser.parse_args()
    configure_logging("text", "warning")
    sys.exit(asyncio.run(main(args.jobs, args.slots, args.kubeconfigs)))
