"""The demo, act by act.

1. Raise the stage. 2. Apply a pool and two DAGs, and make a run of one. 3. While its fan-out is at work, kill the
replica that leads the run's shard, and a worker that runs its jobs. 4. Watch another replica take over, the worker
fenced, and its jobs leased again. 5. Wait until every run has ended; say what to type next.
"""

import contextlib
import http.client
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from fencepost.core.names import SHARDS_DEFAULT, DagKey, JobKey, shard_of
from fencepost.core.phases import RunPhase
from tests.e2e.controlplane.binaries import KUBERNETES
from tests.e2e.controlplane.paths import REPOSITORY
from tests.e2e.demo.output import JobOutput
from tests.e2e.demo.picture import Cluster, Picture, Run, Shard, without_nonce
from tests.e2e.demo.screen import Screen
from tests.e2e.demo.stage import OPERATORS, SLOTS, WORKERS, Stage
from tests.e2e.demo.story import Story, job_names
from tests.e2e.support.install import Fencepost

Value = TypeVar("Value")

EXAMPLES = "charts/fencepost/examples"
POOL, MANUAL, SCHEDULED = (f"{EXAMPLES}/{name}.yaml" for name in ("demo-pool", "demo-orders", "every-minute"))
MANUAL_RUN = f"{EXAMPLES}/runs/demo-orders.yaml"
MANUAL_DAG = DagKey("default", "orders")
SCHEDULED_DAG = "every-minute"
FAN_OUT = "pack"
LOOK_S = 0.25
ACT_LIMIT_S = 90.0
"""Of each act; the longest takes half of that."""
AT_WORK_S = 2.5
"""How long jobs of the fan-out have been leased before somebody is killed: their workers have started them by then."""


class PlayError(RuntimeError):
    """The demo cannot be played here, or did not go as it should."""


@dataclass(frozen=True)
class Victims:
    """Who is killed, and what they held then."""

    operator: str
    shard: int
    epoch: int
    worker: str
    run: Run
    leases: Mapping[JobKey, int]
    """The worker's jobs and their tokens."""

    @property
    def jobs(self) -> str:
        """For people."""
        return job_names(self.run, list(self.leases))

    @property
    def tokens(self) -> str:
        """For people."""
        return _tokens(self.leases.values())

    def successor(self, picture: Picture) -> Shard | None:
        """The shard under another leader."""
        shard = picture.shards.get(self.shard)
        return shard if shard is not None and shard.replica != self.operator else None

    def worker_is_fenced(self, picture: Picture) -> bool | None:
        """A fenced Worker goes once its mailbox is empty."""
        worker = picture.workers.get(self.worker)
        return True if worker is None or worker.fenced else None

    def run_with_new_leases(self, picture: Picture) -> Run | None:
        """The run, once each of the lost jobs is leased under a higher token, or has ended under one."""
        run = picture.runs[self.run.name]
        leases = run.state.leases
        lost = [job for job, token in self.leases.items() if job in leases and leases[job].token <= token]
        waiting = [job for job in self.leases if job in run.state.waiting]
        return run if not lost and not waiting else None

    def end_of_run(self, picture: Picture) -> Picture | None:
        """The picture in which the run has ended."""
        return picture if picture.runs[self.run.name].state.phase.finished else None


@dataclass(frozen=True)
class Ended:
    """How the demo went."""

    run: str
    """The one that was made by hand."""
    succeeded: int
    count: int
    """Of all runs."""


