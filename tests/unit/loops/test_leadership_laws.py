"""What holds whatever goes wrong: seeds of chaos, in each of which no shard may be led twice at any moment.

Requests and answers take their time, up to more than a whole lease; answers are lost; watches lag and break; processes
are frozen, killed, started and stopped, and their clocks run at different speeds. Then it is calm, and all must be led.
"""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.kube.errors import ConnectionLostError, OverloadedError, UnreachableError
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.leadership_stage import Replica, Stage, play

SHARDS = 4
CHAOS_S = 90
CALM_S = 60


def weather(chance: Random) -> Fault | None:
    """What happens to one request: mostly little, now and then something that outlasts a lease."""
    match chance.randrange(12):
        case 0:
            return Fault(delay_s=chance.uniform(0, 15))
        case 1:
            return Fault(answer_delay_s=chance.choice([chance.uniform(0, 3), chance.uniform(0, 15)]))
        case 2:
            return Fault(delay_s=chance.uniform(0, 2), error=ConnectionLostError("reset"), carried_out=True)
        case 3:
            return Fault(error=chance.choice([UnreachableError("refused"), OverloadedError("too many requests")]))
        case _:
            return Fault(delay_s=chance.uniform(0, 0.05), answer_delay_s=chance.uniform(0, 0.05))


async def disturb(stage: Stage, chance: Random) -> None:
    """One blow to one replica."""
    running = [replica for replica in stage.replicas.values() if replica.process is not None]
    victim = chance.choice(running)
    match chance.randrange(6):
        case 0 if len(running) > 1:
            await victim.kill()
        case 1 if len(running) > 1:
            await victim.stop()
        case 2:
            victim.progressing = not victim.progressing
        case 3 if len(running) < 4:
            stage.start(f"late-{len(stage.replicas)}", speed=chance.uniform(0.95, 1.05))
        case _ if victim.thawed.is_set():
            victim.freeze()
        case _:
            victim.thaw()


def recover(replica: Replica) -> None:
    replica.progressing = True
    replica.thaw()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_no_shard_is_ever_led_twice_and_in_the_end_all_are_led(seed: int) -> None:
    async def story(stage: Stage) -> None:
        chance = Random(seed)

        def trouble(name: str, request: Request) -> Fault | None:
            return weather(chance)

        for name in ("a", "b"):
            stage.start(name, speed=chance.uniform(0.95, 1.05))
        calm_down = stage.trouble(trouble)
        while stage.clock.steady_s() < CHAOS_S:
            await stage.clock.sleep(chance.uniform(0, 8))
            await disturb(stage, chance)
        calm_down()
        running = [replica for replica in stage.replicas.values() if replica.process is not None]
        for replica in running:
            recover(replica)
        await stage.until(lambda: stage.all_led_by(*running), limit_s=CALM_S)

        for shard in range(SHARDS):
            epochs = [epoch for replica in stage.replicas.values() for epoch in replica.epochs.get(shard, [])]
            assert len(epochs) == len(set(epochs)), "no epoch is given out twice"

    play(story, shards=SHARDS)
