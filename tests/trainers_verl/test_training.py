"""What verl computes of a recipe that we call exact is what the builtin trainer computes."""

from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import pytest
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo.checkpoint_callback import build_checkpoint_callback
from verl.trainer.ppo.core_algos import get_policy_loss_fn, kl_penalty
from verl.trainer.ppo.v1 import PPOTrainerSeparateAsync, PPOTrainerSync
from verl.utils.torch_functional import get_constant_schedule_with_warmup, get_cosine_schedule_with_warmup
from verl.workers.config import FSDPActorConfig

from planner.recipes import load_recipe
from planner.recipes.schema import Advantage
from runner.grpo import advantages as ours
from runner.grpo.objective import Tokens, k3, objective, token_weights
from runner.trainers.trainer_process import SAVE_NOW
from tests.trainers_verl import trials

ACTOR = "actor_rollout_ref.actor"

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs
ROWS, LONGEST, GROUP = 12, 9, 4


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_our_estimator_gives_our_advantages_in_any_order(
    scale: str, estimator: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(3)
    rewards = torch.randint(0, 2, (ROWS,), generator=generator).float()
    rewards[:GROUP] = 1.0  # a group without a signal
    settings = Advantage(scale=scale, epsilon=1e-4)
    monkeypatch.setattr(estimator, "SETTINGS", settings.model_dump())
    order = torch.randperm(ROWS, generator=generator)
    spread = torch.zeros(ROWS, LONGEST)
    spread[:, -1] = rewards[order]
    mask = torch.ones(ROWS, LONGEST)

    found, _ = estimator.advantages(spread, mask, [f"prompt-{int(row) // GROUP}" for row in order])

    torch.testing.assert_close(found[:, 0], ours.advantages(rewards, GROUP, settings)[order])


@pytest.mark.parametrize("warmup", [0, 1, 2, 10])
def test_the_rate_rises_as_ours_does_which_that_of_the_schedule_constant_does_not(warmup: int) -> None:
    def rates(scheduler_of: object, **given: object) -> list[float]:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        scheduler = scheduler_of(optimizer, num_warmup_steps=warmup, **given)
        found = []
        for _ in range(14):
            found.append(scheduler.get_last_lr()[0])
            optimizer.step()
            scheduler.step()
        return found

    wanted = [min(1.0, (step + 1) / max(1, warmup)) for step in range(14)]
    cosine = {"num_training_steps": 5, "min_lr_ratio": 1.0, "zero_indexed_step": False}
    assert rates(get_cosine_schedule_with_warmup, **cosine) == pytest.approx(wanted)
    assert warmup == 0 or rates(get_constant_schedule_with_warmup)[0] == 0.0


@pytest.mark.parametrize("recipe", ["grpo", "dr-grpo", "hard", "cispo", "gspo", "dapo"])
def test_its_loss_is_ours(recipe: str) -> None:
    settings = load_recipe(recipe).objective
    given = trials.keys(trials.trial(recipe), Path("/")) | {f"{ACTOR}.loss_scale_factor": LONGEST}
    keys = {key.removeprefix(f"{ACTOR}."): value for key, value in given.items()}
    generator = torch.Generator().manual_seed(5)
    mask = torch.arange(LONGEST) < torch.randint(1, LONGEST + 1, (ROWS, 1), generator=generator)
    old, noise = -torch.rand((2, ROWS, LONGEST), generator=generator) * 3
    logprobs = (old + 0.8 * (noise + 1.5)).requires_grad_()
    advantages = torch.randn(ROWS, generator=generator)
    reference = old + 0.1 * noise

    weights = token_weights(mask, torch.arange(ROWS) // GROUP, settings.aggregation, LONGEST)
    given = Tokens(logprobs, old, old, reference, None, advantages, mask, weights, 0.0)
    wanted = torch.autograd.grad(objective(given, settings)[0], logprobs)[0]

    batch = {"dp_size": 1, "batch_num_tokens": int(mask.sum()), "global_batch_size": ROWS}
    names = ("clip_ratio_low", "clip_ratio_high", "clip_ratio_c", "tau_pos", "tau_neg", "loss_scale_factor")
    config = FSDPActorConfig(
        strategy="fsdp", rollout_n=GROUP, ppo_micro_batch_size_per_gpu=1, **{n: keys[n] for n in names}
    )
    config.global_batch_info.update({**batch, "loss_scale_factor": keys["loss_scale_factor"]})
    loss_of = get_policy_loss_fn(keys["policy_loss.loss_mode"])
    loss, _ = loss_of(old, logprobs, advantages[:, None].expand(-1, LONGEST), mask, keys["loss_agg_mode"], config)
    if keys["use_kl_loss"]:
        from verl.trainer.ppo.core_algos import agg_loss

        kl = kl_penalty(logprob=logprobs, ref_logprob=reference, kl_penalty=keys["kl_loss_type"])
        torch.testing.assert_close(kl, k3(reference - logprobs))
        loss = loss + keys["kl_loss_coef"] * agg_loss(kl, mask, keys["loss_agg_mode"], **config.global_batch_info)
    torch.testing.assert_close(torch.autograd.grad(loss, logprobs)[0], wanted)


@pytest.mark.parametrize(
    ("kind", "engines"),
    [(PPOTrainerSync, "checkpoint_manager"), (PPOTrainerSeparateAsync, "standalone_checkpoint_manager")],
)
def test_it_saves_after_the_update_under_way_when_that_is_asked_for_unless_it_has(
    kind: type, engines: str, saving: Path
) -> None:
    config = OmegaConf.create({"trainer": {"checkpoint_callback_class": "rlplan_saving.SaveNow"}})
    trainer = MagicMock(checkpoint_callback=build_checkpoint_callback(config), timing_raw={}, global_steps=6)
    trainer.prev_step_profile = trainer.hybrid_rollout_config.enable_switch = False

    kind.on_step_end(trainer)
    trainer._save_checkpoint.assert_not_called()
    (saving / SAVE_NOW).touch()
    kind.on_step_end(trainer)
    trainer._save_checkpoint.assert_called_once_with()
    trainer.checkpoint_callback.on_save(trainer=trainer, global_step=6, checkpoint_dir="c", async_save=False)
    kind.on_step_end(trainer)  # it has been saved at its own cadence
    trainer._save_checkpoint.assert_called_once_with()
    assert getattr(trainer, engines).update_weights.call_count == 3
