"""What is promised of a final run when it is launched, and what is believed of its end after each validation; pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.belief.draws import OWN_DEPARTURE, JointDraws
from planner.belief.forecasts import PredictedScore, RemainingGain, remaining_gain
from planner.belief.pool import Pool
from planner.curves.curve import Vector, pass_rate_variance
from planner.metrics import EQUIVALENCE_MARGIN
from planner.prior.draws import interval as prior_interval
from planner.prior.draws import prior_draws
from planner.prior.laws import Run
from planner.prior.plan_prior import at_rate
from planner.recommend.choice import by_worth
from planner.recommend.facts import facts_in
from planner.recommend.prospect import Prospect, interval
from planner.view import Configuration, TrialView, View

PARTS = 40  # of the run, at whose ends the promise is kept
BROKEN = 0.9  # probability of a notable shortfall at which it is warned of: right when it comes, and comes late


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised of the end, and of the way there by the share of the run."""

    end: PredictedScore
    band: tuple[tuple[float, float, float, float], ...]  # share, score, low, high

    @property
    def rows(self) -> list[list[float]]:
        """The band as plain data."""
        return [list(row) for row in self.band]


def promise(
    joint: JointDraws,
    configuration: Configuration,
    gpu_hours: float,
    seed_sd: float,
    score_share: float = 0.0,
    going_on: int | None = None,
    parts: int = PARTS,
) -> Promise:
    """Return what a final run of so many GPU-hours promises.

    One that goes on from a trial is that very run: its curve is known so far, and its seed with it. Any other is a new
    run of the configuration, which has not the luck of the runs before it. The interval is for the score of one
    validation, which is what the run is held against, so that its error is in it: `score_share` is its variance as
    share of p(1 − p).
    """
    shares = [part / parts for part in range(1, parts + 1)]
    along = np.array([[share * gpu_hours for share in shares]]) / joint.target
    run = -1 if going_on is None else joint.run_of.get(going_on, -1)
    draws = joint.observed(np.array([joint.place[configuration]]), np.array([run]), along, OWN_DEPARTURE)[:, 0, :]
    draws, seed_sd = np.clip(draws, 0.0, 1.0), seed_sd if run < 0 else 0.0
    band = tuple(
        (share, *_interval(scores, seed_sd, score_share)) for share, scores in zip(shares, draws.T, strict=True)
    )
    return Promise(PredictedScore(*band[-1][1:]), band)


def promise_from_studies(run: Run, rate_factor: float, steps: int) -> Promise:
    """Return what a run of so many steps promises where nothing was trained yet: what its plan expects of it.

    A learning rate of its own is given as a factor on the rule's.
    """
    prior, shares = prior_draws((run,)), np.arange(1, PARTS + 1) / PARTS
    scores = prior.at([0] * PARTS, shares * steps)
    if rate_factor != 1:
        scores = at_rate(scores, run.circumstances.pass_rate, rate_factor, shares)
    ends = (prior_interval(draws, prior.weights) for draws in scores.T)
    means = (prior.weights @ scores).tolist()
    band = tuple((share, mean, *end) for share, mean, end in zip(shares.tolist(), means, ends, strict=True))
    return Promise(PredictedScore(*band[-1][1:]), band)


def _interval(draws: Vector, seed_sd: float, score_share: float) -> tuple[float, float, float]:
    """Return the mean, and the interval of one validation of a run."""
    sd = np.sqrt((seed_sd**2 + score_share) * pass_rate_variance(draws))
    return float(draws.mean()), *interval(draws, sd)


def score_share(trials: Iterable[TrialView]) -> float:
    """Return the variance of one validation as share of p(1 − p), by the errors that are said; 0 where none is."""
    points = [score for trial in trials for score in trial.scores if score.standard_error]
    shares = [(point.standard_error or 0.0) ** 2 / pass_rate_variance(np.array(point.score)) for point in points]
    return float(np.median(shares)) if shares else 0.0


@dataclass(frozen=True, slots=True)
class SwitchTarget:
    """Another configuration that is expected to end higher with the money that is left, from its beginning."""

    configuration: Configuration
    gain: float  # of expected score at the end

    @property
    def is_worth_it(self) -> bool:
        """Whether the gain passes the bar, which is what counts as equivalent."""
        return self.gain > EQUIVALENCE_MARGIN


@dataclass(frozen=True, slots=True)
class EndForecast:
    """What is believed of a run's end now, how likely it falls notably short of the promise, and what else would do.

    `left` is what going on should bring; None before its curve can tell.
    """

    end: PredictedScore
    probability_below: float
    rival: SwitchTarget | None
    left: RemainingGain | None


@dataclass(frozen=True, slots=True)
class ForecastQuery:
    """A run under way, and what is left for another."""

    run: TrialView
    end_gpu_hours: float  # of the run
    promised: float
    left_gpu_hours: float  # for another, its start-up paid


def outlook(pilots: View, query: ForecastQuery, pool: Pool, draws: int) -> EndForecast:
    """Forecast the end of a run from all curves, those of the pilots and its own, which is evidence like theirs."""
    run = query.run
    trials: Mapping[int, TrialView] = {**pilots.trials, run.trial: run}
    view = replace(pilots, trials=trials)
    joint = pool.joint_draws(view, draws)
    share = query.end_gpu_hours / joint.target
    scores = np.clip(joint.observed(*joint.rows_of([run]), np.array([[share]]))[:, 0, 0], 0.0, 1.0)
    below = float((scores <= query.promised - EQUIVALENCE_MARGIN).mean())
    end = PredictedScore.of(scores)
    gain = remaining_gain(joint, run, query.end_gpu_hours)
    # What would be chosen beside the run's own configuration with what is left, where that pays for a step.
    switch = None
    if query.left_gpu_hours > 0:
        prospect = Prospect.of(joint, facts_in(view), query.left_gpu_hours, octaves=(0, 0))
        rung = prospect.rung(0)
        others = (row for row in by_worth(prospect, rung) if prospect.configurations[row] != run.configuration)
        if (row := next(others, None)) is not None:
            switch = SwitchTarget(prospect.configurations[row], float(prospect.expected[rung, row]) - end.score)
    return EndForecast(end, below, switch, gain)
