"""A promise that was not kept."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """Which promise, when, and what happened."""

    promise: str
    at_s: float
    text: str

    def __str__(self) -> str:
        return f"{self.promise}, at {self.at_s:.3f} s: {self.text}"


class BrokenPromiseError(Exception):
    """Ends a simulation."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation
