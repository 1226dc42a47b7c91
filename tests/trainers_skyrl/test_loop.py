"""SkyRL's own loop, evaluation, dumps and console, with what rlplan derives from it; models and vLLM are left out."""

import asyncio
import io
import json
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
import torch
import typing_extensions

from runner.ports.trial import TrialConfig
from runner.trainers.launch import opened_task
from runner.trainers.skyrl.driver import DRIVER
from runner.trainers.skyrl.hooks import follower
from runner.trainers.skyrl.start import NAME, configured, environment, in_order, prompts_of, row_of
from runner.trainers.trainer_process import SAVE_NOW, ordered_problems
from tests.runner.trainers.standins import attempt, trial

pytestmark = pytest.mark.filterwarnings("default")  # what SkyRL and its libraries warn of is theirs


@pytest.fixture(autouse=True)
def _typed() -> Iterator[None]:
    """Let SkyRL's modules be imported before Python 3.12."""
    before = typing.TypedDict
    if sys.version_info < (3, 12):
        typing.TypedDict = typing_extensions.TypedDict
    yield
    typing.TypedDict = before


class Rows:
    """A data set of SkyRL's, of so many rows."""

    def __init__(self, numbers: list[int]) -> None:
        self._rows = [row_of(number, {"prompt": "1+1="}) for number in numbers]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> tuple[Any, str, dict[str, Any], str]:
        row = self._rows[place]
        return row["prompt"], row["env_class"], {k: row[k] for k in ("data_source", "number")}, str(place)

    def collate_fn(self, items: list[Any]) -> list[dict[str, Any]]:
        from skyrl.train.dataset import PromptDataset

        made: list[dict[str, Any]] = PromptDataset.collate_fn(self, items)
        return made


class Generator:
    """Answers every other sample rightly, in the environment that SkyRL makes by its name."""

    def __init__(self, answers: dict[int, str]) -> None:
        self._answers = answers
        self.asked: list[int] = []

    async def generate(self, given: Any) -> dict[str, Any]:
        import skyrl_gym

        rewards = []
        for place, extras in enumerate(given["env_extras"]):
            number = extras["number"]
            self.asked.append(number)
            env = skyrl_gym.make(given["env_classes"][place], env_config={}, extras=extras)
            env.init(given["prompts"][place])
            rewards.append(env.step(self._answers[number] if place % 2 else "no")["reward"])
        count = len(rewards)
        return {
            "prompt_token_ids": [[1]] * count,
            "response_ids": [[2, 3]] * count,
            "rewards": rewards,
            "loss_masks": [[1, 1]] * count,
            "stop_reasons": ["stop"] * count,
            "rollout_metrics": {"generate/avg_num_tokens": 2.0},
            "rollout_logprobs": None,
        }


