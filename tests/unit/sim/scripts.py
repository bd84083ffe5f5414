"""What a job is told to do, in its command, and what comes of one attempt.

All of it follows from the attempt alone, so that it is the same however the cluster around it fares, and so that a
checker can say beforehand how an attempt ends and what it puts out. What is put out differs from token to token: who
takes the word of the wrong attempt shows.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LIST_LENGTH_MAX: Final = 6
JUNK_SHARE: Final = 0.05
"""Of lists: what is put out then is none."""


def draw(*of: object) -> float:
    """A number from 0 to 1 that follows from these things, always the same."""
    digest = hashlib.blake2b("/".join(map(str, of)).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48


def job_command(
    seconds: float,
    failing: float,
    *,
    stubborn: bool = False,
    codes: Sequence[int] = (),
    puts: str = "",
    says: Sequence[str] = (),
) -> list[str]:
    """Takes so long, fails with this share of its attempts.

    `stubborn`: it does not mind SIGTERM. `codes`: it fails with one of these. `puts`: what it puts out, `word` or
    `list`. `says`: references, whose values the checkers want to see.
    """
    options = [
        *(["stubborn"] if stubborn else []),
        *([f"codes={','.join(map(str, codes))}"] if codes else []),
        *([f"puts={puts}"] if puts else []),
        *(f"{name}=$({name})" for name in says),
    ]
    return ["job", f"{seconds:g}", f"{failing:g}", *options]


@dataclass(frozen=True, slots=True)
class Script:
    """A command as a job reads it."""

    seconds: float
    failing: float
    options: tuple[str, ...]

    @classmethod
    def of(cls, command: Sequence[str]) -> "Script":
        _, seconds, failing, *options = command
        return cls(float(seconds), float(failing), tuple(options))

    @property
    def stubborn(self) -> bool:
        return "stubborn" in self.options

    def value(self, name: str) -> str:
        """What stands for this name; empty where it is not there."""
        found = [option[len(name) + 1 :] for option in self.options if option.startswith(f"{name}=")]
        return found[0] if found else ""

    def exit_code(self, run: str, job: object, attempt: int) -> int:
        if draw(run, job, attempt) >= self.failing:
            return 0
        codes = [int(code) for code in self.value("codes").split(",") if code] or [1]
        return codes[int(draw(run, job, attempt, "code") * len(codes))]

    def output(self, execution: str, token: int) -> str:
        """What a job puts out that ends well under this token."""
        return put_out(self.value("puts"), execution, token)


def put_out(puts: str, execution: str, token: int) -> str:
    """What a job of such a kind puts out: `yes` or `no`, or a list of items that nobody else puts out."""
    chance = draw(execution, token, "output")
    match puts:
        case "word":
            return "yes" if chance < 0.6 else "no"
        case "list":
            if chance < JUNK_SHARE:
                return "there is nothing to do"
            length = int(draw(execution, token, "length") * (LIST_LENGTH_MAX + 1))
            return json.dumps([f"{token}-{index}" for index in range(length)])
        case _:
            return ""
