"""Whether every embedded task is learned by every seed, along a saturating curve.

    python bench/it_learns.py [--seeds 5] [--tasks sum-easy …] [--workers 2]

Each run is a process's work of its own (n = 16, B = 16, one thread); as many run at once as there are workers. The
score of a run is the mean of its last three validations.
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from planner.curves.curve import Curve
from planner.curves.fit import fit_curves

N, B = 16, 16
VALIDATIONS = 20


ROLLOUTS, LEARNING_RATE = 40_000, 3e-4
STATED = {"sum-easy": 0.9, "sum-hard": 0.8, "sum-steps": 0.8}  # score after ROLLOUTS, whatever the seed, without KL


@dataclass(frozen=True)
class Run:
    """What a run gave."""

    task: str
    seed: int
    rollouts: list[int]
    scores: list[float]
    seconds: float
    first_reached: int | None

    @property
    def end(self) -> float:
        """Mean of the last three validations."""
        return statistics.mean(self.scores[-3:])


def main() -> int:
    """Run everything and print the table; return how many bars were missed."""
    given = arguments(sorted(STATED))
    jobs = [(task, seed) for task in given.tasks for seed in range(given.seeds)]
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        runs = list(pool.map(train, jobs))
    return sum(report(task, [run for run in runs if run.task == task]) for task in given.tasks)


def train(job: tuple[str, int]) -> Run:
    """Train on a task from its model, with a seed."""
    from planner.recipes.schema import Objective, Recipe
    from runner.backends.builtin import BuiltinBackend
    from runner.ports.backend import Segment
    from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan

    task, seed = job
    config = TrialConfig(
        task=TaskChoice(name=task),
        recipe=Recipe(name="grpo without KL", objective=Objective(against="trainer")),
        rollouts_per_prompt=N,
        prompts_per_batch=B,
        learning_rate=LEARNING_RATE,
        seed=seed,
        validation=ValidationPlan(problems=256, samples=4, every_rollouts=ROLLOUTS // VALIDATIONS),
    )
    backend = BuiltinBackend()
    with tempfile.TemporaryDirectory() as folder:
        backend.start(config, Path(folder))
        points = [p for p in backend.advance(Segment(math.ceil(ROLLOUTS / (N * B)))) if p.score is not None]
        backend.close()
    scores = [point.score for point in points if point.score is not None]
    reached = next((p.rollouts for p, s in zip(points, scores, strict=True) if s >= STATED[task]), None)
    print(f"  {task}, seed {seed}: {scores[0]:.3f} → {scores[-1]:.3f}", file=sys.stderr)
    return Run(task, seed, [point.rollouts for point in points], scores, points[-1].seconds, reached)


def report(task: str, runs: list[Run]) -> int:
    """Print a task's runs; return 1 when not every seed reached the stated score."""
    curves = [Curve.of(f"{task}-{run.seed}", run.rollouts, run.scores) for run in runs]
    fits = fit_curves(curves)
    reached = sum(run.end >= STATED[task] for run in runs)
    print(f"\n{task}: stated {STATED[task]:g} within {ROLLOUTS:,} rollouts; reached by {reached} of {len(runs)} seeds")
    for run, fit in zip(runs, fits, strict=True):
        first = f"{run.first_reached:,}" if run.first_reached is not None else "never"
        asymptote = fit.parameters["A"]
        print(
            f"  seed {run.seed}: {run.scores[0]:.3f} → {run.end:.3f}, first reached at {first:>7} rollouts, "
            f"{run.seconds:4.0f} s; {fit.verdict}, A {asymptote.median:.2f} [{asymptote.low:.2f}, {asymptote.high:.2f}]"
        )
    return int(reached < len(runs))


def arguments(tasks: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", nargs="+", default=tasks, choices=tasks)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
