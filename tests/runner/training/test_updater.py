"""One optimizer step on one batch: its micro-batches, its gradients, its rate."""

import math
from typing import Any

import pytest
import torch

from budgets.errors import TrainingError
from planner.recipes.schema import Advantage, Objective, Optimizer, Recipe, Schedule
from runner.grpo.objective import Tokens, objective, token_weights
from runner.policy.scorer import Batch, MicroBatch, Scorer
from runner.ports.trial import Machine
from runner.training.trial import Stopwatch
from runner.training.updater import Updater
from tests.runner.tiny import tiny_config, tiny_model
from tests.runner.training.samples import made_up_batch

OBJECTIVES = {
    "grpo": Objective(kl=0.04),
    "dapo": Objective(clip_high=0.28, aggregation="token"),
    "dr-grpo": Objective(aggregation="constant"),
    "scalerl": Objective(clip="cispo", clip_low=None, clip_high=4.0, aggregation="prompt", against="sampler"),
    "gspo": Objective(ratio="sequence", clip_low=3e-3, clip_high=4e-3, against="sampler"),
    "entropy": Objective(entropy=0.01, truncated_importance=2.0),
}
LONGEST = 5


def updater(objective: Objective, model: Any, micro_batch_tokens: int = 10_000, **optimizer: Any) -> Updater:
    recipe = Recipe(name="r", objective=objective, advantage=Advantage(), optimizer=Optimizer(**optimizer))
    config = tiny_config(recipe, machine=Machine(micro_batch_tokens=micro_batch_tokens))
    return Updater(config, model, tiny_model() if objective.kl > 0 else None, LONGEST)


