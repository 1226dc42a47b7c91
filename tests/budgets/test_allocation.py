import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from budgets.allocation import Allocation, steps_for_budget


def test_learning_rate_grows_with_the_root_of_the_batch() -> None:
    assert Allocation(8, 128, 1).learning_rate(1e-6, 1024) == 1e-6
    assert Allocation(32, 128, 1).learning_rate(1e-6, 1024) == pytest.approx(2e-6)
    assert Allocation(8, 32, 1).learning_rate(1e-6, 1024) == pytest.approx(0.5e-6)
    assert Allocation(64, 1024, 1).learning_rate(1e-6, 1024) == Allocation(64, 128, 1).learning_rate(1e-6, 1024)


POSITIVE = st.floats(1e-6, 1e3)


@given(
    budget=st.floats(0, 1e5) | st.tuples(st.integers(1, 10**6), st.sampled_from([-1, 0, 1])),
    per_step=POSITIVE,
    start_up=st.floats(0, 100),
)
@example(budget=0.3, per_step=0.1, start_up=0.0)  # 3 · 0.1 is a little above it
@example(budget=220.32, per_step=6.48, start_up=0.0)
def test_the_steps_fit_the_budget_and_one_more_does_not(
    budget: float | tuple[int, int], per_step: float, start_up: float
) -> None:
    """Of any budget, and of those that pay exactly or all but."""
    if isinstance(budget, tuple):
        exact = budget[0] * per_step + start_up
        budget = math.nextafter(exact, budget[1] * math.inf) if budget[1] else exact
    steps = steps_for_budget(budget, per_step, start_up)
    assert not steps or steps * per_step + start_up <= budget
    assert (steps + 1) * per_step + start_up > budget * (1 - 1e-12)
