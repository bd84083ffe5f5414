"""A share of the seeds, and the promises of the simulator itself: it replays, it tries things, and it cuts down."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.sim.plan import KINDS, WEIGHTS, draw_plan
from tests.unit.sim.shrink import shrink

ROOT = Path(__file__).parents[3]
SEEDS = 300
"""In CI. `make sim SEEDS=10000` is for a night."""


def command_output(*arguments: str) -> str:
    """Of the command, which is run with whatever hash seed it chooses for itself."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    command = [sys.executable, "-m", "tests.unit.sim", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert not done.stderr, "what is dropped with a dead machine is dropped without a word"
    return done.stdout


def sim(*arguments: str) -> str:
    """The output of a command in which nothing fails."""
    output = command_output(*arguments)
    assert output.endswith(" 0 violations\n"), output[-20_000:]
    return output


@pytest.mark.timeout(1800)
def test_no_promise_is_broken_under_a_share_of_the_seeds() -> None:
    output = sim(f"--seeds={SEEDS}", "--size=small")
    assert output.endswith(f"{SEEDS} schedules, 0 violations\n")
    for wanted in ("shard: acquired", "worker: ended DRAINED", "died: ", "lie was refused", "folded: Failed"):
        assert wanted in output, "so many seeds have tried that"


@pytest.mark.timeout(120)
def test_a_seed_replays_exactly_in_another_process() -> None:
    first, second = (re.findall(r"fingerprint .*", sim("--seed=17")) for _ in range(2))
    assert first == second
    assert len(first) == 1


def test_every_kind_of_step_is_drawn() -> None:
    assert set(WEIGHTS) == set(KINDS)
    assert {step.kind for seed in range(200) for step in draw_plan(seed).steps} == set(KINDS)


def test_a_plan_is_cut_down_to_the_steps_that_matter() -> None:
    plan = draw_plan(next(seed for seed in range(100) if len(draw_plan(seed).steps) == 45))
    cut = shrink(plan, lambda fewer: {7, 31} <= {step.number for step in fewer.steps})
    assert [step.number for step in cut.steps] == [7, 31]
