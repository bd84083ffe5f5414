"""What is wrong with a user's input, as a value.

Bad input never raises inside the core: whoever finds it returns a `Problem`, and the caller decides whether it becomes
a refusal at apply, a condition on an object or a line on a terminal.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Problem:
    """One fact about one place in a user's object, and what to do about it."""

    reason: str
    """PascalCase code, usable as a condition's reason, such as `InvalidCron`."""
    path: str
    """Where, as a field path such as `spec.schedule.cron[0]`; empty when only the caller knows it."""
    fact: str
    """What is wrong, quoting the offending part."""
    remedy: str
    """What to do."""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.fact}; {self.remedy}"

    def below(self, path: str) -> "Problem":
        """The same problem, seen from the object that holds `path`."""
        return replace(self, path=f"{path}.{self.path}" if self.path else path)
