"""How often workers renew their Leases: every ten seconds, and more slowly the more of them there are.

All workers together stay under `RENEWALS_PER_S_MAX`, whatever their number. The interval rises as soon as it has to and
falls only when there is room to spare, as each change costs one write for each worker. A worker's Lease lasts
`RENEWALS_PER_LEASE` intervals, so where there are many workers, a lost one is missed later.
"""

RENEWALS_PER_S_MAX = 200.0
RENEWALS_PER_LEASE = 3
INTERVAL_STEP_S = 10
"""The shortest interval, and the step in which it grows."""
SLACK = 1.25
"""How many more workers than there are must fit into a shorter interval before it is taken."""


def renewal_interval_s(workers: int, present_s: int) -> int:
    """The interval for so many workers, where `present_s` is the one that they have now."""
    needed_s = _shortest_s(workers)
    if needed_s > present_s:
        return needed_s
    return min(present_s, _shortest_s(int(workers * SLACK)))


def _shortest_s(workers: int) -> int:
    return INTERVAL_STEP_S * (int(workers / (RENEWALS_PER_S_MAX * INTERVAL_STEP_S)) + 1)
