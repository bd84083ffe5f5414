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


async def run_worker(
    settings: WorkerSettings, api: Api, clock: Clock, metrics: WorkerMetrics, *, scratch_root: Path | None = None
) -> int:
    """Run until asked to end, or lost; the exit code of the process. Jobs print to its standard output.

    `scratch_root`: where folders of jobs are made. RegistrationRefusedError if the cluster does not know such workers.
    """
    job_log = JsonJobLog(sys.stdout.fileno(), clock)
    runner = ProcessRunner(settings.name, job_log, os.environ, scratch_root=scratch_root)
    worker = Worker(api, clock, settings, runner, metrics)
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
        runner.close()
        job_log.close()
