"""The documents of a sweep, for JSON and CSV: what `status` says of it, and all of its story."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from planner.store.records import RankedRow
from planner.trials import TrialState
from planner.view import ScorePoint
from rlplan.reading.approximating import approximated
from rlplan.reading.decisions import Decision, WholeDecision
from rlplan.reading.finals import FinalStanding
from rlplan.reading.learnt_sources import LearntFrom
from rlplan.reading.storage_taken import Taken, taken_by
from rlplan.reading.sweep_picture import Driver, Hold, Money, Picture, StoredAnswer, TrialRow
from rlplan.wording.documents import AxisValues, Key, Read, View

if TYPE_CHECKING:
    from planner.pooling.bands import Band
    from rlplan.reading.story import Beliefs, Story


class ScoreData(View[ScorePoint]):
    """One validation by the columns of a curve."""

    step = Key[int]("of.step")
    gpu_hours = Key[float]("of.gpu_hours")
    score = Key[float]("of.score")
    score_standard_error = Key[float | None]("of.standard_error")


class FlatTrial(View[TrialRow]):
    """One trial without its curve."""

    trial = Key[str]("of.name")
    rollouts_per_prompt = Key[int]("of.rollouts_per_prompt")
    prompts_per_batch = Key[int]("of.prompts_per_batch")
    learning_rate = Key[float]("of.learning_rate")
    seed = Key[int]("of.seed")
    state = Key[TrialState]("of.state")
    attempt = Key[int]("of.attempt")
    step = Key[int]("of.step")
    pilot_steps = Key[int | None]("of.pilot_steps")
    gpu_hours_spent = Key[float]("of.gpu_hours_spent")
    score = Key[float | None](lambda each: each.of.last and each.of.last.score)
    score_standard_error = Key[float | None](lambda each: each.of.last and each.of.last.standard_error)
    expected_score = Key[float | None](lambda each: each.of.forecast and each.of.forecast.mean)
    score_low = Key[float | None](lambda each: each.of.forecast and each.of.forecast.low)
    score_high = Key[float | None](lambda each: each.of.forecast and each.of.forecast.high)
    probability_best = Key[float | None](lambda each: each.of.forecast and each.of.forecast.probability_best)
    failure_class = Key[str | None]("of.failure_class")

    axes = Read[Any]("of.axes", "What else tells it from others.")


class TrialData(FlatTrial):
    """One trial with its curve."""

    axes = Key[AxisValues | None](lambda each: dict(each.of.axes) or None, optional=True)
    verdict = Key[str | None](lambda each: each.of.forecast and each.of.forecast.verdict)
    level = Key[float | None](lambda each: each.of.forecast and each.of.forecast.level)
    target_gpu_hours = Key[float | None](lambda each: each.of.forecast and each.of.forecast.target_gpu_hours)
    expected_at = Key[datetime | None](lambda each: each.of.forecast and each.of.forecast.at)
    failure_tail = Key[str | None]("of.failure_tail")
    points = Key[Sequence[ScoreData]](lambda each: list(map(ScoreData, each.of.scores)))


class MoneyData(View[Money]):
    """Where the pilots' GPU-hours are; spent is the sum of all in `by_use`."""

    pilot_gpu_hours = Key[float]("of.pilot_gpu_hours")
    spent_gpu_hours = Key[float]("of.spent")
    reserved_gpu_hours = Key[float]("of.reserved")
    used_of_reserved_gpu_hours = Key[float]("of.used_of_reserved")
    left_gpu_hours = Key[float]("of.left")
    overrun_gpu_hours = Key[float]("of.overrun")
    by_use = Key[Mapping[str, float]](lambda each: uses(each.of))
    start_ups = Key[int]("of.start_ups")
    start_up_gpu_hours = Key[float]("of.in_start_ups")


def uses(money: Money) -> dict[str, float]:
    """Return GPU-hours by what they went to; what segments and charges call alike is added up."""
    used = {str(outcome): gpu_hours for outcome, gpu_hours in money.by_outcome.items()}
    for kind, gpu_hours in money.by_charge.items():
        used[kind] = used.get(kind, 0.0) + gpu_hours
    return dict(sorted(used.items(), key=lambda item: -item[1]))


