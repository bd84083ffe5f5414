"""The demo's command line: see the package.

Exit code 0: every run succeeded. 1: one did not, or the demo could not be played. 130: somebody ended it.
"""

import argparse
import shlex
import shutil
import signal
import sys

from tests.e2e.controlplane import ControlPlaneError
from tests.e2e.controlplane.build import build
from tests.e2e.controlplane.locks import exclusive
from tests.e2e.demo.play import MANUAL_RUN, Play, PlayError
from tests.e2e.demo.screen import open_screen
from tests.e2e.demo.stage import Stage
from tests.e2e.support.install import InstallError

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
LOCK_LIMIT_S = 2.0
FAILURES = (ControlPlaneError, InstallError, PlayError, TimeoutError)


def main() -> int:
    """Play the demo, or take down what one has left."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.demo", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("play", "down"), default="play")
    what = parser.parse_args().what
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    stage = Stage()
    try:
        with exclusive(stage.lock, limit_s=LOCK_LIMIT_S):
            return _down(stage) if what == "down" else _play(stage)
    except FAILURES as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _down(stage: Stage) -> int:
    count = stage.take_down()
    print(f"the demo is down: {count} processes ended" if count else "the demo is not up: nothing to end")
    return 0


def _play(stage: Stage) -> int:
    _look_for_tools()
    build()
    screen = open_screen()
    play, raised = Play(stage, screen), False
    try:
        fencepost = play.raise_stage()
        raised = True
        ended = play.perform(fencepost)
    except BaseException as error:
        screen.close()
        if raised and not isinstance(error, KeyboardInterrupt):
            print("all that was started is still up: look at it, then `make demo-down`", file=sys.stderr)
        else:
            _end_all(stage)
        raise
    screen.close()
    print(_what_next(stage, ended.run))
    print(f"demo: {ended.succeeded} of {ended.count} runs succeeded", flush=True)
    return 0 if ended.succeeded == ended.count else EXIT_FAILED


def _what_next(stage: Stage, run: str) -> str:
    left = [name for name, member in stage.members.items() if member.process.running]
    return f"""
Up until `make demo-down`: the control plane, {", ".join(left)}.

  export KUBECONFIG={shlex.quote(str(stage.plane.kubeconfig))}
  kubectl get dags,dagruns
  kubectl describe dagrun {run}
  kubectl create -f {MANUAL_RUN}
  kubectl get workerpools
  kubectl get workers -n fencepost-system
  .venv/bin/fencepost shards
"""


def _look_for_tools() -> None:
    if sys.platform != "linux":
        raise PlayError(f"the demo starts a control plane out of processes, which needs Linux; this is {sys.platform}")
    if shutil.which("kubectl") is None:
        raise PlayError("there is no kubectl on PATH; install it, see https://kubernetes.io/docs/tasks/tools")


def _end_all(stage: Stage) -> None:
    """Also when somebody is impatient: what has been started must not stay."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    print("ending everything that was started…", file=sys.stderr, flush=True)
    stage.take_down()


if __name__ == "__main__":
    sys.exit(main())
