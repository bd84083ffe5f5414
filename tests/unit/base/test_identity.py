"""Nonces."""

from fencepost.base.identity import nonce
from fencepost.core.names import worker_name


def test_a_nonce_fits_a_workers_name_and_two_differ() -> None:
    nonces = {nonce() for _ in range(100)}
    assert len(nonces) > 95
    assert all(worker_name("pod", each).removeprefix("pod-").isalnum() for each in nonces)
