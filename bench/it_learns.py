"""Whether every embedded task is learned by every seed, along a saturating curve, and what asynchrony costs.

    python bench/it_learns.py [--seeds 5] [--tasks sum-easy …] [--workers 2]

Each run is a process's work of its own (n = 16, B = 16, one thread); as many run at once as there are workers. The
score of a run is the mean of its last three validations. Asynchrony: on the first task, a constant staleness of 8
against none, with the same recipe (ratio against the sampler), at a third of the task's learning rate and at all of
it: what staleness costs grows with the rate (arXiv 2607.01083).
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from planner.curves.curve import Curve
from planner.curves.fitting import fit_curves

N, B = 16, 16
VALIDATIONS = 20
STALENESS = 8
SLOWINGS = (3, 1)


@dataclass(frozen=True, slots=True)
class Learning:
    """What training reaches on a task: the validation score after so many rollouts, whatever the seed.

    With the advantage of GRPO, AdamW at `learning_rate` and no KL term.
    """

    score: float
    rollouts: int
    learning_rate: float


LEARNING = {
    "sum-easy": Learning(0.9, 40_000, 3e-4),
    "sum-hard": Learning(0.8, 40_000, 3e-4),
    "sum-steps": Learning(0.8, 40_000, 3e-4),
}


@dataclass(frozen=True)
class Job:
    """One run."""

    task: str
    seed: int
    staleness: int | None = None  # None: the plain recipe
    slowing: int = 1  # the task's learning rate is divided by this


@dataclass(frozen=True)
class Run:
    """What a run gave."""

    job: Job
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
    given = arguments(sorted(LEARNING))
    jobs = [Job(task, seed) for task in given.tasks for seed in range(given.seeds)]
    seeds, bounds = range(given.seeds), (0, STALENESS)
    jobs += [Job(given.tasks[0], seed, bound, slow) for slow in SLOWINGS for seed in seeds for bound in bounds]
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        runs = list(pool.map(train, jobs))
    missed = 0
    for task in given.tasks:
        learning = LEARNING[task]
        plain = [run for run in runs if run.job.task == task and run.job.staleness is None]
        missed += report(task, learning.score, learning.rollouts, plain)
    for slowing in SLOWINGS:
        both = [[run for run in runs if run.job.staleness == bound and run.job.slowing == slowing] for bound in bounds]
        beyond = compare(both[0], both[1], LEARNING[given.tasks[0]].learning_rate / slowing)
        missed += beyond if slowing == SLOWINGS[0] else 0
    return missed


def train(job: Job) -> Run:
    """Train one job from its task's model."""
    from planner.recipes.schema import Objective, Recipe, Schedule
    from runner.backends.builtin import BuiltinBackend
    from runner.ports.backend import Segment
    from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan

    learning = LEARNING[job.task]
    recipe = Recipe(
        name="grpo without KL",
        objective=Objective(against="trainer" if job.staleness is None else "sampler"),
        schedule=Schedule(staleness_bound=job.staleness or 0),
    )
    config = TrialConfig(
        task=TaskChoice(name=job.task),
        recipe=recipe,
        rollouts_per_prompt=N,
        prompts_per_batch=B,
        learning_rate=learning.learning_rate / job.slowing,
        seed=job.seed,
        validation=ValidationPlan(problems=256, samples=4, every_rollouts=learning.rollouts // VALIDATIONS),
    )
    backend = BuiltinBackend()
    with tempfile.TemporaryDirectory() as folder:
        backend.start(config, Path(folder))
        points = [p for p in backend.advance(Segment(math.ceil(learning.rollouts / (N * B)))) if p.score is not None]
        backend.close()
    scores = [point.score for point in points if point.score is not None]
    reached = next((p.rollouts for p, s in zip(points, scores, strict=True) if s >= learning.score), None)
    print(f"  {job}: {scores[0]:.3f} → {scores[-1]:.3f}", file=sys.stderr)
    return Run(job, [point.rollouts for point in points], scores, points[-1].seconds, reached)


def report(task: str, score: float, rollouts: int, runs: list[Run]) -> int:
    """Print a task's runs; return 1 when not every seed reached the stated score."""
    curves = [Curve.of(f"{task}-{run.job.seed}", run.rollouts, run.scores) for run in runs]
    fits = fit_curves(curves)
    reached = sum(run.end >= score for run in runs)
    print(f"\n{task}: stated {score:g} within {rollouts:,} rollouts; reached by {reached} of {len(runs)} seeds")
    for run, fit in zip(runs, fits, strict=True):
        first = f"{run.first_reached:,}" if run.first_reached is not None else "never"
        asymptote = fit.parameters["A"]
        print(
            f"  seed {run.job.seed}: {run.scores[0]:.3f} → {run.end:.3f}, first reached at {first:>7} rollouts, "
            f"{run.seconds:4.0f} s; {fit.verdict}, A {asymptote.median:.2f} [{asymptote.low:.2f}, {asymptote.high:.2f}]"
        )
    return int(reached < len(runs))


def compare(synchronous: list[Run], stale: list[Run], rate: float) -> int:
    """Print both ends and the paired difference; return 1 when it is more than the spread between seeds."""
    pairs = [(a.end, b.end) for a, b in zip(synchronous, stale, strict=True)]
    differences = [b - a for a, b in pairs]
    between = spread(a for a, _ in pairs)
    mean = statistics.mean(differences)
    within = abs(mean) <= between
    print(f"\nstaleness {STALENESS} against 0, {synchronous[0].job.task}, rate {rate:g}, {len(pairs)} seeds:")
    print(f"  synchronous {statistics.mean(a for a, _ in pairs):.3f}, stale {statistics.mean(b for _, b in pairs):.3f}")
    error = spread(differences) / math.sqrt(len(pairs))
    verdict = "within" if within else "MORE THAN"
    print(f"  difference {mean:+.3f} ± {error:.3f}: {verdict} the spread of one seed to the next, {between:.3f}")
    return int(not within)


def spread(values: Iterable[float]) -> float:
    """Return the standard deviation, 0 of a single value."""
    listed = list(values)
    return statistics.stdev(listed) if len(listed) > 1 else 0.0


def arguments(tasks: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", nargs="+", default=tasks, choices=tasks)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
