"""Faults in who gets a slot of a pool."""

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from fencepost.core.plan_workers import MailboxPlan, plan_mailbox
from fencepost.loops import mailboxes, reserves
from tests.unit.sim.mutation import Mutation


def nothing_is_kept() -> AbstractContextManager[object]:
    return mock.patch.object(reserves.Reserves, "kept", return_value=0)


def kept_by_the_cache_alone() -> AbstractContextManager[object]:
    """Grants go by what is kept, and the write of a mailbox does not look again."""

    def forgetful(*wishes: Any, critical: frozenset[str], **_: Any) -> MailboxPlan:
        return plan_mailbox(*wishes, critical=critical)

    return mock.patch.object(mailboxes, "plan_mailbox", forgetful)


def nobody_marks_workers() -> AbstractContextManager[object]:
    return mock.patch.object(reserves, "plan_marks", return_value={})


KEPT = "a slot that is kept"

POOL_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("a slot that is kept goes to whoever comes", nothing_is_kept, (KEPT,)),
    Mutation("the reserve is kept by the cache alone", kept_by_the_cache_alone, (KEPT,), seeds_max=40),
    Mutation("nobody marks the workers", nobody_marks_workers, (KEPT, "everything ends")),
)
