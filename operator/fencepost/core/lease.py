"""Who may act for a shard, and until when.

Picture a parking meter. You note the time when you reach for the coin, not when the ticket comes out, and you drive off
two minutes before the ticket ends: your own watch is the only one you trust, and you never claim a minute that the
warden might count otherwise. The warden does not believe your watch either. He looks at your car with his own, and only
when he has stood there a whole ticket long and has not seen you put in a coin does he have it towed; if he was called
away meanwhile, he starts to count again. Then the place is free for the next car.

The ticket is a replica's member Lease, and a coin is a renewal. One renewal keeps all shards that the replica leads,
whose own Leases are written only when they change hands. The driver's side is `TrustWindow`: a replica acts from the
moment *before* its last successful renewal was sent, for the Lease's duration less a margin. The warden's side is
`Contact` and `silent_at_s`: a member is dead when its Lease has not changed for its whole duration, by the clock of the
observer, who had contact to the API server all that time. Towing is deleting the dead member's Lease *at the version
that stood still*: it succeeds only if there was no renewal, and no renewal can succeed after it. Only then does anyone
take the dead member's shards, each with an epoch one higher than the last.

All moments here are seconds on the steady clock of whoever counts them. No moment that another machine wrote is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from fencepost.core.turns import Backlog

DURATION_S_MAX = 300
"""Of a Lease. A Lease that claims more was edited by hand."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long leadership lasts. A killed leader's shards are free after at most `duration_s` and a few round trips."""

    duration_s: int = 10
    """How long others look at a member Lease that does not change before they delete it. Whole seconds on the wire."""

    def __post_init__(self) -> None:
        if not 1 <= self.duration_s <= DURATION_S_MAX:
            raise ValueError(f"a lease of {self.duration_s} s is impossible: choose from 1 to {DURATION_S_MAX} s")

    @property
    def renewal_s(self) -> float:
        """From the start of one renewal to the start of the next; also how long its answer is waited for."""
        return 0.3 * self.duration_s

    @property
    def margin_s(self) -> float:
        """How much earlier we stop than others may begin: covers clocks that run at different speeds."""
        return 0.2 * self.duration_s

    @property
    def contact_gap_s(self) -> float:
        """The longest pause between two answers of the API server that still counts as contact.

        A member that was due to renew when the pause began, and could not either, has `margin_s` left to do so.
        """
        return self.duration_s - self.renewal_s - self.margin_s


@dataclass(frozen=True, slots=True)
class TrustWindow:
    """The time in which a member may act for the shards it leads.

    Can two owners act at once? No. Let A have led a shard, and B act for it now.

    1. B acts after it has taken the shard, and it took it when A's member Lease was gone, or A had let go by itself
       and stopped acting before.
    2. A's Lease was gone because somebody, C, deleted it at version v, having seen v unchanged for `duration_s`. C saw
       v after it was written, and A sent it before that. So the deletion came at least `duration_s` after A sent v.
    3. The deletion names v, so v was A's last renewal, and A's window closed `margin_s` before the deletion.

    This holds however long a request or an answer takes, and whoever is frozen in between. It needs clocks that differ
    in *speed* by less than margin/duration (a fifth), and nobody who deletes member Leases by hand. It says
    nothing about a write that was sent inside the window and arrives late: that one meets a compare-and-swap, and the
    epoch fence.
    """

    closes_s: float

    def holds(self, now_s: float) -> bool:
        """Whether the member may act now."""
        return now_s < self.closes_s


CLOSED = TrustWindow(float("-inf"))


def trust_window(sent_s: float, times: LeaseTimes) -> TrustWindow:
    """What a successful renewal buys; `sent_s` is a moment before it was sent."""
    return TrustWindow(sent_s + times.duration_s - times.margin_s)


