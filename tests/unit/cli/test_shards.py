"""Who leads which shard, as a person sees it."""

import pytest

from tests.unit.cli.desk import Desk
from tests.unit.loops.stage import SYSTEM, Stage, play


def test_the_leases_of_all_shards_are_shown_in_order_of_their_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(stage: Stage) -> None:
        stage.lead(stage.replica("Ann"), 0, 1, 10)
        stage.lead(stage.replica("Ben"), 1)
        desk = Desk(stage)
        desk.cluster.namespace = SYSTEM
        assert await desk.types("shards") == 0
        header, *rows = capsys.readouterr().out.splitlines()
        assert header.split() == ["SHARD", "LEADER", "EPOCH", "SINCE"]
        assert [row.split()[0] for row in rows] == [str(number) for number in range(16)]
        assert [rows[number].split()[1:3] for number in (0, 1, 10)] == [["Ann", "1"], ["Ben", "2"], ["Ann", "1"]]

    play(story, shards=16)
