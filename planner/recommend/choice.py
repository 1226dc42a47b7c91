"""The one rule that chooses a configuration, which others may be as good, and each with its score and odds.

Recommendations, final runs under way, replays, previews and benches all choose by `by_worth`. In a draw of the belief a
run's worth is its score at the target, averaged over what a GPU-hour may turn out to buy, less what it loses to the
base model's score at its risk to collapse on the way that is left; a run that has ended is worth what it scored. The
highest mean over the draws is taken.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from planner.axes import named_configuration
from planner.belief.draws import JointDraws
from planner.belief.forecasts import PredictedScore
from planner.curves.curve import Vector, pass_rate_variance
from planner.metrics import EQUIVALENCE_MARGIN
from planner.percent import chance, percent
from planner.policy.champion_first import Verdict
from planner.recommend.facts import Facts
from planner.recommend.prospect import Prospect, beats, interval, odds
from planner.view import Axes, Configuration

PRICES = ((-1, 0.25), (0, 0.5), (1, 0.25))  # rungs, thirds of an octave: a quarter more or less is bought, with weights
TOSS_UP = 0.25  # P(it beats the best), from which on the two cannot be told apart
LEVEL_CHANCE = 0.8  # P(all of a set are within 0.02 of the best), from which on any of it will do


@dataclass(frozen=True, slots=True)
class Chosen:
    """The configuration to take at one compute, by its index, and the others that may be as good; the worthiest first.

    Of `level` all are likely within 0.02 of the best, so that any will do. Of `undecided`, the chosen one among them,
    each is worth within 0.02 of it or beats it at odds of 1 to 3 or better: it may be better, and need not be good.
    """

    row: int
    level: tuple[int, ...]
    undecided: tuple[int, ...]
    reason: str
    cause: str  # of it: why the highest expectation was not taken; '' where it was


def worth(prospect: Prospect, rung: int) -> Vector:
    """Return draws × configurations of what a run at one compute is worth."""
    scores = _at_any_price(prospect, rung) + prospect.ended_above(rung)
    return np.asarray(scores - prospect.risks_ahead(rung) * np.maximum(scores - prospect.base, 0.0))


def _at_any_price(prospect: Prospect, rung: int) -> Vector:
    return np.asarray(sum(weight * prospect.scores[rung + step] for step, weight in PRICES))


def by_worth(prospect: Prospect, rung: int) -> list[int]:
    """Return those that can be run, the worthiest first; equals in the order of their planning."""
    return _ordered(prospect, rung, worth(prospect, rung))


def choose(prospect: Prospect, rung: int, fixed: int | None = None) -> Chosen:
    """Take the worthiest at one compute, or the row that was decided on where it can be run."""
    worths = worth(prospect, rung)
    order = _ordered(prospect, rung, worths)
    if fixed in order:
        order.sort(key=lambda row: row != fixed)
    chosen, expected = order[0], worths.mean(axis=0)
    worst = np.minimum.accumulate(prospect.scores[rung][:, order], axis=1)
    chances = (worst >= prospect.best(rung)[:, None] - EQUIVALENCE_MARGIN).mean(axis=0)
    level = order[: int((chances >= LEVEL_CHANCE).sum())]  # as many as are likely all within 0.02 of the best
    undecided = tuple(
        row
        for row in order
        if row == chosen
        or expected[chosen] - expected[row] <= EQUIVALENCE_MARGIN
        or beats(worths, row, chosen) >= TOSS_UP
    )
    return Chosen(chosen, tuple(level), undecided, *_reason(prospect, rung, chosen, worths))


def _ordered(prospect: Prospect, rung: int, draws: Vector) -> list[int]:
    return [int(row) for row in np.argsort(-draws.mean(axis=0), kind="stable") if prospect.able[rung, row]]


def _reason(prospect: Prospect, rung: int, row: int, worths: Vector) -> tuple[str, str]:
    """Say in a sentence why the highest expectation was not taken, and by what costs it most beside the chosen one."""
    expected, risks = prospect.expected[rung], prospect.risks_ahead(rung)
    leader = _ordered(prospect, rung, prospect.scores[rung])[0]
    if row == leader:
        return "no other is expected to score higher", ""
    bought, ended = _at_any_price(prospect, rung).mean(axis=0) - expected, prospect.ended_above(rung)
    gains = {
        f"its risk to collapse is {percent(risks[leader], 1)}, not {percent(risks[row], 1)}": worths.mean(axis=0)
        - expected
        - bought
        - ended,
        "not where the GPU-hours buy a quarter more or less": bought,
        "not by the scores at which runs have ended": ended,
    }
    cause = max(gains, key=lambda gain: float(gains[gain][row] - gains[gain][leader]))
    name = named_configuration(prospect.configurations[leader])
    gap = f"{expected[leader] - expected[row]:.3f}"
    return f"{name} is expected {f'{gap} higher' if float(gap) else 'to score as high'}, but {cause}", cause


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run of a configuration would be and bring; the interval is of 90 %."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    axes: Axes
    update_steps: int
    learning_rate: float
    recipe: str
    gpu_hours: float
    expected_score: float
    score_low: float
    score_high: float
    probability_best: float
    probability_within_002: float
    expected_regret: float
    collapse_risk: float
    status: str
    gpu_hours_spent: float
    reached_gpu_hours: float
    seeds_seen: int

    @property
    def configuration(self) -> Configuration:
        """(n, B) with the further axes."""
        return Configuration(self.rollouts_per_prompt, self.prompts_per_batch, self.axes)


class Choices:
    """Makes the choices at every compute of a prospect, each once."""

    chosen: Callable[[int], Chosen]  # what is taken at a compute, and why
    described: Callable[[int, int], Choice]  # at a compute, any configuration by its row

    def __init__(
        self,
        prospect: Prospect,
        seed_sd: float,
        fixed: Configuration | None = None,
        promised: Callable[[Configuration, float], PredictedScore] | None = None,
    ) -> None:
        """Describe each by what a final run of it, and of so many GPU-hours, would be `promised`."""
        self.prospect, self.seed_sd, self._promised = prospect, seed_sd, promised
        row = None if fixed is None else prospect.configurations.index(fixed)
        self.chosen, self.described = cache(partial(choose, prospect, fixed=row)), cache(self._described)
        self._odds = cache(partial(odds, prospect))

    def choice(self, rung: int) -> Choice:
        """Return what is taken at a compute, in full."""
        return self.described(rung, self.chosen(rung).row)

    def _described(self, rung: int, row: int) -> Choice:
        prospect, chances = self.prospect, self._odds(rung)
        configuration, facts = prospect.configurations[row], prospect.facts[row]
        scores, score = prospect.scores[rung][:, row], float(chances.expected[row])
        if facts.final is None or self._promised is None:
            steps = facts.steps(float(prospect.lengths(rung)[row]))
            gpu_hours = steps * facts.gpu_hours_per_step
            # A run that goes on has its seed in its curve.
            seed_sd = 0.0 if facts.seeds_seen else self.seed_sd * np.sqrt(pass_rate_variance(scores))
            low, high = interval(scores, seed_sd)
        else:
            length = facts.final.length(float(prospect.gpu_hours[rung]))
            steps = length.steps
            gpu_hours = length.gpu_hours + (facts.reached_gpu_hours if facts.final.begun else 0.0)
            end = self._promised(configuration, steps * facts.gpu_hours_per_step)
            score, low, high = end.score, end.low, end.high
        return Choice(
            rollouts_per_prompt=configuration.rollouts_per_prompt,
            prompts_per_batch=configuration.prompts_per_batch,
            axes=configuration.axes,
            update_steps=steps,
            learning_rate=facts.learning_rate,
            recipe=facts.recipe,
            gpu_hours=gpu_hours,
            expected_score=score,
            score_low=low,
            score_high=high,
            probability_best=float(chances.best[row]),
            probability_within_002=float(chances.within_near[row]),
            expected_regret=float(chances.regret[row]),
            collapse_risk=float(prospect.risks[row]),
            status=facts.status,
            gpu_hours_spent=facts.gpu_hours_spent,
            reached_gpu_hours=facts.reached_gpu_hours,
            seeds_seen=facts.seeds_seen,
        )


@dataclass(frozen=True, slots=True)
class Alone:
    """Where the champion would end with all GPU-hours, had nothing gone into challengers; the interval is of 90 %."""

    gpu_hours: float
    expected_score: float
    score_low: float
    score_high: float


@dataclass(frozen=True, slots=True)
class Succession:
    """The champion, whether a challenger takes its place, and how likely the likeliest is to end higher."""

    configuration: Configuration
    switched: bool
    challenger: Configuration | None
    probability: float | None
    why: str
    alone: Alone
    bar: float | None = None  # the probability from which a challenger takes the champion's place

    @property
    def passed_over(self) -> Configuration | None:
        """The champion where a challenger goes on, else the likeliest challenger."""
        return self.configuration if self.switched else self.challenger

    @property
    def reason(self) -> str:
        """Why it goes on that goes on, behind its name."""
        if self.switched and self.probability is not None:
            champion = named_configuration(self.configuration)
            return f"{chance(self.probability)} likely to end higher than {champion}, its own cost counted"
        return self.why if self.challenger is None else "no challenger is likely to gain what it would cost now"

    @property
    def gone_on_alone(self) -> str:
        """Where the champion would have ended, in a sentence."""
        alone = self.alone
        return (
            f"Alone, with all {alone.gpu_hours:,.4g} GPU-hours, {named_configuration(self.configuration)} is expected "
            f"at {alone.expected_score:.3f} ({alone.score_low:.3f}–{alone.score_high:.3f})."
        )


@dataclass(frozen=True, slots=True)
class Decided:
    """A verdict on a champion with all its GPU-hours: what an answer has to take."""

    verdict: Verdict
    total_gpu_hours: float

    def succession(self, joint: JointDraws, facts: Facts, seed_sd: float) -> Succession:
        """Forecast the champion alone, beside what was decided."""
        prospect = Prospect.of(joint, facts, self.total_gpu_hours, octaves=(0, 0))
        champion = prospect.configurations.index(self.verdict.champion)
        choice = Choices(prospect, seed_sd).described(prospect.rung(0), champion)
        alone = Alone(self.total_gpu_hours, choice.expected_score, choice.score_low, choice.score_high)
        decided = self.verdict
        odds = (decided.challenger, decided.probability, decided.why)
        return Succession(decided.champion, decided.switched, *odds, alone, decided.bar)
