"""The cluster that stays: what `up`, `down` and `status` do.

Standard output carries nothing but `export KUBECONFIG=…`, so that a shell can evaluate it; all else goes to
standard error. The cluster writes to disk in earnest (fsync), since a benchmark may be pointed at it.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from tests.e2e.controlplane.binaries import KUBERNETES
from tests.e2e.controlplane.build import build, say
from tests.e2e.controlplane.components import Component
from tests.e2e.controlplane.environment import VARIABLE, cluster_from_environment
from tests.e2e.controlplane.locks import exclusive
from tests.e2e.controlplane.paths import cache_folder
from tests.e2e.controlplane.plane import ControlPlane

COMMAND_LIMIT_S = 300.0


def standing_cluster() -> ControlPlane:
    """The cluster that `up` starts, whether it runs or not; also how a benchmark reads its pids."""
    return ControlPlane(cache_folder() / "cluster", fsync=True, outlives_us=True)


def up(fresh: bool) -> None:
    """Start the cluster unless it is up; `fresh` throws away its data first, and stops it for that."""
    foreign = cluster_from_environment()
    if foreign is not None:
        say(f"using the cluster {foreign.server} ({foreign.version()}) of {VARIABLE}; nothing was started")
        return print_export(foreign.kubeconfig)
    build()
    plane = standing_cluster()
    with exclusive(cache_folder() / "up.lock", limit_s=COMMAND_LIMIT_S):  # two at once: the second finds it up
        if not fresh and plane.ready:
            say(f"the control plane is already up: {plane.server}")
        else:
            _start(plane, fresh)
    print_export(plane.kubeconfig)


def _start(plane: ControlPlane, fresh: bool) -> None:
    if plane.pids:
        say("stopping what runs of it…")
        plane.stop()
    if fresh:
        plane.wipe()
    began = time.monotonic()
    plane.start()
    taken = time.monotonic() - began
    say(f"control plane {KUBERNETES.version} is up after {taken:.1f} s: {plane.server}, files in {plane.state_dir}")


def down() -> None:
    """Stop the cluster that `up` started; its data stays."""
    plane = standing_cluster()
    if not plane.pids:
        say("the control plane isn't up: nothing to stop")
        return
    plane.stop()
    say(f"the control plane is down; its data stays in {plane.state_dir} (`up --fresh` starts without it)")


def status() -> bool:
    """Print a line for each component; True if all of it is ready."""
    foreign = cluster_from_environment()
    if foreign is not None:
        print(f"{foreign.server} ({foreign.version()}), named by {VARIABLE}")
        return True
    plane = standing_cluster()
    pids = plane.pids
    for component in Component:
        pid = pids.get(component)
        state = "down" if pid is None else f"pid {pid}" + (", paused" if plane.paused(component) else "")
        print(f"{component:<24} {state}")
    ready = plane.ready
    print(f"{'control plane':<24} {'ready at ' + plane.server if ready else 'not ready'}")
    return ready


def print_export(kubeconfig: Path) -> None:
    print(f"export KUBECONFIG={shlex.quote(str(kubeconfig))}", flush=True)
