"""Leaders whose line fails, in the middle of their leases: whatever of theirs arrives late is refused, and counted."""

import signal
import time

from fencepost.api import names as wire
from tests.e2e.drills.ground import LIMIT_S, REPLICAS, SHARDS, Ground
from tests.e2e.support.lines import Line
from tests.e2e.support.stage import Recorder

SPEECH_S = 1.5
"""How long a leader goes on writing into a line that nothing leaves: some of its writes are runs then."""
DELAY_S = 0.25
RESETS = 5


def late_writes(ground: Ground, line: Line, since_s: float, epochs: dict[int, int]) -> list[int]:
    """How the writes of runs were answered that have come over this line since then, under epochs of before."""
    requests = ground.audit.requests(wire.DAG_RUNS, source=line.address, since_s=since_s)
    return sorted(
        request.status
        for request in requests
        if "status" in request.body
        and request.body["status"]["epoch"] <= epochs[int(request.body["metadata"]["labels"][wire.SHARD_LABEL])]
    )


def test_the_last_writes_of_a_killed_leader_that_arrive_after_the_takeover_are_refused(
    ground: Ground, record_property: Recorder
) -> None:
    stage, ledger = ground.stage, ground.stage.ledger("last-words")
    runs = ground.load(ledger, runs=8, width=12, seconds=1.0)
    stage.wait("the load is on", lambda: ledger.count("start") >= 16)
    victim, survivor = (stage.fleet.members[name] for name in REPLICAS)
    line, before = ground.line_of(victim), ground.epochs()

    line.hold(answers_too=False)
    ground.let_pass(SPEECH_S, "it has written into the void")
    victim.process.send(signal.SIGKILL)
    stage.wait("the other leads all shards", lambda: ground.led_by(survivor), LIMIT_S)
    stage.wait("and plans for them", lambda: survivor.metric("fencepost_shards_held") == SHARDS, LIMIT_S)
    healed_s = time.time()
    line.heal()

    def late() -> list[int]:
        return late_writes(ground, line, healed_s, before)

    stage.wait("its last writes have arrived", late, LIMIT_S)
    ground.reckon(ledger, runs)
    record_property("late_writes_of_a_dead_leader", late())
    assert set(late()) <= {403, 409}
    ground.muster()


def test_a_leader_that_is_cut_off_half_open_is_replaced_and_what_it_said_meanwhile_is_refused(
    ground: Ground, record_property: Recorder
) -> None:
    stage, ledger = ground.stage, ground.stage.ledger("half-open")
    runs = ground.load(ledger, runs=8, width=12, seconds=1.0)
    stage.wait("the load is on", lambda: ledger.count("start") >= 16)
    other, cut_off = (stage.fleet.members[name] for name in REPLICAS)
    line, before = ground.line_of(cut_off), ground.epochs()

    line.hold(answers_too=False)
    ground.let_pass(SPEECH_S, "it has written into the void")
    line.hold()
    stage.wait("the other leads all shards", lambda: ground.led_by(other), LIMIT_S)
    ground.reckon(ledger, runs)
    healed_s = time.time()
    line.heal()
    stage.wait("what it said has arrived", lambda: late_writes(ground, line, healed_s, before), LIMIT_S)
    stage.wait_for_replicas(*REPLICAS)

    late = late_writes(ground, line, healed_s, before)
    record_property("late_writes_of_a_leader_cut_off", late)
    assert set(late) <= {403, 409}
    assert all(epoch >= before[shard] for shard, epoch in ground.epochs().items())
    ground.never_repeated(ledger)


def test_a_slow_line_costs_no_leader_its_shards(ground: Ground) -> None:
    stage, ledger, before = ground.stage, ground.stage.ledger("slow-line"), ground.epochs()
    line = ground.line_of(stage.fleet.members[REPLICAS[0]])
    line.slow_down(DELAY_S)
    runs = ground.load(ledger, runs=8, width=4, seconds=0.5)
    ground.reckon(ledger, runs)
    line.slow_down(0.0)

    assert ground.epochs() == before
    ground.never_repeated(ledger)


def test_connections_that_are_reset_cost_nothing(ground: Ground) -> None:
    stage, ledger, before = ground.stage, ground.stage.ledger("resets"), ground.epochs()
    runs = ground.load(ledger, runs=8, width=12, seconds=0.5)
    for number in range(RESETS):
        stage.wait("the load goes on", lambda number=number: ledger.count("commit") >= 10 * (number + 1))  # type: ignore[misc]
        for line in ground.lines.lines.values():
            line.reset()
    ground.reckon(ledger, runs)

    assert ground.epochs() == before
    ground.never_repeated(ledger)
