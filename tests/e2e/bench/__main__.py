"""The bench's command line: see the package."""

import argparse
import asyncio
import json
import shutil
import sys

from fencepost.api.names import Kind
from fencepost.base.clock import SystemClock
from fencepost.kube.access import access_from_kubeconfig
from fencepost.kube.client import HttpApi
from fencepost.kube.protocol import Api
from tests.e2e.bench.herd import herd
from tests.e2e.bench.load import NAMESPACE
from tests.e2e.bench.meter import Meter, calm
from tests.e2e.bench.shapes import SHAPES, Options, Stage
from tests.e2e.controlplane import ControlPlane
from tests.e2e.controlplane.paths import REPOSITORY
from tests.e2e.controlplane.spawn import spawn
from tests.e2e.controlplane.waiting import eventually
from tests.e2e.support.fleet import Fleet, fleet
from tests.e2e.support.install import install

FOLDER = REPOSITORY / ".cache" / "bench"
POOL = {"apiVersion": "fencepost.dev/v1alpha1", "kind": "WorkerPool", "metadata": {"name": "default"}}
HISTORY_AGE_S = 5.0
JOB_S = {"single": 1.0, "scheduled": 1.0, "chain": 0.1, "fan": 1.0, "wide": 1.0, "idle": 0.0, "cold": 0.0}
WORKERS = {
    "single": (16, 32),
    "scheduled": (16, 32),
    "chain": (16, 32),
    "fan": (20, 10),
    "wide": (20, 32),
    "idle": (2, 10),
    "cold": (1, 1),
}
"""Workers and slots of each."""
BARE_WRITERS, BARE_PUTS = 4, 150
CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps", namespaced=True)
HERD = "herd"
"""The one shape that is played on the API server in memory."""
OPERATORS = {"idle": 2, "cold": 0}


def main() -> int:
    """Play the shapes asked for, each on a control plane that is made for it and fsyncs."""
    args = _arguments()
    for shape in args.shape.split(","):
        line = asyncio.run(herd(args.dags)) if shape == HERD else _play(shape, args)
        print(json.dumps(line), flush=True)
        if line.get("failed_runs"):
            return 1
    return 0


def _play(shape: str, args: argparse.Namespace) -> dict[str, object]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    options = Options(args.rate, args.duration, args.job if args.job is not None else JOB_S[shape], args.dags)
    with ControlPlane(FOLDER / "plane", fsync=True) as plane:
        fencepost = install(plane.kubeconfig, FOLDER / "identities")
        pool = POOL | {"spec": {"maxSharePerDAG": "100%"}}
        fencepost.kubectl("apply", "--filename=-", stdin=json.dumps(pool))
        (FOLDER / "logs").mkdir()
        with fleet(fencepost, FOLDER / "logs") as members:
            replicas = OPERATORS.get(shape, args.replicas) if args.replicas == 1 else args.replicas
            extra = {"history-age": HISTORY_AGE_S, "log-level": "warning", "profile": args.profile}
            operators = [members.operator(f"operator-{number}", **extra) for number in range(replicas)]
            workers = _start_workers(members, shape, args.jobs)
            pids = {"operator": [one.process.pid for one in operators], "worker": [workers]}
            return asyncio.run(_perform(shape, plane, members, Meter(plane, pids), options))


def _start_workers(members: Fleet, shape: str, jobs: str) -> int:
    count, slots = WORKERS[shape]
    pods = [f"bench-{number}" for number in range(count)]
    kubeconfigs = [str(members.fencepost.worker_kubeconfig(pod)) for pod in pods]
    command = [sys.executable, "-m", "tests.e2e.bench.workers", f"--jobs={jobs}", f"--slots={slots}", *kubeconfigs]
    process = spawn(command, FOLDER / "logs" / "workers.log", outlives_us=False)
    eventually("the workers have registered", lambda: len(members.objects("workers", "-A")) == count, limit_s=60)
    return process.pid


async def _perform(
    shape: str, plane: ControlPlane, members: Fleet, meter: Meter, options: Options
) -> dict[str, object]:
    clock = SystemClock()
    async with HttpApi(access_from_kubeconfig(plane.kubeconfig), clock, component="bench", connections_max=64) as api:
        await calm(meter, clock)
        operators = [member for name, member in members.members.items() if name.startswith("operator")]
        bare_put_ms = await _bare_put_ms(api, meter)
        line = await SHAPES[shape](Stage(api, clock, members, meter, operators, options))
        return {**line, "bare_put_ms": bare_put_ms}


async def _bare_put_ms(api: Api, meter: Meter) -> float:
    """What one PUT of a ConfigMap costs the API server here: the yardstick for all other figures."""
    before = meter.read()

    async def put(name: str) -> None:
        meta = {"namespace": NAMESPACE, "name": name}
        stored = await api.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        for number in range(BARE_PUTS):
            stored = await api.replace(CONFIG_MAPS, {**stored, "data": {"text": f"{number:0700}"}})

    await asyncio.gather(*(put(f"bare-{writer}") for writer in range(BARE_WRITERS)))
    spent_ms = meter.read().since(before).cpu_ms["apiserver"]
    return round(spent_ms / BARE_PUTS / BARE_WRITERS, 2)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.bench", description=__doc__)
    parser.add_argument(
        "--shape", default="single,chain,fan,idle", help=f"of {', '.join((*SHAPES, HERD))}; several with commas"
    )
    parser.add_argument("--rate", type=float, default=60.0, help="jobs a second")
    parser.add_argument("--duration", type=float, default=30.0, help="seconds of load")
    parser.add_argument("--jobs", choices=("inprocess", "process"), default="inprocess")
    parser.add_argument("--job", type=float, default=None, help="seconds that a job sleeps")
    parser.add_argument("--replicas", type=int, default=1, help="operator replicas")
    parser.add_argument("--dags", type=int, default=10_000, help="of the shapes cold and herd")
    parser.add_argument("--profile", default="", help="a file for a profile of the operator")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
