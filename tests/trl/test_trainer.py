"""TRL itself, driven: it keeps the promises of every backend, and to stop it changes nothing that it computes."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from budgets.errors import TrainingError
from planner.config.trainer import TrainerChoice
from planner.recipes.library import load_recipe
from planner.recipes.schema import Recipe
from runner.ports.backend import Point
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.backend import DrivenBackend
from runner.trainers.trl.driver import DRIVER
from runner.training.trial import OpenTrial
from tests.conformance.trainer_backend import *  # noqa: F403


def trial(recipe: Recipe | None = None, processes: int = 1, **options: object) -> TrialConfig:
    return TrialConfig(
        task=TaskChoice(name="sum-easy"),
        recipe=recipe or Recipe(name="plain"),
        rollouts_per_prompt=4,
        prompts_per_batch=4,
        learning_rate=3e-4,
        validation=ValidationPlan(problems=10, samples=2, every_rollouts=32),
        machine=Machine(gpus=processes),
        trainer=TrainerChoice(name="trl", python=sys.executable, options=options),
    )


@pytest.fixture
def config() -> TrialConfig:
    return trial()


@pytest.fixture
def new_backend() -> Iterator[Callable[[], DrivenBackend]]:
    made: list[DrivenBackend] = []

    def new() -> DrivenBackend:
        made.append(DrivenBackend(DRIVER))
        return made[-1]

    yield new
    for backend in made:
        backend.close()


def weights(folder: Path, step: int) -> dict[str, torch.Tensor]:
    return load_file(folder / "trainer" / f"checkpoint-{step}" / "model.safetensors")


def computed(points: list[Point]) -> list[object]:
    """What of points follows from the computation alone."""
    return [
        (p.optimizer_step, p.tokens, p.score, {name: v for name, v in p.metrics.items() if name != "seconds"})
        for p in points
    ]


@contextmanager
def opened(config: TrialConfig, folder: Path) -> Iterator[OpenTrial]:
    """Go on from the newest checkpoint, or start."""
    backend = DrivenBackend(DRIVER)
    begun = (folder / "trainer").exists()
    if not begun:
        backend.start(config, folder)
    trial = OpenTrial(backend, folder, backend.restore(config, folder) if begun else None)
    try:
        yield trial
    finally:
        trial.close()


def kill(folder: Path) -> None:
    """Kill the processes that train, as a lost machine does, and wait for the end of the one that started them."""
    program = str(folder / "trainer" / "train.py").encode()
    found = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if program in path.read_bytes()]
    assert found
    for process in found:
        os.kill(int(process.name), signal.SIGKILL)


def disturbed(config: TrialConfig, folder: Path, saved: Sequence[int], to_step: int) -> list[Point]:
    """Train with a save at each of some steps, kill it after the last, go on to the end, and return all points."""
    points: list[Point] = []
    with opened(config, folder) as first:
        for step in saved:
            points += first.train(step)
            first.save()
        more = first.train(1000)
        next(more)
        kill(folder)
        with pytest.raises(TrainingError):
            list(more)
    with opened(config, folder) as second:
        assert second.step == saved[-1]
        return [*points, *second.train(to_step)]


def assert_equal_weights(folder: Path, step: int) -> None:
    """Compare a trial that was disturbed with one that was not, bit by bit."""
    ours, theirs = weights(folder / "disturbed", step), weights(folder / "whole", step)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    ("recipe", "processes"), [("plain", 1), ("gspo", 1), ("plain", 2)], ids=["plain", "gspo", "two processes"]
)
def test_held_stopped_killed_and_resumed_it_is_the_same_trial(recipe: str, processes: int, tmp_path: Path) -> None:
    chosen = None if recipe == "plain" else load_recipe(recipe)
    config = trial(chosen, processes)
    with opened(config, tmp_path / "whole") as undisturbed:
        whole = list(undisturbed.train(12))
    points = disturbed(config, tmp_path / "disturbed", (3, 9), 12)  # which waits at the gate between
    assert computed(points) == computed(whole)
    assert_equal_weights(tmp_path, 12)


def test_a_torn_checkpoint_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    config = trial(hold=False)  # a start for every segment
    with opened(config, tmp_path) as first:
        for step in (2, 4):
            list(first.train(step))
            first.save()
    torn = tmp_path / "trainer" / "checkpoint-4" / "optimizer.pt"
    torn.write_bytes(torn.read_bytes()[:100])
    with opened(config, tmp_path) as second:
        assert second.step == 4
        with pytest.raises(TrainingError, match="TRL could not go on") as failure:
            list(second.train(6))
        assert failure.value.kind == "checkpoint"
    with opened(config, tmp_path) as third:
        assert third.step == 2


@pytest.mark.parametrize("processes", [1, 2])
def test_trl_accepts_what_rlplan_gives_it(processes: int) -> None:
    assert DRIVER.rehearse(trial(processes=processes)) == []


def test_what_trl_refuses_is_told_in_its_words_by_a_rehearsal_and_by_an_attempt(tmp_path: Path) -> None:
    (refusal,) = DRIVER.rehearse(trial(settings={"hub_strategy": "sometimes"}))
    assert "TRL refused its configuration: ValueError: sometimes is not a valid HubStrategy" in refusal
    with opened(trial(settings={"no_such_argument": 1}), tmp_path) as refused:
        with pytest.raises(
            TrainingError, match=r"TRL refused its configuration: TypeError.*no_such_argument"
        ) as failure:
            list(refused.train(1))
        assert failure.value.kind == "input"
