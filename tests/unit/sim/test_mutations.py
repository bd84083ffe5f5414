"""The checkers bite: each fault in the product itself is found, by the promise that it breaks, within a few seeds."""

import pytest

from tests.unit.sim.mutation import Mutation
from tests.unit.sim.mutations import MUTATIONS
from tests.unit.sim.plan import draw_plan
from tests.unit.sim.simulate import simulate


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_fault_in_the_product_is_found(mutation: Mutation) -> None:
    for seed in range(mutation.seeds_max):
        plan = draw_plan(seed, "small", focus=mutation.focus, clocks_change=mutation.clocks_change)
        with mutation.apply():
            violation = simulate(plan).violation
        if violation is not None and violation.promise.startswith(mutation.promises):
            return
    raise AssertionError(f"nobody has noticed in {mutation.seeds_max} seeds that {mutation.name}")
