"""What a trial that is trained a segment at a time costs besides its training: by trainer, with and without a gate."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.config.trainer import BUILTIN, TrainerChoice
from planner.recipes.library import load_recipe
from runner.backends import open_backend
from runner.ports.trial import Costs, SimulationChoice, TaskChoice, TrialConfig, ValidationPlan
from runner.training.trial import OpenTrial

BAR = 0.90
INSIDE = ("generate", "reward", "reference", "train", "sync", "evaluate", "save")
WAYS: dict[str, dict[str, Any]] = {
    "builtin": {"name": BUILTIN},
    "trl": {"name": "trl"},
    "trl without gate": {"name": "trl", "options": {"hold": False}},
    "standin": {"name": "standin", "options": {"time_scale": 1}},
    "standin without gate": {"name": "standin", "options": {"time_scale": 1, "gated": False}},
}


@dataclass(frozen=True)
class Cost:
    """Of one trial: seconds from each grant to the first update, and where all of them went."""

    first: float
    later: list[float]
    inside: float  # share of what was allocated


def measure(ways: list[str], python: str | None, segments: int, updates: int) -> None:
    """Print the table."""
    print(f"sum-easy, n = 16, B = 16, {segments} segments of {updates} updates, 128 × 4 answers every 10 updates")
    print("| trainer | first grant → update | later grants → update | inside, of all |\n|---|---|---|---|")
    for way in ways:
        cost = cost_of(way, python, segments, updates)
        later = statistics.median(cost.later)
        print(f"| {way} | {cost.first:.1f} s | {later:.2f} s | {cost.inside:.1%} |", flush=True)
        if way == "trl":
            print(f"bar: {BAR:.0%} of what was allocated, with the gate: {'met' if cost.inside >= BAR else 'missed'}")


def cost_of(way: str, python: str | None, segments: int, updates: int) -> Cost:
    """Train one trial as a worker does: a segment, a save, the next segment in the same or in a new process."""
    config = configured(way, python)
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        backend = open_backend(config)
        backend.start(config, Path(folder))
        trial = OpenTrial(backend, Path(folder), None)
        grants: list[float] = []
        inside = 0.0
        for number in range(segments):
            granted = time.monotonic() if number else began
            for point in timed(trial, (number + 1) * updates, granted, grants):
                spent = point.metrics["seconds"]
                inside += sum(spent.get(name, 0.0) for name in INSIDE) or spent["other"]
            trial.save()
        ended = time.monotonic()
        trial.close()
    return Cost(grants[0], grants[1:], inside / (ended - began))


def timed(trial: OpenTrial, to_step: int, granted: float, grants: list[float]) -> Iterator[Any]:
    """Yield the points of a segment, and note when its first update is there."""
    new = True
    for point in trial.train(to_step):
        if new and point.optimizer_step > 0:
            grants.append(time.monotonic() - granted)
            new = False
        yield point


def configured(way: str, python: str | None) -> TrialConfig:
    """Return the trial, for which the stand-in takes as long as TRL does on one core."""
    choice = TrainerChoice.model_validate({**WAYS[way], **({"python": python} if way.startswith("trl") else {})})
    costs = Costs(seconds_per_update=0.3, seconds_per_rollout=1e-4, seconds_per_answer=0.001, start_up_seconds=5.0)
    return TrialConfig(
        task=TaskChoice(name="sum-easy"),
        recipe=load_recipe("easy"),
        rollouts_per_prompt=16,
        prompts_per_batch=16,
        learning_rate=3e-4,
        validation=ValidationPlan(every_rollouts=2560),
        simulation=SimulationChoice(costs=costs) if way.startswith("standin") else None,
        trainer=None if choice.name == BUILTIN else choice,
    )
