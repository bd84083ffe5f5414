"""Which replica should lead which shard: every replica computes the same answer from the list of live members alone.

Each pair of a shard and a member has a score, a hash. The pairs are gone through from the highest score down, and a
pair is taken when its shard is still free and its member still has room. Room is an even share: with 16 shards and five
members everybody gets three, and whoever comes first gets the one that is over.

Plain rendezvous (each shard goes to its highest score) moves the fewest shards, but is uneven where shards are few: of
five members one in seven times somebody would get none of 16 shards. The even share costs a few moves more, on average
1.14 for each one that is unavoidable on the way from one member to five and back, never as many as two.

What it does not promise: that a change touches only the member that came or went. Now and then a shard moves between
two others because one of them has become too full or has room again. Nor does it know who leads what now; being told
to lead a shard is not leading it (`core.lease`).
"""

import hashlib
from collections.abc import Collection, Mapping


def eligible(clocks: Mapping[str, bool]) -> frozenset[str]:
    """The members that should lead, given of each whether its clock is right: those whose is; all where nobody's is.

    For a shard with a leader that fires nothing is better off than one with none: its runs go on.
    """
    return frozenset(member for member, right in clocks.items() if right) or frozenset(clocks)


def assign(shards: int, members: Collection[str]) -> dict[int, str]:
    """Shard -> the member that should lead it, for shards 0 to `shards` - 1; empty if there is no member.

    The order of `members` does not matter. Any two members' numbers of shards differ by one at most.
    """
    if not members:
        return {}
    share, over = divmod(shards, len(members))
    load = dict.fromkeys(members, 0)
    assigned: dict[int, str] = {}
    pairs = ((_score(shard, member), shard, member) for shard in range(shards) for member in load)
    for _, shard, member in sorted(pairs, reverse=True):
        if shard in assigned or load[member] > share or (load[member] == share and not over):
            continue
        over -= load[member] == share
        load[member] += 1
        assigned[shard] = member
    return assigned


def _score(shard: int, member: str) -> bytes:
    return hashlib.blake2b(f"{shard}/{member}".encode(), digest_size=8).digest()
