"""A sweep as it stands, read from the database: what the live screen, `rlplan status` and the final report draw.

Fields that `repr` shows and keys are what JSON has of each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from planner.axes import format_axes
from planner.store.results import SO_FAR, RankedRow
from planner.store.schema import RequestKind, SegmentOutcome, SweepStatus
from planner.view import Axes, ScorePoint, TrialState
from rlplan.reading.decisions import Decision
from rlplan.reading.sweeps import state_of
from rlplan.wording.answers import Key, Read, View
from rlplan.wording.numbers import hours, interval, moment, rate, steps
from rlplan.wording.screen import capital

AT_REST = frozenset({SweepStatus.INTERRUPTED, SweepStatus.FINISHED, SweepStatus.FAILED})
# Trials in which nothing happens any more, and that tell nothing about the allocation.
WITHOUT_RESULT = frozenset({TrialState.FAILED, TrialState.LOST})


ROUNDING = 1e-6  # of a budget, that adding up many floats is forgiven


def overrun(spent: float, budget: float) -> float:
    """Return by how many GPU-hours a budget was passed, 0 where that is rounding."""
    over = spent - budget
    return over if over > ROUNDING * budget else 0.0


class Source(StrEnum):
    """Where a ranking or an answer comes from."""

    STORED = "stored"  # as the sweep has stored it last
    NOW = "now"  # worked out from all that is believed now
    PROPOSED = "proposed"  # as the plan proposes; expectations are its prior


@dataclass(frozen=True, slots=True)
class Driver:
    """The process that holds a sweep."""

    host: str
    pid: int
    silent_seconds: float  # since its last sign of life
    alive: bool


@dataclass(frozen=True, slots=True)
class Hold:
    """A pause or a stop that somebody asked for and that is not over."""

    kind: RequestKind
    by: str
    asked_at: datetime
    taken_at: datetime | None  # None until the driver has heard of it


def _uses(money: Any) -> dict[str, float]:
    """Add up what segments and charges call alike, the most first."""
    used = {str(outcome): gpu_hours for outcome, gpu_hours in money.by_outcome.items()}
    for kind, gpu_hours in money.by_charge.items():
        used[kind] = used.get(kind, 0.0) + gpu_hours
    return dict(sorted(used.items(), key=lambda item: -item[1]))


@dataclass(frozen=True, slots=True)
class Money:
    """GPU-hours of the pilots: spent + reserved never passes the pilot part of the budget."""

    pilot_gpu_hours: float
    by_outcome: dict[str, float] = field(repr=False)  # of settled segments
    by_charge: dict[str, float] = field(repr=False)  # of no segment: of workers that were idle or lost
    reserved_gpu_hours: float
    used_of_reserved_gpu_hours: float = 0.0  # up to now; what segments are charged is known when they end
    start_ups: int = 0  # segments of somebody else's trainer of which it is known what they took beside their updates
    start_up_gpu_hours: float = 0.0  # of all of those, which are a part of what is spent

    spent = Key[float](lambda money: sum(money.by_use.values()), "Gone, whatever for.", name="spent_gpu_hours")
    overrun = Key[float](
        lambda money: overrun(money.spent, money.pilot_gpu_hours),
        "Used beyond the pilot budget, by a worker that outran its grant.",
        name="overrun_gpu_hours",
    )
    left = Key[float](
        lambda money: max(
            0.0, money.pilot_gpu_hours - money.spent - max(money.reserved_gpu_hours, money.used_of_reserved_gpu_hours)
        ),
        "Neither spent nor reserved.",
        name="left_gpu_hours",
    )
    by_use = Key[Mapping[str, float]](_uses, "What was spent, by what it went to.")


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a new run of a trial's configuration is expected to score at the target, and how its own curve goes on.

    It is what the sweep's answer says of the configuration; where none is stored yet, what the newest fit of the trial
    says of its own run.
    """

    mean: float
    low: float
    high: float
    level: float
    verdict: str
    target_gpu_hours: float
    probability_best: float | None
    at: datetime | None = None  # when it was worked out


class ScoreData(View[ScorePoint]):
    """One validation by the columns of a curve."""

    step = Key[int]("of.step")
    gpu_hours = Key[float]("of.gpu_hours")
    score = Key[float]("of.score")
    score_standard_error = Key[float | None]("of.standard_error")


