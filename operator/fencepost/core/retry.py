"""When a failed job may start again.

Exponential back-off with jitter. The jitter is hashed from the execution id and the attempt, never drawn: two replicas
that plan the same retry plan it for the same moment, and a test can say which.
"""

import hashlib

from fencepost.core.definition import RetryPolicy


def retry_delay_s(policy: RetryPolicy, failures: int, execution_id: str) -> float:
    """Seconds to wait after the `failures`-th failure (1 for the first); never above cap plus its jitter."""
    exponent = min(failures - 1, 64)
    plain = min(policy.cap_s, policy.base_s * policy.factor**exponent)
    return plain * (1 + policy.jitter * (2 * _share(execution_id, failures) - 1))


def _share(execution_id: str, failures: int) -> float:
    """A number in [0, 1), the same for the same attempt everywhere."""
    digest = hashlib.blake2b(f"{execution_id}#{failures}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
