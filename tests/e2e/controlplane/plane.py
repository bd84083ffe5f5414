"""A real Kubernetes control plane on loopback: etcd, kube-apiserver and kube-controller-manager.

The trick: everything about it is in files under its state folder (ports, certificates, a pid file for each
component), so an object of this class is only a view. A test starts one and it dies with the test's process;
`up` starts one that stays, and `down`, a benchmark or a drill in another process takes hold of it by naming
the same folder.

Not promised: a node, a scheduler, DNS. A Pod here is an object that nothing runs.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.e2e.controlplane import certificates, kubeconfig
from tests.e2e.controlplane.build import binary_path
from tests.e2e.controlplane.certificates import Pki
from tests.e2e.controlplane.components import CONTROLLERS, Component, Options, flags
from tests.e2e.controlplane.errors import ComponentFailed, ControlPlaneError, PortInUse
from tests.e2e.controlplane.locks import exclusive
from tests.e2e.controlplane.paths import Layout
from tests.e2e.controlplane.ports import LOOPBACK, Ports, choose_ports, is_free
from tests.e2e.controlplane.processes import Process, reap
from tests.e2e.controlplane.readiness import TAKEN_PORT, Readiness, log_tail
from tests.e2e.controlplane.spawn import spawn
from tests.e2e.controlplane.waiting import eventually

READY_LIMIT_S = 60.0
READY_POLL_S = 0.05
STOP_GRACE_S = 10.0
LOCK_LIMIT_S = 120.0
PAUSE_LIMIT_S = 10.0
PORT_ATTEMPTS_MAX = 5


class ControlPlane:
    """One control plane, whose data and files are in `state_dir` and stay there after `stop()`.

    - `fsync` off is faster and fair for functional tests; a benchmark wants it on.
    - `controllers` are those that the controller manager runs; `extra_flags` are added to a component's own.
    - `port` and `etcd_port` are for those who need a fixed number; left out, free ones are chosen, the same as
      the last time where possible.
    - With `outlives_us` the components stay when this process ends, however it ends; else they die with it.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        fsync: bool = False,
        controllers: tuple[str, ...] = CONTROLLERS,
        extra_flags: Mapping[Component, Sequence[str]] | None = None,
        port: int | None = None,
        etcd_port: int | None = None,
        outlives_us: bool = False,
        ready_limit_s: float = READY_LIMIT_S,
    ) -> None:
        self._layout = Layout(Path(state_dir).resolve())
        self._pki = Pki(self._layout.pki)
        self._options = Options(fsync, controllers, extra_flags or {})
        self._asked = {"apiserver": port, "etcd": etcd_port}
        self._outlives_us = outlives_us
        self._ready_limit_s = ready_limit_s
        self._log_starts: dict[Component, int] = {}

    # What it is

    @property
    def state_dir(self) -> Path:
        return self._layout.root

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig (group system:masters)."""
        return self._layout.kubeconfig

    @property
    def server(self) -> str:
        """The API server's URL; it stays the same until the next `start()`."""
        return f"https://{LOOPBACK}:{self._ports().apiserver}"

    @property
    def ca_path(self) -> Path:
        return self._pki.certificate(certificates.AUTHORITY)

    @property
    def admin_certificate(self) -> tuple[Path, Path]:
        """The administrator's certificate and key, for clients that take files."""
        return self._pki.certificate(certificates.ADMIN), self._pki.key(certificates.ADMIN)

    @property
    def pids(self) -> dict[Component, int]:
        """The pids of the components that run now (a paused one does)."""
        found = {component: self._process(component) for component in Component}
        return {name: process.pid for name, process in found.items() if process is not None and process.running}

    @property
    def running(self) -> bool:
        """True if every component runs; whether it is ready is `ready`."""
        return len(self.pids) == len(Component)

    @property
    def ready(self) -> bool:
        """True if every component runs and says that it is ready, asked now."""
        if not self.running:
            return False
        readiness = Readiness(self._pki, self._ports())
        return all(readiness.of(component) for component in Component)

    def log(self, component: Component) -> Path:
        return self._layout.log(component)

    def paused(self, component: Component) -> bool:
        process = self._process(component)
        return process is not None and process.paused

    def kubeconfig_for_token(self, path: Path, token: str, user: str) -> Path:
        """Write a kubeconfig for this control plane that shows a bearer token and nothing else."""
        return kubeconfig.kubeconfig_for_token(self.kubeconfig, path, token, user)

    # All of it

    def __enter__(self) -> ControlPlane:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and return once it is ready; what fails leaves nothing running.

        Raises BuildFailed (not built yet), PortInUse (a port asked for by number), ComponentFailed (with the
        last log lines), ControlPlaneError (it runs already).
        """
        for component in Component:
            binary_path(component)
        with exclusive(self._layout.lock, limit_s=LOCK_LIMIT_S):
            self._refuse_if_running()
            self._layout.create()
            self._pki.ensure()
            try:
                self._start_on_free_ports()
            except BaseException:  # Ctrl-C too: nothing may stay behind
                self._end_all()
                raise

    def stop(self) -> None:
        """End every component, the API server before its etcd, and wait until they are gone."""
        with exclusive(self._layout.lock, limit_s=LOCK_LIMIT_S):
            self._end_all()

    def wipe(self) -> None:
        """Forget all data and certificates of a stopped control plane."""
        with exclusive(self._layout.lock, limit_s=LOCK_LIMIT_S):
            self._refuse_if_running()
            self._layout.wipe()

    # One component, for drills

    def start_component(self, component: Component) -> None:
        """Start one that was killed or stopped, on the same port, and wait until it is ready."""
        if component in self.pids:
            raise ControlPlaneError(f"{component} runs already (pid {self.pids[component]}): stop or kill it first")
        self._wait_ready(component, self._launch(component), Readiness(self._pki, self._ports()))

    def stop_component(self, component: Component) -> None:
        """SIGTERM, then SIGKILL after a grace period; returns once it is gone."""
        self._end(component)

    def restart_apiserver(self) -> None:
        """Stop the API server in good order and start it again; its data is etcd's and stays."""
        self.stop_component(Component.APISERVER)
        self.start_component(Component.APISERVER)

    def kill(self, component: Component) -> None:
        """SIGKILL, as a crash would; returns once it is gone."""
        self._end(component, grace_s=None)

    def pause(self, component: Component) -> None:
        """SIGSTOP: it keeps its connections and answers nothing; returns once every thread of it has stopped."""
        process = self._running_process(component)
        process.send(signal.SIGSTOP)
        eventually(f"{component} is paused", lambda: process.paused, limit_s=PAUSE_LIMIT_S)

    def resume(self, component: Component) -> None:
        """SIGCONT after `pause`."""
        self._running_process(component).send(signal.SIGCONT)

    # Inside

    def _start_on_free_ports(self) -> None:
        """A probed port can be taken before the component binds it; then everything starts on others."""
        for attempt in range(1, PORT_ATTEMPTS_MAX + 1):
            self._refuse_if_asked_ports_are_taken()
            choose_ports(Ports.load(self._layout.ports), self._asked).save(self._layout.ports)
            self._write_kubeconfigs()
            try:
                self._start_in_order()
                return
            except ComponentFailed as failure:
                if TAKEN_PORT not in str(failure) or attempt == PORT_ATTEMPTS_MAX:
                    raise
                self._end_all()

    def _start_in_order(self) -> None:
        readiness = Readiness(self._pki, self._ports())
        for component in Component:
            self._wait_ready(component, self._launch(component), readiness)

    def _launch(self, component: Component) -> Process:
        log = self._layout.log(component)
        self._log_starts[component] = log.stat().st_size if log.exists() else 0
        command = [str(binary_path(component)), *flags(component, self._layout, self._ports(), self._options)]
        process = spawn(command, log, outlives_us=self._outlives_us)
        process.save(self._layout.pid_file(component))
        return process

    def _wait_ready(self, component: Component, process: Process, readiness: Readiness) -> None:
        deadline = time.monotonic() + self._ready_limit_s
        while not readiness.of(component):
            if process.wait(READY_POLL_S):
                raise ComponentFailed(f"{component} ended by itself{_exit(process)}; {self._quote(component)}")
            if time.monotonic() > deadline:
                raise ComponentFailed(
                    f"{component} was not ready within {self._ready_limit_s:.0f} s; {self._quote(component)}"
                )

    def _end_all(self) -> None:
        for process in filter(None, map(self._process, Component)):
            process.send(signal.SIGCONT)  # the API server waits for its etcd, which may be paused
        for component in reversed(Component):
            self._end(component)

    def _end(self, component: Component, grace_s: float | None = STOP_GRACE_S) -> None:
        process = self._process(component)
        if process is None:
            return
        gone = process.kill() if grace_s is None else process.end(grace_s)
        if not gone:
            raise ControlPlaneError(f"{component} (pid {process.pid}) survives SIGKILL: look at it by `ps -p`")
        reap(process.pid)
        self._layout.pid_file(component).unlink(missing_ok=True)

    def _process(self, component: Component) -> Process | None:
        return Process.load(self._layout.pid_file(component))

    def _running_process(self, component: Component) -> Process:
        process = self._process(component)
        if process is None or not process.running:
            raise ControlPlaneError(f"{component} of {self.state_dir} isn't running: start it first")
        return process

    def _ports(self) -> Ports:
        ports = Ports.load(self._layout.ports)
        if ports is None:
            raise ControlPlaneError(f"the control plane in {self.state_dir} was never started: call start() first")
        return ports

    def _write_kubeconfigs(self) -> None:
        for path, identity in (
            (self._layout.kubeconfig, certificates.ADMIN),
            (self._layout.controller_manager_kubeconfig, certificates.CONTROLLER_MANAGER),
        ):
            kubeconfig.with_certificate(
                path, self.server, self.ca_path, identity, self._pki.certificate(identity), self._pki.key(identity)
            )

    def _refuse_if_running(self) -> None:
        if self.pids:
            named = ", ".join(f"{name} as pid {pid}" for name, pid in self.pids.items())
            raise ControlPlaneError(f"the control plane in {self.state_dir} runs already ({named}): stop it first")

    def _refuse_if_asked_ports_are_taken(self) -> None:
        for name, port in self._asked.items():
            if port is not None and not is_free(port):
                raise PortInUse(
                    f"port {port} of {LOOPBACK}, asked for by number for {name}, is in use by another process: "
                    f"end that (`ss -ltnp 'sport = {port}'` names it), or ask for no number and get a free one"
                )

    def _quote(self, component: Component) -> str:
        log = self._layout.log(component)
        return f"the last lines of {log}:\n{log_tail(log, self._log_starts.get(component, 0))}"


def _exit(process: Process) -> str:
    code = reap(process.pid)
    return "" if code is None else f" with code {code}"
