"""The built-in backend keeps the promises of the port."""

import gc
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from planner.recipes import load_recipe
from runner.backends.builtin import BuiltinBackend
from runner.ports.backend import Segment
from runner.ports.trial import TrialConfig
from runner.training.trainer import Trainer
from tests.conformance.trainer_backend import *  # noqa: F403
from tests.runner.words import save_words, words_config

MEASURES = {
    *("loss", "reward", "pass_rate", "zero_variance_share", "entropy", "clipped_low_share", "clipped_high_share"),
    *("mismatch_kl", "response_tokens", "truncated_share", "grad_norm", "learning_rate", "staleness", "queue_depth"),
    *("generated_rollouts", "trained_rollouts", "seconds"),
}


@pytest.fixture
def new_backend() -> type[BuiltinBackend]:
    return BuiltinBackend


@pytest.fixture
def config(tmp_path_factory: pytest.TempPathFactory) -> TrialConfig:
    return words_config(save_words(Path(tmp_path_factory.mktemp("words"))), load_recipe("dr-grpo"))


def test_every_update_is_measured(config: TrialConfig, tmp_path: Path) -> None:
    backend = BuiltinBackend()
    backend.start(config, tmp_path)
    *_, point = backend.advance(Segment(2))
    backend.close()
    assert point.metrics.keys() >= MEASURES
    assert {"train", "sync", "evaluate"} <= point.metrics["seconds"].keys()
    assert asdict(point)["metrics"] == point.metrics  # plain data, fit for a database


def test_the_gpu_memory_of_a_closed_trial_is_free_for_the_next(
    config: TrialConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []  # trainers in memory when torch is asked to give back what it holds
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: left.append(trainers()))
    before, backend = trainers(), BuiltinBackend()
    backend.start(config, tmp_path)
    list(backend.advance(Segment(1)))
    left.clear()
    backend.close()
    assert left == [before]


def trainers() -> int:
    return sum(type(each) is Trainer for each in gc.get_objects())  # isinstance would ask objects of torch