def updated(objective: Objective, micro_batch_tokens: int, batch: Batch) -> tuple[dict[str, float], list[torch.Tensor]]:
    model = tiny_model()
    one = updater(objective, model, micro_batch_tokens, epsilon=1.0)  # a large epsilon: small gradients stay small
    one.prepare([batch], Stopwatch())
    metrics = one.update(batch, 5)
    return metrics, list(model.parameters())


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("tokens", [1, 60])
def test_micro_batches_add_up_to_one_batch(name: str, tokens: int) -> None:
    whole, weights = updated(OBJECTIVES[name], 10_000, made_up_batch())
    cut, others = updated(OBJECTIVES[name], tokens, made_up_batch())
    assert whole.keys() == cut.keys()
    for key, value in whole.items():
        assert cut[key] == pytest.approx(value, rel=1e-4, abs=1e-6), key
    for one, other in zip(weights, others, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_the_gradient_is_clipped_to_its_norm() -> None:
    def moved(clip_norm: float | None) -> tuple[float, float]:
        model = tiny_model()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        recipe = Recipe(name="r", optimizer=Optimizer(epsilon=1e3, clip_norm=clip_norm))
        # With these, a weight moves by its gradient.
        one = Updater(tiny_config(recipe, learning_rate=1e3), model, None, LONGEST)
        norm = one.update(made_up_batch(), 5)["grad_norm"]
        change = math.sqrt(
            sum(float((a.detach() - b).square().sum()) for a, b in zip(model.parameters(), before, strict=True))
        )
        return norm, change

    free, clipped = moved(None), moved(1e-3)
    assert free[0] == pytest.approx(clipped[0])  # the norm before clipping is what is reported
    assert clipped[1] == pytest.approx(free[1] * 1e-3 / free[0], rel=0.05)


def test_a_batch_without_rollouts_leaves_the_weights_alone() -> None:
    model = tiny_model()
    batch = made_up_batch()
    batch.loss_mask = torch.zeros_like(batch.mask)
    metrics = updater(OBJECTIVES["dapo"], model).update(batch, 1)
    assert metrics["loss"] == 0
    for one, other in zip(model.parameters(), tiny_model().parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_groups_without_an_advantage_count_whether_or_not_the_model_sees_them(name: str) -> None:
    """Against the objective of all rows at once, which knows nothing of skipping."""
    batch = made_up_batch()
    batch.advantages.view(-1, batch.per_prompt)[[1, 3]] = 0
    metrics, _ = updated(OBJECTIVES[name], 10_000, batch)
    assert metrics["loss"] == pytest.approx(loss_of_all_rows(OBJECTIVES[name], batch), rel=1e-5)


def loss_of_all_rows(settings: Objective, batch: Batch) -> float:
    whole = batch.part(MicroBatch(torch.arange(batch.rows), range(len(batch.prompts)), batch.per_prompt, LONGEST))
    with torch.no_grad():
        logprobs, entropies = Scorer(tiny_model(), temperature=1.0, fp32_head=True)(whole, entropies=True)
    groups = torch.arange(batch.rows) // batch.per_prompt
    tokens = Tokens(
        logprobs=logprobs,
        old=batch.sampler if settings.against == "sampler" else logprobs,
        sampler=batch.sampler,
        reference=logprobs,  # the base model of these tests has the same weights
        entropies=entropies,
        advantages=batch.advantages,
        mask=batch.loss_mask,
        weights=token_weights(batch.loss_mask, groups, settings.aggregation, LONGEST),
        entropy_weight=1 / int(batch.loss_mask.sum()),
    )
    return float(objective(tokens, settings)[0])


@pytest.mark.parametrize("name", ["dapo", "entropy"])
def test_an_update_without_any_advantage_is_measured_all_the_same(name: str) -> None:
    batch = made_up_batch()
    batch.advantages = torch.zeros_like(batch.advantages)
    metrics = updater(OBJECTIVES[name], tiny_model()).update(batch, 1)
    assert metrics["entropy"] > 0
    assert (metrics["grad_norm"] > 0) is (name == "entropy")  # that term needs no advantage


def test_a_gradient_that_is_not_finite_is_skipped_twice_and_then_fails_the_trial() -> None:
    model = tiny_model()
    one, bad = updater(OBJECTIVES["dapo"], model), made_up_batch()
    bad.advantages = torch.full_like(bad.advantages, math.nan)
    for step in (0, 1):
        assert math.isnan(one.update(bad, step)["loss"])
    for mine, untouched in zip(model.parameters(), tiny_model().parameters(), strict=True):
        assert torch.equal(mine, untouched)
    one.update(made_up_batch(), 2)  # a good gradient forgives the bad ones before
    for step in (3, 4):
        one.update(bad, step)
    with pytest.raises(TrainingError, match="3 updates in a row, the last at step 5") as caught:
        one.update(bad, 5)
    assert caught.value.kind == "nan"


class OutOfMemory:
    """Makes the scorer fail for micro-batches of more than some rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most_rows: int) -> None:
        real = Scorer.__call__

        def call(scorer: Scorer, rows: Any, **options: Any) -> Any:
            if len(rows.tokens) > most_rows:
                raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9")
            return real(scorer, rows, **options)

        monkeypatch.setattr(Scorer, "__call__", call)


def test_out_of_memory_halves_the_micro_batch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = made_up_batch()
    whole, weights = updated(OBJECTIVES["dapo"], 120, batch)
    OutOfMemory(monkeypatch, most_rows=12)
    model = tiny_model()
    one = updater(OBJECTIVES["dapo"], model, 120, epsilon=1.0)
    assert one.update(batch, 5)["loss"] == pytest.approx(whole["loss"], rel=1e-4)
    assert one.state()["micro_batch_tokens"] == 60
    for mine, other in zip(model.parameters(), weights, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=1e-5)


def test_out_of_memory_again_fails_the_trial_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = made_up_batch()
    OutOfMemory(monkeypatch, most_rows=0)
    with pytest.raises(TrainingError, match=r"micro-batches of 60 tokens.*lower machine.micro_batch_tokens") as caught:
        updater(OBJECTIVES["dapo"], tiny_model(), 120).update(batch, 1)
    assert caught.value.kind == "out-of-memory"

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(Scorer, "__call__", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        updater(OBJECTIVES["dapo"], tiny_model()).update(batch, 1)


def test_old_log_probabilities_are_those_before_the_first_update_of_a_batch() -> None:
    recipe = Recipe(name="r", schedule=Schedule(updates_per_batch=2))
    model = tiny_model()
    one = Updater(tiny_config(recipe, learning_rate=0.1), model, None, LONGEST)
    first, second = made_up_batch(seed=1), made_up_batch(seed=2)
    one.prepare([first, second], Stopwatch())
    before = second.old
    assert before is not None
    one.update(first, 5)
    with torch.no_grad():
        now, _ = Scorer(model, temperature=1.0, fp32_head=True)(
            second.part(MicroBatch(torch.arange(second.rows), range(len(second.prompts)), second.per_prompt, 5))
        )
    assert not torch.allclose(before, now, atol=1e-3)
    assert one.update(second, 6)["ratio_max"] > 1.001