def laid_run(config: TrialConfig, folder: Path, **start: Any) -> dict[str, Any]:
    """Write the files of an attempt that SkyRL's loop reads; return what start.py is told."""
    files = DRIVER.files(DRIVER.job(config, opened_task(config), attempt(folder, **start)))
    for name in ("reward.json", "problems.jsonl", "run.json", "checkpoints/latest_ckpt_global_step.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(files[name])
    return dict(json.loads(files["run.json"]))


def trained(folder: Path, **start: Any) -> tuple[TrialConfig, Generator, str]:
    """Run SkyRL's `train` to a segment's end; return the trial, what was generated, and what SkyRL printed."""
    from loguru import logger
    from skyrl.train.trainer import RayPPOTrainer
    from skyrl.train.utils.callbacks import TrainingCallback
    from skyrl.train.utils.tracking import Tracking
    from skyrl_gym.envs import deregister, register
    from skyrl_gym.envs.base_text_env import BaseTextEnv
    from torchdata.stateful_dataloader import StatefulDataLoader

    config = DRIVER.as_done(trial("skyrl", "dapo"))  # whose wrong answers are −1
    config = config.model_copy(update={"recipe": one_update(config)})
    task, run = opened_task(config), laid_run(config, folder, **start)
    cfg = configured(run)
    problems = [*task.train, *task.validation]
    generator = Generator({number: problem.answer for number, problem in enumerate(problems)})

    class Without(Weightless, in_order(RayPPOTrainer, StatefulDataLoader)):
        """It goes on from a folder."""

        def load_checkpoints(self) -> tuple[int, str]:
            kept = Path(self.cfg.trainer.resume_path)
            self.train_dataloader.load_state_dict(torch.load(kept / "data.pt", weights_only=False))
            return int(kept.name.split("_")[-1]), str(kept)

        def save_models(self) -> None: ...

    register(id=NAME, entry_point=environment(BaseTextEnv, folder))
    printed = io.StringIO()
    try:
        trainer = Without(
            cfg=cfg,
            tracker=Tracking("rlplan", "trial", "console"),
            tokenizer=MagicMock(decode=lambda ids, **_: "text"),
            train_dataset=prompts_of(Rows(list(range(len(task.train)))), run),
            eval_dataset=Rows([len(task.train), len(task.train) + 1]),
            inference_engine_client=MagicMock(sleep=AsyncMock()),
            generator=generator,
            callbacks=[follower(TrainingCallback, run, folder)()],
        )
        logger.add(printed, format="{message}")  # SkyRL has removed all others by now
        trainer.dispatch = MagicMock(save_weights_for_sampler=AsyncMock(), get_lcm_dp_size=lambda: 1)
        asyncio.run(trainer.train())
    finally:
        logger.remove()
        deregister(NAME)
    return config, generator, printed.getvalue()


class Batch(dict[str, Any]):
    """What SkyRL trains on, of which nothing is looked at here."""

    def __init__(self, **given: Any) -> None:
        super().__init__(given)
        self.metadata: dict[str, Any] = {"uids": None}


class Weightless:
    """What takes a trainer of SkyRL's through its loop with neither a model nor a GPU."""

    all_metrics: dict[str, float]

    def init_weight_sync_state(self) -> None: ...

    def convert_to_training_input(self, output: Any, uids: Any) -> Any:
        return Batch(rewards=None)

    def fwd_logprobs_values_reward(self, batch: Any) -> Any:
        return batch

    compute_advantages_and_returns = fwd_logprobs_values_reward

    def train_critic_and_policy(self, batch: Any) -> dict[str, float]:
        self.all_metrics["policy/final_loss"] = 0.5
        return {}

    def _cleanup_old_checkpoints(self) -> None: ...


def one_update(config: TrialConfig) -> Any:
    """Return the recipe with one update for each batch, and groups without signal kept."""
    recipe = config.recipe
    schedule = recipe.schedule.model_copy(update={"updates_per_batch": 1})
    filters = recipe.filters.model_copy(update={"zero_variance": "keep"})
    return recipe.model_copy(update={"schedule": schedule, "filters": filters})


def ordered(folder: Path) -> list[int]:
    return ordered_problems(json.loads((folder / "run.json").read_text()))


def trained_on(folder: Path, generator: Generator) -> list[int]:
    count = json.loads((folder / "run.json").read_text())["order"]["count"]
    return [number for number in generator.asked if number < count]


def test_its_own_loop_scores_the_base_model_keeps_the_order_and_ends_where_the_segment_does(tmp_path: Path) -> None:
    config, generator, printed = trained(tmp_path, to_step=4)  # scored after every third update

    (source,) = DRIVER.sources(config, attempt(tmp_path))
    said = source.read()
    assert [(each.step, each.score) for each in said] == [
        (0, None),
        (0, 0.5),
        (1, None),
        (2, None),
        (3, 0.5),
        (4, None),
    ]
    assert said[1].score_standard_error == 0.0  # both problems were answered half rightly
    assert (said[2].response_tokens, said[2].metrics["loss"]) == (2.0, 0.5)
    assert said[2].seconds["generate"] >= 0
    assert said[2].metrics.get("reward") is not None
    assert [each.step for each in DRIVER.checkpoints(config, tmp_path)] == [4]
    assert trained_on(tmp_path, generator)[::4] == ordered(tmp_path)[: 8 * 4]  # the plan's order, four answers to each
    assert "Step 3:" in printed  # its own console names the same steps
    assert "eval/all/avg_score" in printed

    from skyrl_gym.envs.base_text_env import BaseTextEnv

    scored = environment(BaseTextEnv, tmp_path)  # an answer is rewarded as the recipe has it, and scored plainly
    said = [scored(None, {"number": number}).step("no") for number in (0, len(opened_task(config).train))]
    assert [(each["reward"], each["done"]) for each in said] == [(-1.0, True), (0.0, True)]


def test_its_own_loop_goes_on_from_a_checkpoint_with_the_next_prompts(tmp_path: Path) -> None:
    trained(tmp_path, to_step=4)
    kept = tmp_path / "checkpoints/global_step_4"
    config, generator, _ = trained(tmp_path, number=2, from_step=4, to_step=7, checkpoint=kept)

    (source,) = DRIVER.sources(config, attempt(tmp_path, number=2))
    assert [(each.step, each.score) for each in source.read()] == [(4, None), (5, None), (6, 0.5), (7, None)]
    assert trained_on(tmp_path, generator)[::4] == ordered(tmp_path)[8 * 4 : 8 * 7]
    assert [each.step for each in DRIVER.checkpoints(config, tmp_path)] == [7, 4]


def test_one_that_stands_elsewhere_than_at_the_checkpoint_is_refused(tmp_path: Path) -> None:
    from skyrl.train.utils.callbacks import TrainingCallback

    run = {"from_step": 3, "metrics": "m", "save_seconds": 1.0}
    with pytest.raises(RuntimeError, match="rlplan checkpoint: it stands at step 0 instead of 3"):
        follower(TrainingCallback, run, tmp_path)().on_train_start(None, SimpleNamespace(global_step=0), None)


def test_it_saves_after_the_update_under_way_when_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / SAVE_NOW).touch()
    config, _, _ = trained(tmp_path, to_step=3)
    assert [each.step for each in DRIVER.checkpoints(config, tmp_path)] == [3, 2, 1]
