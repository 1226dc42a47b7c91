import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from planner.recipes.schema import Objective
from runner.grpo.objective import k3, objective, probability_ratio, truncated_importance
from tests.runner.grpo.samples import gradients, one, tokens

DOUBLED = math.log(2)
LOG_RATIOS = torch.tensor([[DOUBLED, -DOUBLED, 2 * DOUBLED], [DOUBLED, 0.0, 0.0]], dtype=torch.float64)
MASK = torch.tensor([[True, True, True], [True, False, False]])
CLIPS = {
    "ppo": {},
    "cispo": {"clip": "cispo"},
    "soft": {"clip": "soft"},
    "gamma": {"clip": "gamma"},
    "none": {"clip": "none"},
}


def test_the_ratio_of_a_token_is_its_own_and_that_of_a_response_their_geometric_mean():
    assert probability_ratio(LOG_RATIOS, MASK, "token").tolist()[0] == pytest.approx([2, 0.5, 4])
    mean = 4 ** (1 / 3)
    by_response = probability_ratio(LOG_RATIOS, MASK, "sequence")
    assert by_response.tolist() == [pytest.approx([mean] * 3), pytest.approx([2] * 3)]


@pytest.mark.parametrize(
    ("level", "expected", "capped"),
    [("token", [[2, 0.5, 3], [2, 1, 1]], [[False, False, True], [False] * 3]), ("sequence", [[3], [2]], [[1], [0]])],
)
def test_importance_is_capped_token_by_token_or_for_the_product_of_a_response(level, expected, capped):
    settings = Objective(truncated_importance=3.0, truncated_importance_level=level)
    weights, at_cap = truncated_importance(LOG_RATIOS, settings)
    assert weights.tolist() == [pytest.approx(row) for row in expected]
    assert at_cap.tolist() == capped


def test_importance_that_overflows_is_capped_too():
    settings = Objective(truncated_importance=3.0, truncated_importance_level="sequence")
    weights, _ = truncated_importance(torch.full((1, 50), 10.0), settings)
    assert weights.tolist() == [[3.0]]


@pytest.mark.parametrize("settings", [Objective(), Objective(truncated_importance=2.0, against="sampler")])
def test_there_is_no_importance_unless_asked_nor_where_the_ratio_contains_it(settings):
    assert truncated_importance(LOG_RATIOS, settings) is None


@given(st.lists(st.floats(0.05, 1.0), min_size=2, max_size=6), st.lists(st.floats(0.05, 1.0), min_size=2, max_size=6))
def test_k3_is_never_negative_and_its_mean_is_the_divergence(first, second):
    size = min(len(first), len(second))
    p, q = (torch.tensor(each[:size], dtype=torch.float64) / sum(each[:size]) for each in (first, second))
    values = k3((q / p).log())
    assert (values >= 0).all()
    assert (p * values).sum().item() == pytest.approx((p * (p / q).log()).sum().item(), abs=1e-9)


def gradient(made, settings: Objective) -> float:
    return gradients(objective(made, settings)[0], made)[0].item()


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [  # clipped to 0.8 … 1.28; d ratio / d log-probability is the ratio
        (1.1, 2.0, -2.2, -2.2),
        (1.5, 2.0, -2.56, 0.0),
        (1.5, -2.0, 3.0, 3.0),
        (0.5, 2.0, -1.0, -1.0),
        (0.5, -2.0, 1.6, 0.0),
        (0.9, -2.0, 1.8, 1.8),
    ],
)
def test_ppo_is_pessimistic(ratio, advantage, loss, slope):
    settings = Objective(clip_low=0.2, clip_high=0.28)
    assert gradient(one(ratio, advantage), Objective(clip_low=None, clip_high=None)) == pytest.approx(
        -ratio * advantage
    )
    made = one(ratio, advantage)
    assert objective(made, settings)[0].item() == pytest.approx(loss)
    assert gradient(made, settings) == pytest.approx(slope)