class Play:
    """One performance."""

    def __init__(self, stage: Stage, screen: Screen) -> None:
        self._stage = stage
        self._screen = screen
        self._story = Story()
        self._dead: set[str] = set()

    def raise_stage(self) -> Fencepost:
        """Start everything. Raises ControlPlaneError, InstallError, TimeoutError; what runs by then is left running."""
        stage, screen = self._stage, self._screen
        if stage.folder.exists():
            with screen.step("ending what an earlier demo has left"):
                stage.take_down()
        with screen.step("starting etcd, kube-apiserver and kube-controller-manager"):
            stage.start_plane()
        screen.say(f"Kubernetes {KUBERNETES.version} is up: a control plane without nodes")
        with screen.step("installing Fencepost's kinds, rights and policies"):
            fencepost = stage.install()
        screen.say("Fencepost's kinds, rights and policies are installed and in force")
        with screen.step(f"starting {len(OPERATORS)} operator replicas and {len(WORKERS)} workers"):
            stage.start_members(fencepost)
        screen.say(f"{', '.join(OPERATORS)} are ready; {', '.join(WORKERS)} have {SLOTS} slots each")
        return fencepost

    def perform(self, fencepost: Fencepost) -> Ended:
        """Play it to its end. Raises PlayError, InstallError."""
        self._cluster = Cluster(self._stage.plane.kubeconfig)
        self._output = JobOutput(self._stage.members[pod].log for pod in WORKERS)
        self._until("both replicas lead shards", _shared)
        for file in (POOL, MANUAL, SCHEDULED):
            self._kubectl(fencepost, "apply", file)
        due = datetime.now(UTC).replace(second=0, microsecond=0).astimezone() + timedelta(minutes=1)
        self._screen.say(f"DAG {SCHEDULED_DAG} runs every minute: first at {due:%H:%M:%S}, by itself", loud=True)
        self._kubectl(fencepost, "create", MANUAL_RUN)
        victims = self._until(f"task {FAN_OUT} is at work", _victims)
        self._kill(victims)
        self._recover(victims)
        picture = self._until(f"run {victims.run.name} has ended", victims.end_of_run)
        if not any(run.dag == SCHEDULED_DAG for run in picture.runs.values()):
            self._screen.say(f"still to come: DAG {SCHEDULED_DAG} at {due:%H:%M:%S}")
        runs = self._until("every run has ended", _all_ended)
        self._output.close()
        return Ended(victims.run.name, sum(run.state.phase is RunPhase.SUCCEEDED for run in runs), len(runs))

    def _kubectl(self, fencepost: Fencepost, verb: str, file: str) -> None:
        """Carry out a command that the user could type just so, in the repository's folder."""
        self._screen.command(f"kubectl {verb} -f {file}")
        fencepost.kubectl(verb, f"--filename={REPOSITORY / file}")

    def _kill(self, victims: Victims) -> None:
        for name in (victims.operator, victims.worker):
            self._stage.members[name].process.kill()
        self._killed_s = time.monotonic()
        self._dead |= {victims.operator, victims.worker}
        say = self._screen.say
        say(
            f"kill -9 {victims.operator}: it led shard {victims.shard}, that of DAG {MANUAL_DAG.name}, "
            f"at epoch {victims.epoch}",
            loud=True,
        )
        say(f"kill -9 {victims.worker}: it was running {victims.jobs} under {victims.tokens}", loud=True)

    def _recover(self, victims: Victims) -> None:
        """Each thing that must happen now, with the seconds since the kill."""

        def say(line: str) -> None:
            self._screen.say(f"after {time.monotonic() - self._killed_s:.1f} s {line}", loud=True)

        shard = self._until(f"shard {victims.shard} is led again", victims.successor)
        say(f"{shard.replica} leads shard {victims.shard} at epoch {shard.epoch} and goes on with it")
        self._until(f"{victims.worker} is fenced", victims.worker_is_fenced)
        say(f"{victims.worker} is fenced: its results would be refused")
        run = self._until(f"{victims.jobs} are leased again", victims.run_with_new_leases)
        tokens = [run.state.leases[job].token for job in victims.leases if job in run.state.leases]
        if tokens:
            say(f"{victims.jobs} run elsewhere: {_tokens(tokens)} instead of {victims.tokens}")

    def _until(self, what: str, condition: Callable[[Picture], Value | None]) -> Value:
        """Tell and show what happens until the condition has a value. PlayError after a limit."""
        deadline_s = time.monotonic() + ACT_LIMIT_S
        while time.monotonic() < deadline_s:
            with contextlib.suppress(OSError, http.client.HTTPException):  # the server is busy: ask again
                picture = self._cluster.picture()
                self._tell(picture)
                value = condition(picture)
                if value is not None:
                    return value
            time.sleep(LOOK_S)
        raise PlayError(f"{what}: still not so after {ACT_LIMIT_S:.0f} s; the logs are in {self._stage.folder}")

    def _tell(self, picture: Picture) -> None:
        for line in self._story.leased(picture.runs):
            self._screen.say(line)
        for run_name, job, text in self._output.fresh():
            run = picture.runs.get(run_name)
            self._screen.quote(f"{run_name}: {run.label(job) if run else job} | {text}")
        for line in self._story.ended(picture.runs):
            self._screen.say(line)
        self._screen.show(picture, OPERATORS, self._dead)


def _shared(picture: Picture) -> bool | None:
    """Whether the replicas have shared the shards out."""
    counts = [picture.shards_of(name) for name in OPERATORS]
    return True if sum(counts) == SHARDS_DEFAULT and all(counts) else None


def _victims(picture: Picture) -> Victims | None:
    """Once the fan-out has been at work for a moment: the leader of its run, and the worker with most of its jobs."""
    number = shard_of(MANUAL_DAG, SHARDS_DEFAULT)
    shard = picture.shards.get(number)
    for run in picture.runs.values():
        leases = {job: lease for job, lease in run.state.leases.items() if job.task == FAN_OUT}
        if leases and shard and time.time() - max(each.leased_at_s for each in leases.values()) >= AT_WORK_S:
            held = Counter(lease.worker for lease in leases.values())
            worker = max(held, key=lambda name: held[name])
            lost = {job: lease.token for job, lease in leases.items() if lease.worker == worker}
            return Victims(shard.replica, number, shard.epoch, without_nonce(worker), run, lost)
    return None


def _all_ended(picture: Picture) -> list[Run] | None:
    """All runs, once each has ended and both DAGs have had one."""
    runs = list(picture.runs.values())
    both = {run.dag for run in runs} >= {MANUAL_DAG.name, SCHEDULED_DAG}
    return runs if both and all(run.state.phase.finished for run in runs) else None


def _tokens(tokens: Iterable[int]) -> str:
    return f"token {' and '.join(map(str, sorted(set(tokens))))}"
