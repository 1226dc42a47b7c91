"""What is promised of a final run when it is launched, and what is believed of its end after each validation; pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.pooling.draws import Worlds
from planner.pooling.pool import Pool
from planner.recommending.prospect import LEVEL, interval
from planner.sweeping.chances import NEAR
from planner.trials import TrialState
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
class Rival:
    """Another configuration that is expected to end higher with the money that is left, from its beginning."""

    configuration: Configuration
    gain: float  # of expected score at the end

    @property
    def is_worth_it(self) -> bool:
        """Whether the gain passes the bar, which is what counts as equivalent."""
        return self.gain > NEAR


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is believed of a run's end now, how likely it falls notably short of the promise, and what else would do."""

    end: Foretold
    probability_below: float
    rival: Rival | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A run under way, and what is left for another."""

    run: TrialView
    end_gpu_hours: float  # of the run
    promised: float
    left_gpu_hours: float  # for another, its start-up paid


def outlook(known: View, asked: Asked, pool: Pool, draws: int) -> Outlook:
    """Forecast the end of a run from all curves, those of the pilots and its own, which is evidence like theirs."""
    run = asked.run
    trials: Mapping[int, TrialView] = {**known.trials, run.trial: run}
    worlds = pool.worlds(replace(known, trials=trials), draws)
    place, curve = np.array([worlds.place[run.configuration]]), np.array([worlds.run_of[run.trial]])
    share = asked.end_gpu_hours / worlds.target
    scores = np.clip(worlds.observed(place, curve, np.array([[share]]))[:, 0, 0], 0.0, 1.0)
    low, high = np.quantile(scores, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    below = float((scores <= asked.promised - NEAR).mean())
    end = Foretold(float(scores.mean()), float(low), float(high))
    return Outlook(end, below, _rival(known, worlds, asked, end.score))


def _rival(known: View, worlds: Worlds, asked: Asked, end: float) -> Rival | None:
    """Return the configuration that is expected to end highest, of those that can be run with what is left."""
    prices = {trial.configuration: trial.compared_per_step for trial in known.trials.values()}
    failed = {each.configuration for each in known.trials.values()}
    failed -= {each.configuration for each in known.trials.values() if each.state is not TrialState.FAILED}
    prices |= {configuration: cell.compared_per_step for configuration, cell in known.open_cells.items()}
    able = [
        column
        for column, each in enumerate(worlds.configurations)
        if each != asked.run.configuration and each not in failed and prices.get(each, np.inf) <= asked.left_gpu_hours
    ]
    if not able:
        return None
    expected = worlds.scores([asked.left_gpu_hours])[:, able, 0].mean(axis=0)
    best = int(np.argmax(expected))
    return Rival(worlds.configurations[able[best]], float(expected[best]) - end)
