"""Standard output as it is found: of any encoding, and with a reader who may leave at any time."""

import contextlib
import os
import sys
from typing import TextIO


def accept_any_text() -> None:
    """Write what the streams' encodings do not know as question marks, instead of failing on it."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def discard(stream: TextIO) -> None:
    """Send what is still written to a stream without a reader nowhere, or the interpreter complains at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