@dataclass(frozen=True, slots=True)
class Contact:
    """For how long we ourselves have been in touch with the API server: without a gap since `since_s`.

    An answer to a write of ours counts, and nothing else: while we can write, so can the others. After an outage each
    member gets a full duration to renew, because everybody's silence is counted from its end.
    """

    since_s: float
    last_s: float

    def answered(self, now_s: float, times: LeaseTimes) -> "Contact":
        """An answer has come."""
        return Contact(self.since_s if self.holds(now_s, times) else now_s, now_s)

    def holds(self, now_s: float, times: LeaseTimes) -> bool:
        """Whether we may judge others now."""
        return now_s - self.last_s <= times.contact_gap_s


NO_CONTACT = Contact(float("-inf"), float("-inf"))


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A replica's member Lease: that it is there says that the member may still act, a new version that it lives."""

    version: str
    """resourceVersion."""
    duration_s: int
    """By which the member counts its own trust window, so others must not count less."""
    clock_right: bool = True
    """Whether the member trusts its own wall clock: it may fire what is scheduled."""
    waiting: Mapping[str, Backlog] = field(default_factory=dict)
    """By pool, the best of its jobs that waits for a slot."""


def silent_at_s(record: MemberRecord, seen_s: float, contact: Contact, times: LeaseTimes) -> float:
    """The moment at which the member's Lease may be deleted, if it still has this version and contact lasts.

    `seen_s` is when we first saw this version.
    """
    duration_s = max(times.duration_s, min(record.duration_s, DURATION_S_MAX))
    return max(seen_s, contact.since_s) + duration_s


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A shard's Lease."""

    holder: str
    """Identity of the member that leads the shard if its member Lease exists; empty if nobody does."""
    epoch: int | None
    """`leaseTransitions`: raised by one whenever the shard is taken. None: somebody removed it by hand."""


class Step(Enum):
    """What to do about a shard now."""

    KEEP = auto()
    """We lead it and should."""
    WAIT = auto()
    """Another leads it, or is about to."""
    MEND = auto()
    """We should lead it, and it has no Lease, or none that tells its epoch: store one that nobody holds, at an epoch
    no lower than any in the shard's runs."""
    ACQUIRE = auto()
    """We should lead it and nobody does, whoever its Lease names: write our name and the next epoch."""
    HAND_OVER = auto()
    """We lead it and another should: stop acting for it, then write that nobody leads it."""
    RELEASE = auto()
    """Its Lease names us though we do not lead it and should not (an answer was lost): write that nobody leads it."""
    LOSE = auto()
    """We thought we led it, and its Lease says otherwise: stop acting for it, write nothing."""


def next_step(record: ShardRecord | None, me: str, held_epoch: int | None, holder_exists: bool, mine: bool) -> Step:
    """The step for one shard, from its Lease as last seen.

    `held_epoch`: under which we lead it; None if we do not. `holder_exists`: a member Lease of the holder is there.
    `mine`: we should lead it, by the ring or because it is astray.
    """
    if held_epoch is not None:
        return _step_as_leader(record, me, held_epoch, mine)
    if record is None or record.epoch is None:
        return Step.MEND if mine else Step.WAIT
    if record.holder == me:
        return Step.ACQUIRE if mine else Step.RELEASE
    if record.holder and holder_exists:
        return Step.WAIT
    return Step.ACQUIRE if mine else Step.WAIT


def _step_as_leader(record: ShardRecord | None, me: str, held_epoch: int, mine: bool) -> Step:
    if record is None or record.epoch is None or (record.holder, record.epoch) != (me, held_epoch):
        return Step.LOSE
    return Step.KEEP if mine else Step.HAND_OVER


def is_led(record: ShardRecord | None, holder_exists: bool) -> bool:
    """Whether somebody leads the shard: a Lease names a member whose own Lease exists."""
    return record is not None and bool(record.holder) and holder_exists


def stray_at_s(unled_since_s: float, contact: Contact, times: LeaseTimes) -> float:
    """The moment at which anyone may take a shard that nobody leads: two durations in which its leader did not."""
    return max(unled_since_s, contact.since_s) + 2 * times.duration_s


def next_epoch(record: ShardRecord) -> int:
    """The epoch under which the shard is taken: one higher, even if we were its last holder ourselves."""
    assert record.epoch is not None, "a Lease without an epoch is mended first"
    return record.epoch + 1
