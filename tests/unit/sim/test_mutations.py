"""The checkers bite: each fault in the product itself is found, by the promise that it breaks, within a few seeds.

All are played by one run of the command, on all cores, under a fixed hash seed: else each is found elsewhere each time.
"""

import re

import pytest

from tests.unit.sim.mutations import MUTATIONS
from tests.unit.sim.test_simulator import command_output


@pytest.fixture(scope="module")
def found() -> set[str]:
    return set(re.findall(r"(?m)^found by seed \d+: (.*)$", command_output("--mutations")))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [mutation.name for mutation in MUTATIONS])
def test_a_fault_in_the_product_is_found(name: str, found: set[str]) -> None:
    assert name in found, "nobody has noticed within as many seeds as it may take"
