"""Waits that grow while an API server does not answer, a little different for each worker.

After an outage a thousand workers would otherwise come back in step.
"""

import hashlib


class Backoff:
    """Doubling waits between `first_s` and `most_s`, shortened by up to a half for this worker."""

    def __init__(self, worker: str, first_s: float, most_s: float) -> None:
        digest = hashlib.blake2b(worker.encode(), digest_size=2).digest()
        self._share = 0.5 + int.from_bytes(digest, "big") / 0x1FFFE
        self._first_s = first_s
        self._most_s = most_s
        self._next_s = first_s

    def next_s(self) -> float:
        """How long to wait before the next try."""
        delay_s = self._next_s * self._share
        self._next_s = min(self._next_s * 2, self._most_s)
        return delay_s

    def reset(self) -> None:
        """The server has answered."""
        self._next_s = self._first_s
