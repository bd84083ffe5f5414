"""`fencepost worker`: one worker whose jobs are processes, from start to exit code.

SIGTERM or SIGINT: drain. Another one: drain, but stop running jobs now. SIGKILL: the guardian kills the jobs.
"""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from fencepost.base.clock import Clock
from fencepost.kube.protocol import Api
from fencepost.worker.job_log import JsonJobLog
from fencepost.worker.metrics import WorkerMetrics
from fencepost.worker.process import ProcessRunner
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.worker import Worker

SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger(__name__)


class WorkerProcess:
    """This process as a worker. Jobs print to its standard output."""

    def __init__(
        self, settings: WorkerSettings, api: Api, clock: Clock, metrics: WorkerMetrics, scratch_root: Path | None = None
    ) -> None:
        """`scratch_root`: where the folders of jobs are made."""
        self._job_log = JsonJobLog(sys.stdout.fileno(), clock)
        self._runner = ProcessRunner(settings.name, self._job_log, os.environ, scratch_root=scratch_root)
        self._worker = Worker(api, clock, settings, self._runner, metrics)
        self.unready = self._worker.unready
        self.stuck = self._worker.stuck

    async def run(self) -> int:
        """Until asked to end, or lost; the exit code. RegistrationRefusedError if the cluster knows no such workers."""
        try:
            return await _run_until_signalled(self._worker)
        finally:
            self._runner.close()
            self._job_log.close()


async def _run_until_signalled(worker: Worker) -> int:
    loop = asyncio.get_running_loop()
    asked = False

    def on_signal() -> None:
        nonlocal asked
        if asked:
            worker.hurry()
        else:
            worker.drain()
        asked = True

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        return int(await worker.run())
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
