"""From what a policy sees to the joint belief of all its configurations."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.belief.draws import JointDraws, Runs, draw
from planner.belief.features import Features, features
from planner.belief.model import JointFit, JointModel
from planner.belief.points import Binned, binned, stacked
from planner.belief.surface import with_plan_prior
from planner.view import Configuration, PlanPrior, ScorePoint, TrialState, TrialView, View, by_configuration, has_curve

DRAWS = 1000
STREAM = 0x706F6F6C  # tells these random numbers from others of the same seed
MOST_RUNS = 6  # of one configuration that are fitted, the farthest first: more seeds say little about its neighbours
# Fitted together, as far as each configuration has one: a decision is to take tenths of a second at most.
MOST_CURVES = 120


def joint_of(view: View, draws: int = DRAWS) -> JointDraws:
    """Return draws of everything that the view's curves leave possible."""
    return Pool().joint_draws(view, draws)


class Pool:
    """Fits one view after another; what is kept from call to call saves time and never changes an answer."""

    def __init__(self) -> None:
        self._binned: dict[int, tuple[tuple[ScorePoint, ...], Binned]] = {}
        self._features: tuple[tuple[Configuration, ...], PlanPrior | None, Features] | None = None
        self._fit: tuple[tuple[object, ...], JointFit, Runs] | None = None
        self._drawn: dict[int, JointDraws] = {}

    def prepare(self, view: View) -> None:
        """Work out what needs no curve: the first decision with curves takes the longest."""
        if configurations := _configurations(view):
            self._design(configurations, view.plan_prior)

    def joint_draws(self, view: View, draws: int = DRAWS) -> JointDraws:
        """Return draws of everything that the view's curves leave possible."""
        configurations = _configurations(view)
        curves = _farthest(view)
        question = view.target_gpu_hours, view.seed, view.plan_prior, configurations
        key = (*question, *((curve.trial, curve.scores) for curve in curves))
        if self._fit is None or self._fit[0] != key:
            self._fit = key, *self._fitted(view, configurations, curves)
            self._drawn = {}
        if draws not in self._drawn:
            generator = np.random.default_rng([STREAM, view.seed])
            self._drawn[draws] = draw(
                self._fit[1], configurations, view.target_gpu_hours, self._fit[2], draws, generator
            )
        return self._drawn[draws]

    def _fitted(
        self, view: View, configurations: tuple[Configuration, ...], curves: Sequence[TrialView]
    ) -> tuple[JointFit, Runs]:
        place = {configuration: index for index, configuration in enumerate(configurations)}
        of: NDArray[np.intp] = np.array([place[trial.configuration] for trial in curves], dtype=np.intp)
        bins = [self._bins(trial) for trial in curves]
        points = stacked(bins, view.target_gpu_hours)
        runs = Runs(
            trials=tuple(trial.trial for trial in curves),
            of=of,
            reached=np.array([curve.reached for curve in bins]) / view.target_gpu_hours,
            collapsed=np.array([np.nan if curve.collapsed is None else curve.collapsed for curve in bins]),
        )
        return JointModel(self._design(configurations, view.plan_prior), points, of).fit(), runs

    def _design(self, configurations: tuple[Configuration, ...], plan_prior: PlanPrior | None) -> Features:
        if self._features is None or self._features[:2] != (configurations, plan_prior):
            smooth = features(configurations)
            design = smooth if plan_prior is None else with_plan_prior(smooth, configurations, plan_prior)
            self._features = configurations, plan_prior, design
        return self._features[2]

    def _bins(self, trial: TrialView) -> Binned:
        cached = self._binned.get(trial.trial)
        if cached is None or cached[0] is not trial.scores:
            cached = trial.scores, binned(trial.scores)
            self._binned[trial.trial] = cached
        return cached[1]


def _configurations(view: View) -> tuple[Configuration, ...]:
    """Return every configuration once: those with a trial, then the open ones."""
    return tuple(dict.fromkeys([*(trial.configuration for trial in view.trials.values()), *view.open_cells]))


def _farthest(view: View) -> list[TrialView]:
    """Return the trials with a curve, of each configuration the few that were trained farthest, first the farthest.

    What has failed comes last: no final run goes on from it.
    """
    runs = by_configuration(trial for trial in view.trials.values() if has_curve(trial))
    most = min(MOST_RUNS, max(1, MOST_CURVES // max(1, len(runs))))
    chosen = []
    for trials in runs.values():
        chosen += sorted(trials, key=lambda trial: (trial.state is TrialState.FAILED, -trial.step, trial.trial))[:most]
    return chosen
