"""From the same rollouts of the same Llama to the gradients of its parameters, TRL's way and ours."""

import pytest
import torch

from planner.recipes.schema import Advantage, Objective
from runner.grpo.advantages import advantages
from runner.grpo.objective import Tokens, objective, token_weights
from runner.policy.scorer import Rows, Scorer
from tests.trl.harness import (
    COUNT,
    GROUPS,
    LONGEST,
    MASK,
    PAD,
    PER_PROMPT,
    PROMPTS,
    REWARDS,
    Given,
    completions,
    model,
    score,
    trainer,
)
from tests.trl.test_losses import LEVELS, options, settings

TEMPERATURE = 0.8
OLD, NOW = {"nudge": 0.02, "seed": 1}, {"nudge": 0.03, "seed": 2}
CLOSE = {"rtol": 0.0, "atol": 1e-6}  # the largest gradients are 0.1 to 0.5


def rows(group: int) -> Rows:
    """Return the responses to one prompt."""
    padded = [ids + [PAD] * (LONGEST - len(ids)) for ids in completions()]
    part = slice(group * PER_PROMPT, (group + 1) * PER_PROMPT)
    return Rows([PROMPTS[group]], PER_PROMPT, torch.tensor(padded)[part], MASK[part])


def scored(weights: torch.nn.Module) -> torch.Tensor:
    """Return the log-probabilities of all responses."""
    scorer = Scorer(weights, temperature=TEMPERATURE, fp32_head=True)
    with torch.no_grad():
        return torch.cat([scorer(rows(group))[0] for group in range(len(PROMPTS))])


def accumulate(weights: torch.nn.Module, chosen: Objective, sampler: torch.Tensor) -> float:
    """Add the gradients of an update, prompt by prompt, to the model's, and return the loss."""
    scorer = Scorer(weights, temperature=TEMPERATURE, fp32_head=True)
    old, reference = scored(model(**OLD)), scored(model())
    advantage = advantages(torch.tensor(REWARDS), PER_PROMPT, Advantage())
    token_weight = token_weights(MASK, GROUPS, chosen.aggregation, LONGEST)
    total = 0.0
    for group in range(len(PROMPTS)):
        part = group == GROUPS
        logprobs, entropies = scorer(rows(group), entropies=True, entropy_gradient=True)
        tokens = Tokens(
            logprobs=logprobs,
            old=old[part],
            sampler=sampler[part],
            reference=reference[part],
            entropies=entropies,
            advantages=advantage[part],
            mask=MASK[part],
            weights=token_weight[part],
            entropy_weight=1 / int(MASK.sum()),
        )
        loss, _ = objective(tokens, chosen)
        loss.backward()
        total += loss.item()
    return total


@pytest.mark.parametrize(
    ("loss", "level", "importance"),
    [
        ("grpo", "token", None),
        ("grpo", "sequence", "sequence_truncate"),
        ("bnpo", "token", "token_truncate"),
        ("dr_grpo", "token", None),
        ("dapo", "token", "token_truncate"),
        ("cispo", "token", "token_truncate"),
        ("sapo", "token", None),
        ("luspo", "sequence", None),
        ("vespo", "token", "token_truncate"),
    ],
)
def test_the_gradients_of_all_parameters_are_trls(loss, level, importance):
    assert importance in LEVELS
    generator = torch.Generator().manual_seed(5)
    sampler = scored(model(**OLD)) + 0.2 * torch.randn((COUNT, LONGEST), generator=generator)
    made = trainer(**options(loss, level, 0.04, 0.01), temperature=TEMPERATURE)
    made.model.load_state_dict(model(**OLD).state_dict())
    inputs = score(made, Given(sampler=sampler), importance)
    made.model.load_state_dict(model(**NOW).state_dict())
    made.model.zero_grad()
    theirs = made._compute_loss(made.model, inputs)
    theirs.backward()

    weights = model(**NOW)
    mine = accumulate(weights, settings(loss, level, 0.04, 0.01, importance), sampler)

    assert mine == pytest.approx(theirs.item(), rel=1e-5, abs=1e-5)
    expected = {name: weight.grad for name, weight in made.model.named_parameters()}
    torch.testing.assert_close({name: weight.grad for name, weight in weights.named_parameters()}, expected, **CLOSE)
    assert max(gradient.abs().max() for gradient in expected.values()) > 1e-3
