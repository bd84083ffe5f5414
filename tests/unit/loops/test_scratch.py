import logging, json
from tests.unit.loops.stage import *
logging.basicConfig(level=logging.INFO)
def test_smoke() -> None:
    async def story(stage):
        stage.leader()
        stage.worker()
        stage.dag("etl", a_task("extract"), a_task("load", "extract"), cron="* * * * *", history={"succeeded": 1})
        await stage.pass_time(310)
        await stage.until(stage.quiet)
        print(stage.now_s, await stage.slots_fired("etl"))
        for t,n,r in stage.requests:
            if r.verb in("create","update","delete"): print(f"{t:7.2f} {n} {r.verb} {r.kind}{'/'+r.subresource if r.subresource else ''} {r.name}")
    play(story)