@pytest.mark.parametrize(
    ("low", "high", "ratio", "kept"),
    [(0.2, 4.0, 0.5, 0.8), (None, 4.0, 0.5, 0.5), (None, 4.0, 3.0, 3.0), (None, 4.0, 9.0, 5.0), (None, None, 9.0, 9.0)],
)
@pytest.mark.parametrize("advantage", [2.0, -2.0])
def test_cispo_weighs_the_log_probability_and_no_token_loses_its_gradient(low, high, ratio, kept, advantage):
    settings = Objective(clip="cispo", clip_low=low, clip_high=high)
    made = one(ratio, advantage, logprob=-3.0)
    assert objective(made, settings)[0].item() == pytest.approx(-kept * advantage * -3.0)
    assert gradient(made, settings) == pytest.approx(-kept * advantage)


@pytest.mark.parametrize(("advantage", "temperature"), [(2.0, 0.5), (-2.0, 3.0), (0.0, 3.0)])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_the_soft_gate(ratio, advantage, temperature):
    settings = Objective(clip="soft", soft_positive=0.5, soft_negative=3.0)
    gate = sigmoid(temperature * (ratio - 1))
    made = one(ratio, advantage)
    assert objective(made, settings)[0].item() == pytest.approx(-gate * 4 / temperature * advantage)
    assert gradient(made, settings) == pytest.approx(-4 * gate * (1 - gate) * ratio * advantage)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_the_gamma_weight_takes_the_correction_for_the_sampler_into_itself(level):
    """With tokens at ratios 2 and ¾ and corrections 1.2 and ½ the response is at 2 · ¾ · 0.6 = 0.9."""
    logprobs = torch.tensor([[-1.0, -2.0]], dtype=torch.float64, requires_grad=True)
    old = logprobs.detach() - torch.tensor([[2.0, 0.75]], dtype=torch.float64).log()
    sampler = old - torch.tensor([[1.2, 0.5]], dtype=torch.float64).log()
    both = {"mask": torch.ones(1, 2, dtype=torch.bool), "weights": torch.ones(1, 2, dtype=torch.float64)}
    made = one(1.0, 1.0, logprobs=logprobs, old=old, sampler=sampler, **both)
    settings = Objective(clip="gamma", truncated_importance=1.5, truncated_importance_level=level)
    weight = math.exp(3) * 0.9**2 * math.exp(-3 * 0.9)
    assert gradients(objective(made, settings)[0], made)[0].tolist()[0] == pytest.approx([-weight, -weight])


def test_one_absurd_token_does_not_decide_the_gamma_weight_alone():
    """A log-ratio of 30 counts as 20: with one of −19.5 the response is at √e."""
    logprobs = torch.tensor([[-1.0, -2.0]], dtype=torch.float64, requires_grad=True)
    old = logprobs.detach() - torch.tensor([[30.0, -19.5]], dtype=torch.float64)
    both = {"mask": torch.ones(1, 2, dtype=torch.bool), "weights": torch.ones(1, 2, dtype=torch.float64)}
    made = one(1.0, 1.0, logprobs=logprobs, old=old, sampler=old, **both)
    weight = math.exp(3 + 2 * 0.5 - 3 * math.exp(0.5))
    found = gradients(objective(made, Objective(clip="gamma"))[0], made)[0]
    assert found.tolist()[0] == pytest.approx([-weight, -weight])


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("rule", ["sample", "prompt", "token", "constant", "sum"])
def test_on_policy_every_clip_is_the_policy_gradient(clip, level, rule):
    made = tokens([3, 5, 1, 4], 5, rule=rule, spread=0.0)
    found, _ = gradients(objective(made, Objective(**CLIPS[clip], ratio=level))[0], made)
    torch.testing.assert_close(found, -made.advantages[:, None] * made.weights * made.mask)


@pytest.mark.parametrize("clip", ["ppo", "soft", "none"])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("importance", [{}, {"truncated_importance": 1.2}])
def test_gradients_are_finite_differences(clip, level, importance):
    """The losses of CISPO and VESPO have no such gradient: their weights are constants to it."""
    made = tokens([3, 2], 3, seed=4)
    settings = Objective(**CLIPS[clip], ratio=level, kl=0.1, entropy=0.1, **importance)

    def loss(logprobs: torch.Tensor, entropies: torch.Tensor) -> torch.Tensor:
        changed = {name: getattr(made, name) for name in made.__dataclass_fields__}
        return objective(type(made)(**{**changed, "logprobs": logprobs, "entropies": entropies}), settings)[0]

    assert torch.autograd.gradcheck(loss, (made.logprobs, made.entropies))
