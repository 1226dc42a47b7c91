import math

from hypothesis import given
from hypothesis import strategies as st

from budgets.growth import Growth

growths = st.builds(Growth, st.floats(1.01, 64), st.integers(1, 200))
batches = st.integers(1, 300)


@given(growths, batches, st.integers(0, 3000))
def test_the_batch_doubles_when_the_prompts_done_have_quadrupled(growth: Growth, B: int, update: int) -> None:
    """Against the rule itself, applied to one update after the other's counts."""
    first = math.ceil(B / growth.factor)
    done = growth.rollouts(1, B, update)
    size, doubling_at = first, first * growth.first_updates
    while done >= doubling_at and size < B:
        size, doubling_at = min(B, 2 * size), 4 * doubling_at
    assert growth.prompts(B, update) == size


@given(growths, batches, st.integers(2, 64), st.integers(0, 400))
def test_rollouts_add_up_over_the_updates(growth: Growth, B: int, n: int, updates: int) -> None:
    sizes = [growth.prompts(B, update) for update in range(updates)]
    assert growth.rollouts(n, B, updates) == n * sum(sizes)
    assert sum(count for _, count in growth.spans(B, updates)) == updates


def test_names() -> None:
    assert Growth.named("none") is None
    assert Growth.named("4x") == Growth(4.0, 32)
    assert Growth.named("2.5x@8") == Growth(2.5, 8)
    assert (Growth(4).name, Growth(2.5, 8).name) == ("4x", "2.5x@8")