def _of(part: str, name: str) -> Callable[[Any], Any]:
    """Return what reads a value of a trial's newest score, or of its forecast, where it has that."""
    return lambda trial: getattr(getattr(trial, part), name, None)


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial."""

    id: int = field(repr=False)
    name: str = field(repr=False)
    rollouts_per_prompt: int
    prompts_per_batch: int
    learning_rate: float
    seed: int
    state: TrialState
    attempt: int
    step: int
    pilot_steps: int | None  # None when its plan's candidate is gone
    gpu_hours_spent: float
    scores: tuple[ScorePoint, ...] = field(default=(), repr=False)
    forecast: Forecast | None = field(default=None, repr=False)
    failure_class: str | None = None
    failure_tail: str | None = None
    axes: Axes = ()

    last = Read[ScorePoint | None](lambda row: row.scores[-1] if row.scores else None, "The newest score.")
    trial = Key[str]("name")
    score = Key[float | None](_of("last", "score"))
    score_standard_error = Key[float | None](_of("last", "standard_error"))
    expected_score = Key[float | None](_of("forecast", "mean"))
    score_low = Key[float | None](_of("forecast", "low"))
    score_high = Key[float | None](_of("forecast", "high"))
    probability_best = Key[float | None](_of("forecast", "probability_best"))
    verdict = Key[str | None](_of("forecast", "verdict"))
    level = Key[float | None](_of("forecast", "level"))
    target_gpu_hours = Key[float | None](_of("forecast", "target_gpu_hours"))
    expected_at = Key[datetime | None](_of("forecast", "at"))
    points = Key[Sequence[ScoreData]](lambda row: list(map(ScoreData, row.scores)))

    @property
    def promise(self) -> tuple[int, float, float, float, int]:
        """A key that sorts the most promising trial first: by P(best), then forecast, then score."""
        group = 2 if self.state is TrialState.PRUNED else 1 if self.state in WITHOUT_RESULT else 0
        best = self.forecast.probability_best if self.forecast else None
        return (
            group,
            -(best if best is not None else -1.0),
            -(self.forecast.mean if self.forecast else -1.0),
            -(self.last.score if self.last else -1.0),
            self.id,
        )


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """One segment of a trial."""

    trial_id: int = field(repr=False)
    trial: str
    number: int
    attempt: int
    from_step: int
    to_step: int
    reserved_gpu_hours: float
    charged_gpu_hours: float | None
    worker: str | None
    started_at: datetime
    ended_at: datetime | None  # None while it is under way
    outcome: SegmentOutcome
    start_up_gpu_hours: float | None = None

    segment = Read[int]("number", "The same, as rows of Python name it.")


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What a sweep recommends, and the list that this rests on: when it ended, or so far while it runs."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    update_steps: int
    learning_rate: float
    recipe: str
    expected_score: float
    score_low: float
    score_high: float
    probability_best: float
    expected_regret: float
    gpu_hours_to_target: float
    details: Mapping[str, Any]
    ranking: tuple[RankedRow, ...] = field(repr=False)
    made_at: datetime
    axes: Axes = ()

    so_far = Key[bool](lambda answer: bool(answer.details.get(SO_FAR)), "Whether the sweep had not ended yet.")

    @property
    def target_gpu_hours(self) -> float:
        """The final run that it is for: with what the pilots have left over, where they may leave something."""
        return float(self.details.get("target_gpu_hours") or self.gpu_hours_to_target)

    def __str__(self) -> str:
        return sentence(self)


def sentence(answer: StoredAnswer) -> str:
    """Say what a sweep recommends, what it should score, and how many others are level with it."""
    axes = f", {format_axes(answer.axes)}" if answer.axes else ""
    champion = answer.details.get("champion")
    verb = "run" if champion is None else "go on with"
    run = f"So far, as of {moment(answer.made_at)}: {verb}" if answer.so_far else capital(verb)
    level, others = (len(answer.details.get(name) or ()) for name in ("level", "equivalent"))
    beside = level_with_it(level, others) if champion is None else f" {capital(champion['why'])}."
    score = interval(answer.expected_score, answer.score_low, answer.score_high)
    return (
        f"{run} n = {answer.rollouts_per_prompt}, B = {answer.prompts_per_batch}{axes} for "
        f"{steps(answer.update_steps)} steps at learning rate {rate(answer.learning_rate)}. "
        f"Expected score {score} after {hours(answer.gpu_hours_to_target)} GPU-hours.{beside}"
    )


def level_with_it(level: int, equivalent: int) -> str:
    """Say how many others will do as well, or are not told from it; nothing where it stands alone."""
    others = level - 1 if level > 1 else equivalent if level == 0 else 0
    if not others:
        return ""
    return f" {others} other {'choice is' if others == 1 else 'choices are'} level with it."


@dataclass(frozen=True, slots=True)
class Picture:
    """A sweep at one moment."""

    sweep: str
    plan: str
    policy: str
    workload: str = field(repr=False)  # the model, as the plan names it
    seed: int
    status: SweepStatus
    driver: Driver | None  # None when no process holds it
    money: Money = field(repr=False)
    trials: tuple[TrialRow, ...]
    decisions: int  # how many there are
    last_decisions: tuple[Decision, ...]  # the newest last
    elapsed_seconds: float
    seconds_left: float | None = field(repr=False)  # until what is left is used up; None when no trial runs
    answer: StoredAnswer | None = field(default=None, repr=False)
    config: dict[str, Any] = field(default_factory=dict, repr=False)
    metric: str = "mean@1"  # what all scores are, such as best@4
    hold: Hold | None = None

    budget = Key[Money]("money")
    seconds_left_at_most = Key[float | None]("seconds_left")
    recommendation = Key[StoredAnswer | None]("answer")
    ranking = Key[Sequence[RankedRow]](lambda picture: picture.answer.ranking if picture.answer else ())
    stored_at = Key[str | None](lambda picture: picture.config.get("storage"))
    failed = Key[Mapping[str, int]](
        lambda picture: {kind: len(trials) for kind, trials in picture.failures.items()}, name="failures"
    )

    @property
    def at_rest(self) -> bool:
        """Whether nothing will happen any more unless somebody resumes it."""
        return self.status in AT_REST

    @property
    def abandoned(self) -> bool:
        """Whether its driver died without a word."""
        return self.status is SweepStatus.RUNNING and not (self.driver and self.driver.alive)

    @property
    def state(self) -> str:
        """How it stands, in a word or two."""
        return state_of(self.status, driven=not self.abandoned, paused=self.paused_since is not None)

    paused_since = Key[datetime | None](
        lambda picture: (
            picture.hold.taken_at
            if picture.hold and picture.hold.kind is RequestKind.PAUSE and not picture.abandoned
            else None
        ),
        "When its driver began to hand out no segments; None while it hands them out, or is no more.",
    )

    @property
    def failures(self) -> dict[str, list[TrialRow]]:
        """Failed trials by class, the commonest first."""
        failed: dict[str, list[TrialRow]] = {}
        for trial in self.trials:
            if trial.state is TrialState.FAILED:
                failed.setdefault(trial.failure_class or "error", []).append(trial)
        return dict(sorted(failed.items(), key=lambda item: -len(item[1])))
