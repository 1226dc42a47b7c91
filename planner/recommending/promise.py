"""What is promised of a final run when it is launched, and what is believed of its end after each validation; pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.pooling.draws import Worlds
from planner.pooling.pool import Pool
from planner.recommending.prospect import LEVEL, interval
from planner.sweeping.chances import NEAR
from planner.view import Configuration, TrialView, View
from planner.watching.promised import Foretold

PARTS = 40  # of the run, at whose ends the promise is kept
BROKEN = 0.9  # probability of a notable shortfall at which it is warned of: right when it comes, and comes late


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised of the end, and of the way there by the share of the run."""

    end: Foretold
    band: tuple[tuple[float, float, float, float], ...]  # share, score, low, high

    @property
    def rows(self) -> list[list[float]]:
        """The band as plain data."""
        return [list(each) for each in self.band]


def promise(worlds: Worlds, configuration: Configuration, gpu_hours: float, seed_sd: float) -> Promise:
    """Return what a final run of so many GPU-hours promises: what the recommendation says of a new run of the cell."""
    shares = [part / PARTS for part in range(1, PARTS + 1)]
    draws = worlds.scores([share * gpu_hours for share in shares])[:, worlds.place[configuration], :]
    along = [Foretold(float(each.mean()), *interval(each, seed_sd)) for each in draws.T]
    band = tuple((share, each.score, each.low, each.high) for share, each in zip(shares, along, strict=True))
    return Promise(along[-1], band)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is believed of a run's end now, and how likely it falls notably short of the promise."""

    end: Foretold
    probability_below: float


def outlook(pilots: View, run: TrialView, end_gpu_hours: float, promised: float, pool: Pool, draws: int) -> Outlook:
    """Forecast the end of a run from all curves, those of the pilots and its own, which is evidence like theirs."""
    trials: Mapping[int, TrialView] = {**pilots.trials, run.trial: run}
    worlds = pool.worlds(replace(pilots, trials=trials), draws)
    place, curve = np.array([worlds.place[run.configuration]]), np.array([worlds.run_of[run.trial]])
    scores = np.clip(worlds.observed(place, curve, np.array([[end_gpu_hours / worlds.target]]))[:, 0, 0], 0.0, 1.0)
    low, high = np.quantile(scores, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    below = float((scores <= promised - NEAR).mean())
    return Outlook(Foretold(float(scores.mean()), float(low), float(high)), below)
