"""What a checker is."""

from collections.abc import Iterator
from typing import ClassVar

from fencepost.api.names import Kind
from tests.unit.sim.cluster import Job
from tests.unit.sim.history import Written
from tests.unit.sim.scene import Scene


class Checker:
    """One promise."""

    promise: ClassVar[str]
    """A few words; what a shrunken plan must still break."""
    kinds: ClassVar[tuple[Kind, ...]] = ()
    """Of whose writes it wants to be told."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def see(self, written: Written) -> Iterator[str]:
        """A write that has just been stored."""
        yield from ()

    def job_started(self, job: Job) -> Iterator[str]:
        """A job was started since the last look."""
        yield from ()

    def look(self) -> Iterator[str]:
        """Once a second."""
        yield from ()

    def end(self) -> Iterator[str]:
        """Everything has ended."""
        yield from ()
