"""SkyRL's own asynchronous trainer, with what rlplan derives from it; models and vLLM are left out."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
import torch

from planner.recipes import load_recipe
from planner.recipes.schema import Recipe
from runner.ports.trial import TrialConfig
from runner.trainers.launch import opened_task
from runner.trainers.skyrl.driver import DRIVER
from runner.trainers.skyrl.hooks import ahead
from runner.trainers.skyrl.start import NAME, configured, environment, prompts_of
from runner.trainers.trainer_process import SAVE_NOW
from tests.runner.grpo.samples import late_batch
from tests.runner.trainers.standins import attempt, trial
from tests.trainers_skyrl.test_loop import Batch, Generator, Rows, Weightless, _typed, laid_run, ordered

__all__ = ["_typed"]
pytestmark = pytest.mark.filterwarnings("default")  # what SkyRL and its libraries warn of is theirs
BOUND, B = 2, 8


def stale(**changes: Any) -> TrialConfig:
    """Return a trial whose generators may be two updates behind, as SkyRL does it."""
    recipe = load_recipe("magistral").model_dump()
    recipe["schedule"]["staleness_bound"] = BOUND
    for section, keys in changes.items():
        recipe[section].update(keys)
    return DRIVER.as_done(trial("skyrl", Recipe.model_validate(recipe)))


class Slow(Generator):
    """Answers prompts in any order, of which one in so many has the same reward for all answers."""

    def __init__(self, answers: dict[int, str], alike: int = 0) -> None:
        super().__init__(answers)
        self._chance, self._alike = random.Random(3), alike
        self.trained: list[list[int]] = []

    async def generate(self, given: Any, disable_tqdm: bool = True) -> dict[str, Any]:
        training = given["batch_metadata"].training_phase == "train"
        for _ in range(self._chance.randrange(40) if training else 0):
            await asyncio.sleep(0)
        made = await super().generate(given)
        if training and self._alike and self._chance.randrange(self._alike) == 0:
            made["rewards"] = [1.0] * len(made["rewards"])
        made["rewards"] = [[0.0, reward] for reward in made["rewards"]] if training else made["rewards"]
        return made


def trained(config: TrialConfig, folder: Path, monkeypatch: pytest.MonkeyPatch, alike: int = 0, **start: Any) -> Slow:
    """Run SkyRL's `train` to a segment's end; return what was generated."""
    from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer
    from skyrl.train.trainer import RayPPOTrainer
    from skyrl.train.utils.tracking import Tracking
    from skyrl_gym.envs import deregister, register
    from skyrl_gym.envs.base_text_env import BaseTextEnv
    from torchdata.stateful_dataloader import StatefulDataLoader

    task, run = opened_task(config), laid_run(config, folder, **start)
    cfg = configured(run)
    generator = Slow({number: each.answer for number, each in enumerate([*task.train, *task.validation])}, alike)

    class Bare(Weightless, FullyAsyncRayPPOTrainer):
        """It notes what it trains."""

        def convert_to_training_input(self, output: Any, uids: Any) -> Any:
            generator.trained.append(list(dict.fromkeys(int(uid) for uid in uids)))
            return Batch(rewards=None)

    def load(own: Any) -> tuple[int, str]:
        kept = Path(own.cfg.trainer.resume_path)
        return int(kept.name.split("_")[-1]), str(kept)

    monkeypatch.setattr(RayPPOTrainer, "load_checkpoints", load)
    register(id=NAME, entry_point=environment(BaseTextEnv, folder))
    try:
        trainer = ahead(Bare, StatefulDataLoader, run, folder)(
            cfg=cfg,
            tracker=Tracking("rlplan", "trial", "console"),
            tokenizer=MagicMock(decode=lambda ids, **_: "text"),
            train_dataset=prompts_of(Rows(list(range(len(task.train)))), run),
            eval_dataset=Rows([len(task.train), len(task.train) + 1]),
            inference_engine_client=MagicMock(),
            generator=generator,
        )
        trainer.dispatch = MagicMock(save_weights_for_sampler=AsyncMock(), get_timing_metrics=dict)
        asyncio.run(asyncio.wait_for(trainer.train(), 120))
    finally:
        deregister(NAME)
    return generator


def said(folder: Path, number: int = 1) -> list[dict[str, Any]]:
    """Return what is written of the steps."""
    return [json.loads(line) for line in attempt(folder, number=number).metrics.read_text().splitlines()]


def test_its_own_loop_keeps_the_bound_and_the_plans_order_and_scores_where_that_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stale()
    generator = trained(config, tmp_path, monkeypatch, to_step=7)  # scored after every third update
    assert generator.trained == [list(range(B * step, B * (step + 1))) for step in range(7)]
    ages = [row["logs"]["async/staleness_max"] for row in said(tmp_path) if row["step"]]
    assert len(ages) == 7
    assert max(ages) == BOUND
    (source,) = DRIVER.sources(config, attempt(tmp_path))
    read = source.read()
    assert [(each.step, each.score) for each in read] == [
        (0, None),
        *[(step, 0.5 if step % 3 == 0 else None) for step in range(8)],
    ]
    assert (read[2].response_tokens, read[2].metrics["loss"]) == (2.0, 0.5)
    assert [each.step for each in DRIVER.checkpoints(config, tmp_path)] == [7]


def test_its_own_loop_goes_on_from_a_checkpoint_with_the_next_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stale()
    trained(config, tmp_path, monkeypatch, to_step=4)
    kept = tmp_path / "checkpoints/global_step_4"
    generator = trained(config, tmp_path, monkeypatch, number=2, from_step=4, to_step=7, checkpoint=kept)
    assert generator.trained == [list(range(B * step, B * (step + 1))) for step in (4, 5, 6)]
    assert set(ordered(tmp_path)[B * 4 : B * 7]) <= {*generator.asked}
    assert [row["step"] for row in said(tmp_path, 2)] == [4, 5, 6, 7]
    assert [each.step for each in DRIVER.checkpoints(config, tmp_path)] == [7, 4]
    (kept / "fully_async_state.pt").unlink()  # which it writes after all else
    assert [each.step for each in DRIVER.checkpoints(config, tmp_path)] == [7]


def test_it_refills_and_saves_after_the_update_under_way_when_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / SAVE_NOW).touch()
    config = stale(filters={"zero_variance": "refill"})
    generator = trained(config, tmp_path, monkeypatch, alike=4, to_step=5)
    flat = [place for batch in generator.trained for place in batch]
    assert len(flat) == B * 5
    assert flat == sorted(flat)
    assert flat[-1] > B * 5  # some were left out
    assert [each.step for each in DRIVER.checkpoints(config, tmp_path)] == [5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("objective_keys", "name"),
    [
        ({"clip": "ppo"}, "regular_rollout"),
        ({"clip": "ppo", "ratio": "sequence", "aggregation": "sample"}, "gspo_rollout"),
        ({"clip": "soft", "aggregation": "sample"}, "sapo_rollout"),
        ({"clip": "cispo", "clip_low": None, "clip_high": 4.0}, "cispo"),
    ],
)
def test_the_loss_of_a_batch_that_is_behind_is_ours(objective_keys: dict[str, Any], name: str, tmp_path: Path) -> None:
    config = stale(objective={"aggregation": "token", **objective_keys})
    settings = config.recipe.objective
    words = DRIVER.job(config, opened_task(config), attempt(tmp_path)).words
    algorithm = configured({"words": words}).trainer.algorithm
    assert algorithm.policy_loss_type == name

    from skyrl.backends.skyrl_train.utils.ppo_utils import PolicyLossRegistry

    batch, retrained, expected = late_batch(settings)
    weighted = batch.advantages[:, None] * batch.weights
    theirs, _ = PolicyLossRegistry.get(name)(
        batch.logprobs, retrained, weighted, config=algorithm, loss_mask=batch.mask, rollout_logprobs=batch.sampler
    )
    torch.testing.assert_close(torch.autograd.grad(theirs, batch.logprobs)[0], expected)
