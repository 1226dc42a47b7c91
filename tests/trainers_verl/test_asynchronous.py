"""verl's own asynchronous trainer and its buffer, on what rlplan writes for a recipe with a staleness bound."""

import logging
import random
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest
from verl.trainer.ppo.v1 import PPOTrainer, get_trainer_cls, replay_buffer, trainer_separate_async

from runner.ports.trial import TrialConfig
from runner.trainers.catalogue import driver_of
from tests.runner.trainers.standins import attempt, launched
from tests.trainers_verl.trials import trial, words

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs
BOUND, B, STEPS = 3, 4, 12


def stale(bound: int = BOUND) -> TrialConfig:
    """Return a trial whose generators may be so many updates behind."""
    config = trial("scalerl", prompts_per_batch=B, rollouts_per_prompt=4)
    schedule = config.recipe.schedule.model_copy(update={"staleness_bound": bound})
    return config.model_copy(update={"recipe": config.recipe.model_copy(update={"schedule": schedule})})


def made(start: ModuleType, config: TrialConfig, folder: Path) -> Any:
    """Return verl's trainer as its task runner makes it."""
    composed = start.composed(words(config, folder))
    return get_trainer_cls(composed.trainer.v1.trainer_mode)(config=composed)


def test_its_trainer_takes_the_mode_and_splits_the_gpus(start: ModuleType, saving: Path) -> None:
    trainer = made(start, stale(), saving)
    assert isinstance(trainer, trainer_separate_async.PPOTrainerSeparateAsync)
    assert isinstance(trainer.replay_buffer, replay_buffer.ReplayBufferAsync)
    assert trainer.parameter_sync_step == 1  # one update for each hand-over of the weights
    placed = trainer.config.trainer, trainer.config.actor_rollout_ref.rollout
    assert [(each.nnodes, each.n_gpus_per_node) for each in placed] == [(1, 4), (1, 4)]


def test_at_the_level_of_its_log_that_is_set_it_starts_without_engines_on_the_gpus_that_train(
    start: ModuleType, saving: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LLMServerManager", "CheckpointEngineManager"):
        monkeypatch.setattr(trainer_separate_async, name, MagicMock())
    monkeypatch.setattr(PPOTrainer, "_setup", lambda own: setattr(own, "actor_rollout_wg", None))
    trainer = made(start, stale(), saving)
    trainer.llm_server_manager = MagicMock(rollout_replicas=[])
    with pytest.raises(TypeError, match="flush"):  # else the level need not be set
        trainer._setup()
    level = launched(stale(), attempt(saving)).environment["VERL_LOGGING_LEVEL"]
    monkeypatch.setattr(trainer_separate_async.logger, "level", logging.getLevelName(level))
    trainer_separate_async.logger.manager._clear_cache()
    trainer._setup()
    assert trainer.current_mode is trainer_separate_async.HybridEngineMode.TRAINER
    assert "VERL_LOGGING_LEVEL" not in launched(trial(), attempt(saving)).environment


class Queue:
    """TransferQueue's prompts, of which any that is under way may be the next to be answered."""

    def __init__(self, seed: int) -> None:
        self.prompts: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self._chance = random.Random(seed)

    def ask(self, count: int, step: int) -> None:
        """Ask so many prompts."""
        for _ in range(count):
            self.asked.append(f"p{len(self.asked)}")
            self.prompts[self.asked[-1]] = {"is_prompt": True, "status": "running", "global_steps": step}

    def answer(self, *_: Any) -> float:
        """Answer one prompt."""
        under_way = [uid for uid, tag in self.prompts.items() if tag["status"] == "running"]
        self.prompts[self._chance.choice(under_way)]["status"] = "finished"
        return 0.0

    def kv_list(self) -> dict[str, Any]:
        """Return everything, as verl asks for it."""
        return {"train": self.prompts}

    def kv_clear(self, keys: list[str], **_: Any) -> None:
        """Forget prompts."""
        for key in keys:
            self.prompts.pop(key, None)


def spans(trainer: Any, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], int]:
    """Have verl's buffer draw batches; return how far behind each prompt was, and how many were dropped."""
    monkeypatch.setattr(replay_buffer, "tq", queue)
    buffer, chosen = trainer.replay_buffer, []
    buffer.refill_fn = lambda count: queue.ask(count, trainer.global_steps)
    monkeypatch.setattr(buffer, "_wait_for_next_poll", queue.answer)
    take = buffer._select_prompt_uids

    def select(partition: str, ready: set[str], size: int) -> Any:
        found = take(partition, ready, size)
        chosen.extend(trainer.global_steps - found[2][uid] for uid in found[0])
        return found

    monkeypatch.setattr(buffer, "_select_prompt_uids", select)
    ahead = trainer.config.trainer.v1.separate_async.num_warmup_batches
    for trainer.global_steps in range(1, STEPS + 1):
        queue.ask(B * (1 + ahead * (trainer.global_steps == 1)), trainer.global_steps)
        buffer.sample(trainer.global_steps, "train", B)
    return chosen, len(queue.asked) - B * (STEPS + ahead)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bound", [1, BOUND])
def test_no_prompt_is_further_behind_than_the_bound_and_none_is_dropped(
    bound: int, seed: int, start: ModuleType, saving: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind, dropped = spans(made(start, stale(bound), saving), Queue(seed), monkeypatch)
    assert (max(behind), len(behind), dropped) == (bound, B * STEPS, 0)


def test_verl_by_itself_drops_what_is_slow(start: ModuleType, saving: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = made(start, stale(), saving)
    monkeypatch.undo()
    assert spans(trainer, Queue(0), monkeypatch)[1] > 0


def test_what_is_under_way_belongs_to_a_whole_checkpoint(saving: Path) -> None:
    folder = saving / "checkpoints/global_step_2"
    for name in ("actor", "transfer_queue"):
        (folder / name).mkdir(parents=True)
    (folder / "data.pt").touch()
    driver, config = driver_of(stale()), stale()
    assert [each.step for each in driver.checkpoints(config, saving)] == [2]
    (folder / "transfer_queue").rmdir()
    assert driver.checkpoints(config, saving) == []
    assert [each.step for each in driver.checkpoints(trial(), saving)] == [2]
    assert "transfer_queue" in driver.holds(config)
