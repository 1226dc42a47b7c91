"""What is known of each configuration beside its curve: its price, what was seen of it, what became of its runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from budgets.errors import BudgetError, NotFoundError
from planner.curves.curve import Vector, pass_rate_variance
from planner.curves.verdicts import State
from planner.metrics import SEED_SD
from planner.policy.chances import states_of
from planner.policy.final import LAST_MARGIN
from planner.policy.grants import MOST_IDLE_SHARE, idle_gpu_hours
from planner.view import Configuration, ScorePoint, TrialState, TrialView, View, by_configuration, has_curve

VALIDATIONS = 40  # over a final run


@dataclass(frozen=True, slots=True)
class FinalLength:
    """A final run in whole validations: no update beyond the one that it goes on from where too little is left."""

    steps: int
    segment_steps: int  # from one validation to the next
    gpu_hours_per_step: float  # with its share of the validations
    gpu_hours: float  # still to be paid, with its start-up
    least_gpu_hours: float  # that its first validation takes
    first_steps: int  # up to that


@dataclass(frozen=True, slots=True)
class FinalPrice:
    """GPU-hours of a final run's updates, of its validations and of its start-up."""

    update: float
    validation: float = 0.0  # 0: its share is within an update's
    start_up: float = 0.0
    slots: int = 0  # of its worker, which is paid also while it waits
    begun: int = 0  # the update that it goes on from, up to which all is paid
    most_steps: int | None = None  # beyond which it is not trained, whatever that costs

    @staticmethod
    def split(gpu_hours_per_step: float, scores: Sequence[ScorePoint]) -> tuple[float, float]:
        """Return the price of an update and of a validation, by what a pilot's validations took.

        A pilot is scored more often than the final run that its price is for.
        """
        scoring = [score.validation_gpu_hours for score in scores[1:] if score.validation_gpu_hours]
        took = scores[-1].gpu_hours - scores[0].gpu_hours if scoring else 0.0
        share = min(1.0, sum(scoring) / took) if took > 0 else 0.0
        if not 0 < share < 1:
            return gpu_hours_per_step, 0.0
        steps = scores[-1].step - scores[0].step
        return gpu_hours_per_step * (1 - share), gpu_hours_per_step * share * steps / len(scoring)

    def length(self, gpu_hours: float, validations: int = VALIDATIONS) -> FinalLength:
        """Return the run that the GPU-hours still to be paid are for, the last segment's margin left.

        T updates of V validations in all: (T - begun) (u + V v / T) = gpu_hours. No more than half of the money goes
        into validations.
        """
        idle = min(idle_gpu_hours(1, 0.0, self.slots), MOST_IDLE_SHARE * gpu_hours)
        money, begun = gpu_hours - idle, self.begun
        if self.validation:
            validations = max(1, min(validations, int(money / (2 * self.validation))))
        training, scoring = (
            (money - self.start_up) * (1 - (LAST_MARGIN - 1) / validations),
            validations * self.validation,
        )
        without = max(0.0, training) + begun * self.update - scoring
        paid = math.floor((without + math.sqrt(without**2 + 4 * self.update * begun * scoring)) / (2 * self.update))
        paid = max(begun, paid) if self.most_steps is None else min(max(begun, paid), self.most_steps)
        segment = max(1, paid // validations)
        steps = paid // segment * segment
        per_step, first = self.update + scoring / max(1, steps), segment - begun % segment
        least = LAST_MARGIN * (self.start_up + first * per_step)
        if steps <= begun or least > money:
            steps = begun
        price = self.start_up + (steps - begun) * per_step
        return FinalLength(steps, segment, per_step, price, idle + least, first)


LAST_PART = 0.1  # of a run, whose scores say where it has ended
ROUNDING = 1e-9  # of a step: quotients of floats


@dataclass(frozen=True, slots=True)
class ConfigurationFacts:
    """A configuration's price, measured or planned, and what its runs have shown so far."""

    learning_rate: float
    recipe: str
    gpu_hours_per_step: float  # of the final run
    status: str = "proposed"
    gpu_hours_spent: float = 0.0
    reached_gpu_hours: float = 0.0  # by its longest run that has a curve; 0 without one
    seeds_seen: int = 0  # runs with a curve
    end: tuple[tuple[float, float], ...] = ()  # of the longest that has not failed: its last tenth, GPU-hours and score
    collapsed_runs: int = 0
    declining_runs: int = 0
    failed: bool = False  # every run of it has failed, so that a final of it would
    final: FinalPrice | None = None  # of its final run, where one can be launched

    @property
    def has_own_curve(self) -> bool:
        """Whether it has a curve of its own."""
        return self.reached_gpu_hours > 0

    def ended_at(self, gpu_hours: float) -> float | None:
        """Return the mean score of the longest run where it has come to a compute, up to a tenth, and no farther."""
        near = (LAST_PART + ROUNDING) * gpu_hours
        if not self.end or abs(self.end[-1][0] - gpu_hours) > near:
            return None
        return fmean(score for at, score in self.end if at >= gpu_hours - near)

    def steps(self, gpu_hours: float) -> int:
        """Return the whole update steps that GPU-hours pay for, beside those that the run goes on from."""
        if self.final is not None:
            return self.final.length(gpu_hours).steps
        return math.floor(gpu_hours / self.gpu_hours_per_step + ROUNDING)


Facts = Mapping[Configuration, ConfigurationFacts]


def alike(level: int, undecided: int) -> str:
    """Say that any of so many level ones will do, or else that so many are not told apart; nothing of one."""
    if level > 1:
        return "either of two will do" if level == 2 else f"any of {level} will do"
    return f"{'two' if undecided == 2 else undecided} are not told apart yet" if level == 0 and undecided > 1 else ""


def require_choice(facts: Facts, target_gpu_hours: float, *, further: bool = False) -> None:
    """Raise unless some configuration has been seen, and one that has not failed can be afforded.

    A pilot may be all of the final run, unless a `further` update is asked for.
    """
    if not any(fact.has_own_curve for fact in facts.values()):
        failed = sum(fact.failed for fact in facts.values())
        remedy = (
            f"{failed} failed, and `rlplan retry` runs these again"
            if failed
            else "`rlplan resume` goes on with its sweep, and with `--add GPU-HOURS` also with one that has ended"
        )
        raise NotFoundError(
            f"no recommendation: none of {len(facts)} configurations has a score after its first update. {remedy}"
        )
    able = [fact for fact in facts.values() if not fact.failed]
    if not able:
        raise NotFoundError(
            f"no recommendation: all {len(facts)} configurations have failed; `rlplan retry` runs them again"
        )
    prices = [fact.final for fact in able if fact.final is not None] if further else []
    if prices and all(price.length(target_gpu_hours).steps <= price.begun for price in prices):
        cheapest = min(price.length(target_gpu_hours).least_gpu_hours for price in prices)
        raise BudgetError(
            f"{target_gpu_hours:.3g} GPU-hours do not pay for one update step of any configuration beyond its pilot: "
            f"the cheapest takes {cheapest:.3g}, up to its first validation"
        )
    if all(fact.steps(target_gpu_hours) < 1 for fact in able):
        cheapest = min(fact.gpu_hours_per_step for fact in able)
        raise BudgetError(
            f"{target_gpu_hours:.3g} GPU-hours do not pay for one update step of any configuration: the cheapest takes "
            f"{cheapest:.3g}"
        )


PRIOR_RISK = 0.02  # of a run of which nothing near is known
PRIOR_RUNS = 2.0  # how many runs that counts as
NEAR_OCTAVES = 1.0  # octaves of n and of B within which runs tell of each other
OWN_WEIGHT = 3.0  # how much a run of the configuration itself counts
OTHER_AXES_WEIGHT = 0.5  # how much a run with another recipe, model or learning rate counts


def collapse_risks(configurations: Sequence[Configuration], facts: Sequence[ConfigurationFacts]) -> Vector:
    """Return for each configuration the share of runs near it that collapsed; a run that declines counts half.

    A run d octaves away has the weight exp(−d²/2), its own run more, and a few imagined runs stand for nothing known.
    """
    place = np.log2(
        [(configuration.rollouts_per_prompt, configuration.prompts_per_batch) for configuration in configurations]
    )
    distance = ((place[:, None, :] - place[None, :, :]) ** 2).sum(axis=2)
    same = np.array([[one.axes == other.axes for other in configurations] for one in configurations])
    weight = np.exp(-distance / (2 * NEAR_OCTAVES**2)) * np.where(same, 1.0, OTHER_AXES_WEIGHT)
    np.fill_diagonal(weight, OWN_WEIGHT)
    runs = np.array([fact.seeds_seen for fact in facts], dtype=float)
    bad = np.array([fact.collapsed_runs + fact.declining_runs / 2 for fact in facts])
    return np.asarray((weight @ bad + PRIOR_RUNS * PRIOR_RISK) / (weight @ runs + PRIOR_RUNS))


PROPOSED = "proposed"  # the status of a configuration that has no trial

# The order in which the states of several seeds speak for their cell.
STATUS = (
    TrialState.RUNNING,
    TrialState.PAUSED,
    TrialState.FINISHED,
    TrialState.PLANNED,
    TrialState.FAILED,
    TrialState.LOST,
    TrialState.PRUNED,
)


def facts_of(view: View, planned: Facts) -> dict[Configuration, ConfigurationFacts]:
    """Return what is known of each planned configuration, with what its trials have shown where it has any."""
    runs = by_configuration(view.trials.values())
    with_curve = [trial for trial in view.trials.values() if has_curve(trial)]
    states = {trial.trial: state for trial, state in zip(with_curve, states_of(with_curve), strict=True)}
    return {
        configuration: _facts(terms, runs.get(configuration, ()), states) for configuration, terms in planned.items()
    }


def facts_in(view: View) -> dict[Configuration, ConfigurationFacts]:
    """Return what a view says of its configurations, without learning rates and recipes, on which no choice rests."""
    prices = {configuration: cell.compared_per_step for configuration, cell in view.open_cells.items()}
    prices |= {trial.configuration: trial.compared_per_step for trial in view.trials.values()}
    return facts_of(
        view, {configuration: ConfigurationFacts(0.0, "", price) for configuration, price in prices.items()}
    )


def _facts(planned: ConfigurationFacts, trials: Sequence[TrialView], states: Mapping[int, State]) -> ConfigurationFacts:
    with_curve = [trial for trial in trials if trial.trial in states]
    judged = [states[trial.trial] for trial in with_curve]
    measured = [trial.compared_per_step for trial in trials if trial.step]
    whole = [trial for trial in with_curve if trial.state is not TrialState.FAILED]
    longest = max(whole, key=lambda trial: trial.step, default=None)
    states_of_trials = {trial.state for trial in trials}
    scores = () if longest is None else longest.scores
    begins = (1 - LAST_PART) * scores[-1].gpu_hours if scores else 0.0
    last_part = ((point.gpu_hours, min(1.0, max(0.0, point.score))) for point in scores if point.gpu_hours >= begins)
    return replace(
        planned,
        gpu_hours_per_step=float(np.mean(measured)) if measured else planned.gpu_hours_per_step,
        status=next((str(state) for state in STATUS if state in states_of_trials), PROPOSED),
        gpu_hours_spent=float(sum(trial.gpu_hours_spent for trial in trials)),
        # A base model that was scored takes time too, and is no sign of what training does.
        reached_gpu_hours=max(
            (trial.scores[-1].gpu_hours for trial in with_curve if trial.scores[-1].step), default=0.0
        ),
        seeds_seen=len(with_curve),
        end=tuple(last_part),
        collapsed_runs=sum(fit.collapsed for fit in judged),
        declining_runs=sum(fit.fallen() and not fit.collapsed for fit in judged),
        failed=bool(trials) and all(trial.state is TrialState.FAILED for trial in trials),
    )


PRIOR_DEGREES = 4.0  # how many differences between seeds that counts as
LAST = 3  # scores that are averaged, since one validation has noise of its own


def seed_sd(trials: Iterable[TrialView]) -> float:
    """Return the standard deviation between seeds, in √(p(1 − p)), from configurations of which several were seen.

    Runs are compared at the last compute that all of a configuration have reached. The published figure counts as a
    few degrees of freedom, and is the answer where there are no repeated runs.
    """
    trained = (trial for trial in trials if trial.scores and trial.scores[-1].gpu_hours > 0)
    degrees, squares = PRIOR_DEGREES, PRIOR_DEGREES * SEED_SD**2
    for repeated in by_configuration(trained).values():
        if len(repeated) > 1:
            common = min(trial.scores[-1].gpu_hours for trial in repeated)
            levels = [level(trial.scores, common) for trial in repeated]
            degrees += len(levels) - 1
            squares += float(np.var(levels) / pass_rate_variance(float(np.mean(levels)))) * len(levels)
    return float(np.sqrt(squares / degrees))


def level(scores: Sequence[ScorePoint], gpu_hours: float) -> float:
    """Return the mean of a run's last few scores up to a compute."""
    scores_so_far = [point.score for point in scores if point.gpu_hours <= gpu_hours] or [scores[0].score]
    return float(np.mean(scores_so_far[-LAST:]))
