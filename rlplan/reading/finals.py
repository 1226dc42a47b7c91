"""How a final run stands: how far it is, against what was promised, what was warned of, and how it ended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from planner.axes import named_configuration
from planner.belief.forecasts import PredictedScore, promised_at
from planner.metrics import Metric
from planner.percent import percent
from planner.store import Store
from planner.store.finals import (
    BEST,
    CLEARED,
    ENDED,
    ENDING,
    PROMISE,
    VALIDATION,
    WARNING,
    Final,
    end_of_run,
    final_of,
    finals_of,
    forecasts_of,
    switch_of,
)
from planner.store.read_model import points_of
from planner.store.schema import Decision, Sweep, Trial
from planner.store.sweeps import sweep_named, totals_of
from rlplan.reading.sweep_picture import Picture
from rlplan.reading.sweep_words import last_line
from rlplan.wording.answers import Key
from rlplan.wording.numbers import hours, some_of
from rlplan.wording.screen import Canvas, Invocation, NextStep, Part, capital
from runner.sweep.plan_rows import configuration_of
from runner.training.trial import read_points

KINDS = (WARNING, CLEARED, VALIDATION, ENDING)
WORTH_GOING_ON = 0.1  # of what a final run took


@dataclass(frozen=True, slots=True)
class Warning:
    """What was warned of and has not come right."""

    rule: str
    said: str


@dataclass(frozen=True, slots=True)
class Validated:
    """A validation of a final run."""

    step: int
    gpu_hours: float
    score: float


@dataclass(frozen=True, slots=True)
class Left:
    """What is left to win, after the newest validation."""

    share: float
    expected: float
    chance: float

    won = Key[bool](lambda left: _is_won(left.chance), "Whether nothing is left that is worth going on for.")


def _is_won(chance: float) -> bool:
    from planner.belief.forecasts import LEAST_CHANCE  # noqa: PLC0415 (drags in what fits curves)

    return chance < LEAST_CHANCE


@dataclass(frozen=True, slots=True)
class FinalStanding:
    """A final run as its rows have it."""

    sweep: str
    of_sweep: str
    status: str
    name: str  # of its configuration
    step: int
    update_steps: int
    from_step: int
    gpu_hours_spent: float
    priced_gpu_hours: float
    budget_gpu_hours: float
    promised: PredictedScore
    band: tuple[tuple[float, float, float, float], ...]
    scores: tuple[Validated, ...]
    expected: PredictedScore | None  # the end, as it is believed now
    probability_below: float | None
    left: Left | None
    warnings: tuple[Warning, ...]
    switch: str | None  # why another allocation is expected to end clearly higher, and how to run it
    best_folder: str | None
    kept: Validated | None  # what lies there: the best of those whose checkpoints were left
    line: str | None  # where it is, in a sentence
    end: dict[str, Any] | None  # promised against reached, once it has ended
    ending: str | None
    storage: str | None = field(default=None, repr=False)  # where copies are, of which the best is none

    @property
    def unused_gpu_hours(self) -> float | None:
        """What is left of the budget after all updates, where the best can be gone on from and it is clearly some."""
        end = self.end or {"share": 0.0}
        if end["share"] < 1 or self.goes_wrong or self.storage is not None or self.best_folder is None:
            return None
        return end["left_gpu_hours"] if end["left_gpu_hours"] >= WORTH_GOING_ON * end["gpu_hours"] else None

    @property
    def here(self) -> PredictedScore | None:
        """What was promised for the newest validation."""
        return promised_at(self.band, self.scores[-1].step / self.update_steps) if self.scores else None

    @property
    def best(self) -> Validated | None:
        """The validation with the highest score."""
        return max(self.scores, key=lambda row: row.score, default=None)

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self.status in {str(status) for status in ENDED}

    @property
    def goes_wrong(self) -> bool:
        """Whether a warning stands that is about the run itself, and not about what was promised of it."""
        return any(warning.rule != PROMISE for warning in self.warnings)


def final_standing(session: Session, sweep: Sweep) -> FinalStanding | None:
    """Return how the newest final run of a sweep stands, or that run itself; None where none was launched."""
    own = final_of(session, sweep.id)
    if own is not None:
        return _standing(session, own, sweep)
    launched = finals_of(session, sweep.id)
    return _standing(session, *launched[-1]) if launched else None


def _standing(session: Session, final: Final, sweep: Sweep) -> FinalStanding:
    trial = session.scalars(select(Trial).where(Trial.sweep_id == sweep.id)).one()
    totals = totals_of(session, sweep.id)
    of_sweep = Decision.sweep_id == sweep.id, Decision.action.in_(KINDS)
    events = session.scalars(select(Decision).where(*of_sweep).order_by(Decision.number)).all()
    scores = _scores(session, sweep, trial)
    newest = {event.action: event for event in events}
    validated, ended = newest.get(VALIDATION), newest.get(ENDING)
    now = next(reversed(forecasts_of(session, final.id)), None)
    folder = Path(str(sweep.config.get("folder", ""))) / trial.name / BEST
    upto = max((point.optimizer_step for point in read_points(folder)), default=-1)
    left, steps = None, end_of_run(session, final)
    if now is not None and now.expected_gain is not None and now.probability_more is not None:
        left = Left(1 - now.step / steps, now.expected_gain, now.probability_more)
    return FinalStanding(
        sweep=sweep.name,
        of_sweep=session.get_one(Sweep, final.of_sweep_id).name,
        status=str(sweep.status),
        name=named_configuration(configuration_of(trial)),
        step=totals.committed_step.get(trial.id, 0),
        update_steps=steps,
        from_step=final.from_step,
        gpu_hours_spent=totals.spent,
        priced_gpu_hours=final.promised_gpu_hours,
        budget_gpu_hours=float(sweep.config["pilot_gpu_hours"]),
        promised=PredictedScore(final.promised_score, final.promised_low, final.promised_high),
        band=tuple((share, score, low, high) for share, score, low, high in final.promised_band),
        scores=scores,
        expected=None if now is None else PredictedScore(now.end_score, now.end_low, now.end_high),
        probability_below=None if now is None else now.probability_below,
        left=left,
        warnings=_warnings(events),
        switch=switch_of(session, sweep.id)[2] or None,
        best_folder=str(folder) if folder.is_dir() else None,
        kept=next((score for score in reversed(scores) if score.step <= upto), None),
        line=validated.reason if validated else None,
        end=ended.seen if ended else None,
        ending=ended.reason if ended else None,
        storage=sweep.config.get("storage"),
    )


def _scores(session: Session, sweep: Sweep, trial: Trial) -> tuple[Validated, ...]:
    metric = Metric.of_sweep(sweep.config)
    return tuple(
        Validated(point.optimizer_step, point.gpu_hours, measured.score)
        for point in points_of(session, trial.id)
        if (measured := metric.of(point.score, point.score_standard_error, point.further_scores)) is not None
    )


def _warnings(events: Sequence[Decision]) -> tuple[Warning, ...]:
    """Return the warnings that were not taken back."""
    standing: dict[str, Warning] = {}
    for event in events:
        if event.action == WARNING:
            standing[event.seen["rule"]] = Warning(event.seen["rule"], event.reason)
        elif event.action == CLEARED:
            standing.pop(event.seen["rule"], None)
    return tuple(standing.values())


@dataclass(frozen=True, slots=True)
class Record:
    """Over all final runs of a database that have ended: how often the promise held, and how far prices were off."""

    finals: int
    held: int
    prices: tuple[float, ...]  # GPU-hours that were taken, by those that were predicted for as much of the run

    typical_price = Key[float | None](
        lambda record: median(record.prices) if record.prices else None, "The median factor."
    )


def record_of(session: Session) -> Record | None:
    """Return the record; None where no final run has ended."""
    query = select(Decision.seen).where(Decision.action == ENDING, Decision.sweep_id.in_(select(Final.sweep_id)))
    ends = list(session.scalars(query))
    if not ends:
        return None
    prices = [end["gpu_hours"] / end["priced_so_far"] for end in ends if end["priced_so_far"] > 0]
    return Record(len(ends), sum(bool(end["held"]) for end in ends), tuple(prices))


def record_text(record: Record) -> str:
    """Say it in a sentence."""
    within = "within the 90 % interval that was promised"
    if record.finals == 1:
        text = f"The one final run that ended did {'' if record.held else 'not '}end {within}; it"
    else:
        text = f"Of {record.finals} final runs that ended, {record.held} ended {within}; half of them"
    if record.typical_price is None:
        return text.rpartition(";")[0]
    times = f"{record.typical_price:.2f} times the GPU-hours that were predicted"
    return f"{text} took {times}" if record.finals == 1 else f"{text} took more than {times}"


def final_lines(final: FinalStanding, canvas: Canvas) -> Iterator[Part]:
    """Return the lines about a final run, the first thing that is shown of a sweep that has one."""
    spent = f", {hours(final.gpu_hours_spent)} of {hours(final.budget_gpu_hours)} GPU-hours spent"
    yield from canvas.lines(
        f"Final run {final.sweep} of {final.of_sweep}: {final.name}, {final.status}, step {final.step:,} of "
        f"{final.update_steps:,}{'' if final.ending else spent}",  # which its ending names
        "bold",
    )
    if (where := final.ending if final.ended else final.line) is not None:
        yield from canvas.lines(f"{capital(where)}.")
    for warning in final.warnings:
        yield from canvas.lines(f"WARNING, {warning.said}", "red")
    if final.left is not None and not final.ended:
        left = f"The last {percent(final.left.share)} should add {final.left.expected:.2g}"
        yield from canvas.lines(f"Little left to gain: {left[:1].lower()}{left[1:]}." if final.left.won else f"{left}.")
    if final.switch is not None and not final.ended:
        yield from canvas.lines(capital(final.switch), "yellow")
    if final.best is not None:
        where = f", kept in {final.best_folder}" if final.best_folder else ""
        if final.kept is not None and final.kept != final.best:
            other = f"that of update {final.kept.step:,}, {final.kept.score:.3f}"
            where = f"; its checkpoint is gone, and {other}, is kept in {final.best_folder}"
        so_far = "" if final.ended else " so far"
        yield from canvas.lines(f"Best{so_far}: {final.best.score:.3f} at update {final.best.step:,}{where}", "dim")


def going_on(final: FinalStanding, invocation: Invocation) -> Iterator[NextStep]:
    """Name what goes on with the GPU-hours that a final run has left over."""
    if (unused := final.unused_gpu_hours) is not None:
        yield invocation.step("launch --from-best", final.of_sweep, f"trains on with the {hours(unused)} left")


NAMED_FAILURES = 3  # trials of a class that are named


def final_of_sweep(store: Store, sweep: str) -> FinalStanding | None:
    """Return how a sweep's final run stands; None where none was launched."""
    with store.read() as session:
        return final_standing(session, sweep_named(session, sweep))


def failure_lines(picture: Picture, canvas: Canvas) -> Iterator[Part]:
    """Name what failed, by class, with the last line of one log each."""
    for kind, trials in picture.failures.items():
        names = some_of([trial.name for trial in trials], NAMED_FAILURES)
        log = last_line(trials[0].failure_tail or "")
        yield from canvas.lines(f"Failed, {kind}: {names}{f' ({log})' if log else ''}", "red")
