import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.engines.torch_sampling import Noise, draw, invert

CPU = torch.device("cpu")


def test_noise_depends_on_seed_row_and_step_alone() -> None:
    noise = Noise(3, 10, CPU)
    forwards = [noise.at(step).clone() for step in range(70)]
    backwards = [Noise(3, 10, CPU).at(step) for step in reversed(range(70))]
    assert all(torch.equal(one, two) for one, two in zip(forwards, reversed(backwards), strict=True))
    assert len(torch.cat(forwards).unique()) == 700
    assert not torch.equal(Noise(4, 10, CPU).at(0), forwards[0])


@pytest.mark.parametrize("seed", [0, -1, 2**63 + 5, 2**70])
def test_any_whole_number_is_a_seed(seed: int) -> None:
    drawn = Noise(seed, 1000, CPU).at(0)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.05)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(0, 2**31), st.floats(0, 1, exclude_max=True))
def test_inversion_is_the_first_entry_that_passes(entries: int, seed: int, uniform: float) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=entries).astype(np.float32) ** 3 * (rng.random(entries) < 0.6)
    weights[rng.integers(entries)] += 0.5
    probabilities = torch.from_numpy(weights / weights.sum()).float()[None]
    chosen = int(invert(probabilities, torch.tensor([[uniform]], dtype=torch.float64)))
    cumulative = probabilities[0].double().cumsum(0)
    target = uniform * float(cumulative[-1])
    assert probabilities[0, chosen] > 0
    assert float(cumulative[chosen]) >= target - 1e-6
    assert (float(cumulative[chosen - 1]) if chosen else 0.0) <= target + 1e-6


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53, 1.0])
def test_the_ends_of_the_interval_give_no_impossible_token(uniform: float) -> None:
    probabilities = torch.zeros(1, 37)
    probabilities[0, 5] = probabilities[0, 30] = 0.5
    chosen = int(invert(probabilities, torch.tensor([[uniform]], dtype=torch.float64)))
    assert chosen == (5 if uniform == 0 else 30)


def test_temperature_zero_takes_the_likeliest_at_its_probability_at_one() -> None:
    logits = torch.randn(20, 50, generator=torch.Generator().manual_seed(0))
    tokens, logprobs = draw(logits, 0.0, torch.full((20,), 0.5, dtype=torch.float64))
    assert torch.equal(tokens, logits.argmax(-1))
    torch.testing.assert_close(logprobs, logits.log_softmax(-1).max(-1).values)
    tokens, logprobs = draw(100 * logits, 1e-38, Noise(0, 20, CPU).at(0))
    assert torch.equal(tokens, logits.argmax(-1))
    assert (logprobs == 0).all()


def test_a_token_of_tiny_probability_keeps_its_logprob() -> None:
    logits = torch.tensor([[0.0, -25.0]])
    tokens, logprobs = draw(logits, 1.0, torch.tensor([1.0], dtype=torch.float64))
    assert tokens.item() == 1
    assert logprobs.item() == pytest.approx(-25, abs=1e-5)