class AnswerData(View[StoredAnswer]):
    """A recommendation without the list it rests on."""

    WHOLE = StoredAnswer
    details = Key[Mapping[str, Any]]("of.details")
    so_far = Key[bool]("of.so_far")


class SweepData(View[Picture]):
    """How a sweep stands."""

    sweep = Key[str]("of.sweep")
    plan = Key[str]("of.plan")
    status = Key[str]("of.status")
    policy = Key[str]("of.policy")
    seed = Key[int]("of.seed")
    metric = Key[str]("of.metric", "what all scores are, such as mean@1")
    budget = Key[MoneyData](lambda each: MoneyData(each.of.money))
    elapsed_seconds = Key[float]("of.elapsed_seconds")
    seconds_left_at_most = Key[float | None]("of.seconds_left")
    driver = Key[Driver | None]("of.driver")
    paused_since = Key[datetime | None]("of.paused_since")
    hold = Key[Hold | None]("of.hold")
    recommendation = Key[AnswerData | None](lambda each: each.of.answer and AnswerData(each.of.answer))
    ranking = Key[Sequence[RankedRow]](lambda each: each.of.answer.ranking if each.of.answer else ())
    trials = Key[Sequence[TrialData]](lambda each: list(map(TrialData, each.of.trials)))
    decisions = Key[int]("of.decisions")
    last_decisions = Key[Sequence[Decision]]("of.last_decisions")
    learnt_from = Key[LearntFrom | None]("of.learnt_from")
    stored_at = Key[str | None](lambda each: each.of.config.get("storage"))
    failures = Key[Mapping[str, int]](lambda each: {kind: len(trials) for kind, trials in each.of.failures.items()})


@dataclass(frozen=True)
class StatusData(SweepData):
    """How a sweep stands, with its final run and what its folder takes."""

    run: FinalStanding | None = field(repr=False)

    approximated = Key[Sequence[str]](lambda each: approximated(each.of.config))
    storage = Key[Taken | None](lambda each: taken(each.of))
    final = Key[FinalStanding | None]("run")


def taken(picture: Picture) -> Taken | None:
    """Return what the sweep's folder takes; None where that is not known."""
    return taken_by(str(picture.config.get("folder", "")))


@dataclass(frozen=True)
class StoryTrial(TrialData):
    """One trial with what is believed of its curve."""

    band: "Band | None"
    collapsed_from_gpu_hours: float | None


@dataclass(frozen=True)
class StoryData(SweepData):
    """All of a story: dates are ISO texts, and what is no finite number is null.

    `recommendation` is what was stored when the sweep ended, `answer` what the curves say now; without beliefs it is
    null, as are the trials' bands. All GPU-hours of points are those of the trial's own training.
    """

    story: "Story" = field(repr=False)
    beliefs: "Beliefs | None" = field(repr=False)

    created_at = Key[datetime]("story.created_at")
    read_at = Key[datetime]("story.read_at")
    budget_gpu_hours = Key[float]("story.budget_gpu_hours")
    final_gpu_hours = Key[float]("story.final_gpu_hours")
    target_gpu_hours = Key[float]("story.target_gpu_hours")
    answer = Key[Any](lambda each: each.beliefs and each.beliefs.recommended and each.beliefs.recommended.document)
    why_no_answer = Key[str | None](lambda each: each.beliefs and each.beliefs.why_not)
    trials = Key[Sequence[StoryTrial]](lambda each: each.all_trials)
    flags = Key[Any]("story.flags")
    segments = Key[Any]("story.stretches")
    charges = Key[Any]("story.charges")
    decision_log = Key[Sequence[WholeDecision]]("story.decisions")
    cells = Key[Any]("story.cells")
    assumptions = Key[Any]("story.assumptions")

    @property
    def all_trials(self) -> list[StoryTrial]:
        """Its trials with what is believed of them."""
        bands, cuts = (self.beliefs.bands, self.beliefs.cuts) if self.beliefs else ({}, {})
        return [StoryTrial(each, bands.get(each.id), cuts.get(each.id)) for each in self.of.trials]
