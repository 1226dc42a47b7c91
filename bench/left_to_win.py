"""What ending final runs saves and loses where the belief of all curves says that nothing is left to win.

    python -m bench.left_to_win [--tables limited limited-unseen new-tasks simulated] [--chances 0.005 0.01 0.02]

The policy is played with a tenth of the full grid's cost, and the recorded run of what it chooses is followed from a
quarter of the target on. At each of 15 places it is asked whether 0.02 more is likely. Beside what is saved of the
compute and lost of the score stands how far the forecast of the end is off.
"""

import argparse
import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from bench.deciding import ours, tables
from bench.deciding.pilots import scores_until
from planner.belief.forecasts import EARLIEST_SHARE, RemainingGain
from planner.belief.pool import Pool
from planner.policy.final import left_by
from planner.view import TrialState

SHARE = 0.1  # of the full grid's cost
SCORES = 40  # of a run


@dataclass(frozen=True)
class Look:
    """What is said of a run at one place, and its score there."""

    share: float
    score: float
    left: RemainingGain


@dataclass(frozen=True)
class Followed:
    """A run that was followed, and its score at the end."""

    table: str
    end: float
    looks: list[Look]

    def stopped(self, chance: float) -> tuple[float, float]:
        """Return what ending it below a chance saves of the compute, and loses of the score."""
        at = next((each for each in self.looks if each.left.chance < chance), None)
        return (0.0, 0.0) if at is None else (1 - at.share, self.end - at.score)


def followed(name: str) -> Followed | None:
    """Play a table and follow the chosen run; None where that is not recorded to the target."""
    recorded, target = tables.table(name, 0)
    policy, chooser = ours.opened(ours.RLPLAN)
    budget = SHARE * recorded.full_cost(target)
    chosen, view = ours.seen_to_the_end(policy, chooser, recorded, budget=budget, target=target, seed=0, workers=1)
    pilot = max((each for each in view.trials.values() if each.configuration == chosen), key=lambda each: each.step)
    run = dict(zip(view.trials, recorded.in_order(0), strict=False))[pilot.trial]
    if run.length < 0.95 * target:
        return None
    looks, pool = [], Pool()
    for share in np.linspace(EARLIEST_SHARE, 0.95, 15):
        scores = scores_until(run, share * target, SCORES)
        if len(scores) < 3 or (looks and scores[-1].gpu_hours <= looks[-1].share * target):
            continue
        step = max(pilot.step, int(pilot.most_steps * share))
        rest = (target - scores[-1].gpu_hours) / max(1, pilot.most_steps - scores[-1].step)
        trial = replace(pilot, state=TrialState.PAUSED, scores=scores, step=step, gpu_hours_per_step=rest)
        left = left_by(view, pool, trial)
        if left is not None:
            looks.append(Look(scores[-1].gpu_hours / target, run.score_near(scores[-1].gpu_hours), left))
    return Followed(name, run.score_near(target), looks)


def report(runs: Sequence[Followed], chances: Sequence[float]) -> None:
    """Print a line for each bar, and how well ends are foretold."""
    off = [look.left.end.score - run.end for run in runs for look in run.looks]
    print(
        f"{len(runs)} runs; forecasts of the end are off by {np.sqrt(np.mean(np.square(off))):.4f} (root mean square)"
    )
    for chance in chances:
        saved, lost = np.array([run.stopped(chance) for run in runs]).T
        print(
            f"P < {chance:g}: saved {saved.mean():.1%}, lost {lost.mean():+.4f} on average, {lost.max():+.3f} at worst"
        )


def main() -> None:
    """Follow and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=["limited", "limited-unseen", "new-tasks", "simulated"])
    parser.add_argument("--chances", nargs="+", type=float, default=[0.005, 0.01, 0.02, 0.05])
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    names = [name for name in tables.suite_names(given.tables) if not name.endswith("@0.1")]
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        report([each for each in pool.imap(followed, names) if each is not None], given.chances)


if __name__ == "__main__":
    main()
