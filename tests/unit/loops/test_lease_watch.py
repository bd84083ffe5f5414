"""What the watch of Leases tells its replica, and when it wakes it."""

import asyncio

from fencepost.loops.lease_watch import LeaseWatch
from fencepost.memory.identity import Identity, Role
from tests.unit.loops.leadership_stage import NAMESPACE, Stage, play


def test_a_mere_renewal_wakes_nobody_and_a_member_that_has_something_to_tell_does() -> None:
    async def story(stage: Stage) -> None:
        a, b = stage.start("a"), stage.start("b")
        await stage.until(lambda: stage.all_led_by(a, b))
        woken: list[float] = []
        api = stage.server.client(Identity(Role.OPERATOR, "c"))
        watch = LeaseWatch(api, stage.clock, stage.times, NAMESPACE, lambda: woken.append(stage.clock.steady_s()))
        looking = asyncio.create_task(watch.run())
        await stage.until(lambda: len(watch.members) == 2)
        woken.clear()
        seen_s = {identity: seen.seen_s for identity, seen in watch.members.items()}
        await stage.clock.sleep(25)
        assert woken == []
        assert all(watch.members[identity].seen_s > at_s + 20 for identity, at_s in seen_s.items()), "they are alive"

        b.clock_right = False
        await stage.until(lambda: bool(woken), limit_s=5)
        assert [seen.record.clock_right for seen in watch.members.values()].count(False) == 1

        await stage.until(lambda: stage.all_led_by(a), limit_s=5)
        woken.clear()
        await b.stop()
        await stage.until(lambda: bool(woken), limit_s=1)
        assert len(watch.members) == 1
        looking.cancel()

    play(story)
