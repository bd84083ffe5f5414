"""What goes wrong with requests: the active troubles, and machines that die at one certain write.

Every machine has its own source of chance, so that what happens to one does not move what happens to another.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from fencepost.api.names import LEASES
from fencepost.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ConnectionLostError,
    GoneError,
    OverloadedError,
    ServerError,
)
from fencepost.memory.faults import Request
from tests.unit.sim.network import WRITES, Fate
from tests.unit.sim.plan import Step
from tests.unit.sim.virtual import Machine

SLOW_S_MAX: Final = 25.0


@dataclass
class Trouble:
    """One step that makes requests go wrong for a while."""

    step: Step
    machines: Callable[[Machine], bool]
    rng: Random
    hits: int = 0


@dataclass
class Trap:
    """A machine dies at its next write, other than a renewal of a Lease: before it is sent, or when it is stored."""

    machine: Machine
    before: bool
    skip: int
    """So many writes pass first."""
    sprung: Callable[[], None]


@dataclass
class Troubles:
    """The judge of all requests."""

    latency_s: float
    coverage: "Counter[str]"
    active: list[Trouble] = field(default_factory=list)
    traps: list[Trap] = field(default_factory=list)
    gone: set[Machine] = field(default_factory=set)
    """Whose next watch is answered with 410."""
    _chances: dict[str, Random] = field(default_factory=dict)

    def sent(self, machine: Machine, request: Request) -> None:
        self._spring(machine, request, before=True)

    def arrived(self, machine: Machine, request: Request, error: ApiError | None) -> None:
        if error is not None:
            self.coverage[f"answer {_name_of(error)} to {request.verb} {request.kind.kind}"] += 1
        elif request.verb in WRITES:
            self._spring(machine, request, before=False)

    def fate(self, machine: Machine, request: Request) -> Fate:
        chance = self._chances.get(machine.name)
        if chance is None:
            chance = self._chances[machine.name] = Random(machine.name)
        there_s, back_s = (self.latency_s * (0.5 + chance.random()) for _ in range(2))
        if machine in self.gone and request.verb == "watch":
            self.gone.discard(machine)
            return Fate(there_s, back_s, GoneError("too old resource version", reason="Expired"), carried_out=False)
        for trouble in self.active:
            if trouble.machines(machine) and trouble.rng.random() < trouble.step.rate:
                trouble.hits += 1
                self.coverage[f"request {trouble.step.kind}"] += 1
                return _spoiled(trouble, request, there_s, back_s)
        return Fate(there_s, back_s)

    def _spring(self, machine: Machine, request: Request, before: bool) -> None:
        if not self.traps or request.verb not in WRITES or request.kind is LEASES:
            return
        for trap in self.traps:
            if trap.machine is machine and trap.before is before:
                trap.skip -= 1
                if trap.skip < 0:
                    self.traps.remove(trap)
                    self.coverage[f"died {'before' if before else 'after'} {request.verb} {request.kind.kind}"] += 1
                    trap.sprung()
                return


def _name_of(error: ApiError) -> str:
    return f"{error.status} {type(error).__name__.removesuffix('Error')}"


def _spoiled(trouble: Trouble, request: Request, there_s: float, back_s: float) -> Fate:
    what = f"{request.verb} {request.kind} {request.name}"
    match trouble.step.kind:
        case "lost_after":
            return Fate(there_s, back_s, ConnectionLostError(f"{what}: reset"))
        case "lost_before":
            return Fate(there_s, back_s, ConnectionLostError(f"{what}: reset"), carried_out=False)
        case "error_500":
            return Fate(there_s, back_s, ServerError(f"{what}: internal error"), carried_out=False)
        case "error_500_after":
            return Fate(there_s, back_s, ServerError(f"{what}: etcd took too long"))
        case "error_503":
            return Fate(there_s, back_s, ServerError(f"{what}: unavailable", status=503), carried_out=False)
        case "busy_429":
            return Fate(there_s, back_s, OverloadedError(f"{what}: too many requests"), carried_out=False)
        case "conflict_409":
            return Fate(there_s, back_s, _conflict(request, what), carried_out=False)
        case "slow":
            return Fate(there_s + trouble.rng.uniform(0.0, SLOW_S_MAX) ** 2 / SLOW_S_MAX, back_s)
        case "slow_back":
            return Fate(there_s, back_s + trouble.rng.uniform(0.0, SLOW_S_MAX) ** 2 / SLOW_S_MAX)
    raise AssertionError(f"{trouble.step} does nothing to requests")


def _conflict(request: Request, what: str) -> ApiError:
    """An answer that says that somebody was faster, though nobody was: it must cost a read and nothing else."""
    match request.verb:
        case "create":
            return AlreadyExistsError(f"{what}: exists", reason="AlreadyExists")
        case "update" | "delete":
            return ConflictError(f"{what}: has changed", reason="Conflict")
        case _:
            return OverloadedError(f"{what}: too many requests")
