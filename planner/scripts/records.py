"""What a run did, step by step, by our names: scores, rewards, lengths, seconds by phase; and what it took."""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from budgets.errors import InputError
from budgets.hardware import SECONDS_PER_HOUR
from planner.curves.files import Table, read_table
from planner.curves.files.names import resolve
from planner.curves.files.sources import PRINTED
from planner.curves.files.table import newest, rows_of
from planner.logs.consoles import CLOCK
from planner.logs.series import choose_score, known_to, matching, ours_of, trainer_of
from planner.logs.trainers import WHOLE_STEP, Trainer

_STEPS = ("step", "training/global_step", "global_step", "trainer/global_step", "train/global_step", "_step")
_CLOCKS = (CLOCK, "seconds", "_timestamp", "_runtime", "at_seconds")
_PROBLEMS = re.compile(
    r"val(?:-core|-aux)?/(?:test_score/)?(.+?)(?:/(?:acc|reward|score))?(?:/mean@\d+)?$"
    r"|(?:eval/)?eval_(.+)_pass\d+$|eval/([^/]+)(?:/.*)?$"
)
_SAMPLES = re.compile(r"(?:mean|avg)@(\d+)$")
LEAST_SECONDS = 1e-9


@dataclass(frozen=True)
class Step:
    """One update of a run, or the validation of the base model at step 0."""

    step: int  # updates that are done
    score: float | None
    seconds: Mapping[str, float]  # by phase; 'step' is the whole, where the trainer times it
    took: float | None  # seconds from the step before to this one, its validation included
    values: Mapping[str, float] = field(default_factory=dict)  # by our names


@dataclass(frozen=True)
class LoggedRun:
    """A run as its log has it."""

    name: str
    path: Path
    trainer: str | None
    score: str | None  # the series that serves as the score
    why: str  # it does
    others: tuple[str, ...]  # by which --score may be asked for
    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    log: Path | None = None  # what it printed, where that was read
    ahead: int = 0  # updates that are done when the log calls its step 0
    constants: Mapping[str, float | str] = field(default_factory=dict)  # columns of one value, such as settings

    @property
    def scores(self) -> list[Step]:
        """The steps with a score."""
        return [step for step in self.steps if step.score is not None]

    @property
    def base_score(self) -> float | None:
        """The score before training; None where there is none between 0 and 1."""
        first = next((score.score for score in self.scores if score.step == 0), None)
        return first if first is not None and 0 <= first <= 1 else None

    @property
    def timed(self) -> bool:
        """Whether it is known how long its updates took."""
        return any(step.took for step in self.steps if step.step)

    @property
    def problems(self) -> str | None:
        """The validation problems by the last part of their name, as far as the series names them."""
        match = _PROBLEMS.match(self.score or "")
        problem_set = next(filter(None, match.groups()), None) if match else self.score
        return problem_set.rpartition("/")[2].casefold() if problem_set else None

    @property
    def samples(self) -> int | None:
        """Answers to each validation problem, where the series' name says so."""
        match = _SAMPLES.search(self.score or "")
        return int(match[1]) if match else None

    @property
    def last_step(self) -> int:
        """How many updates it did."""
        return self.steps[-1].step if self.steps else 0

    def typical(self, name: str) -> float | None:
        """Return the median of one of our values over the updates; None where it was never said."""
        finite = [step.values[name] for step in self.steps if name in step.values and np.isfinite(step.values[name])]
        return statistics.median(finite) if finite else None

    def phases(self) -> dict[str, float]:
        """Return the median seconds of each phase, over the steps in which it occurred."""
        names = dict.fromkeys(phase for step in self.steps for phase in step.seconds)
        return {phase: statistics.median(e.seconds[phase] for e in self.steps if phase in e.seconds) for phase in names}


def read_run(path: Path, scores: Sequence[str] = (), tables: Sequence[Table] | None = None) -> LoggedRun:
    """Read a run's log, whatever wrote it; `scores` names series of which the first that it has is to be the score.

    `tables` are what it holds, where that was read already.
    """
    tables = read_table(path) if tables is None else tables
    if len(tables) > 1 and not any(path.glob("*/metrics.jsonl")):  # prime-rl's trainer and orchestrator have one each
        raise InputError(f"'{path}' holds {len(tables)} runs: give them one by one")
    table = tables[0]
    columns = dict.fromkeys(name for table in tables for name in table.columns)
    trainer = trainer_of(columns, table.trainer)
    series, why, others = _score(tables, trainer, scores)
    clock = next((name for name in _CLOCKS if name in columns), None)
    used = {*(known_to(trainer, columns) if trainer else ()), series, clock}
    step_rows, notes = [], list(table.notes)
    for part in tables:
        counter = next((column for name in _STEPS for column in matching(name, part.columns)), None)
        if counter is None:
            raise InputError(f"'{path}' counts no steps: a run that is adopted has a column step")
        placed = np.isfinite(part.columns[counter])
        rows, restarted = newest(part, np.arange(part.rows), placed, counter)
        notes += restarted
        counts, mask = part.columns[counter], np.zeros(part.rows, dtype=bool)
        mask[rows[placed[rows]]] = True
        values = rows_of(part, [name for name in part.columns if name in used and name != counter])
        step_rows += [(int(counts[row]), of_row) for row, of_row in enumerate(values) if mask[row]]
    log = None
    if table.trainer:  # it was printed
        files = [path] if path.is_file() else sorted(path.iterdir())
        log = next((file for file in files if file == path or (file.suffix in PRINTED and file.stat().st_size)), None)
    steps, ahead = _steps(step_rows, trainer, series, clock)
    return LoggedRun(
        name=path.name if path.is_dir() else table.name,
        path=path,
        trainer=trainer.name if trainer else None,
        score=series,
        why=why,
        others=others,
        steps=tuple(steps),
        notes=tuple(notes),
        log=log,
        ahead=ahead,
        constants=_constants(tables),
    )


def _constants(tables: Sequence[Table]) -> dict[str, float | str]:
    """Return the columns that hold one value throughout, without the `config.` that trackers put before settings."""
    constants: dict[str, float | str] = {}
    for table in tables:
        for name, column in table.columns.items():
            values = column[np.isfinite(column)]
            if values.size and values.min() == values.max():
                constants[name] = float(values[0])
        texts = {name: set(column) - {""} for name, column in table.text.items()}
        constants |= {name: min(values) for name, values in texts.items() if len(values) == 1}
    return {re.sub(r"^config[./]", "", name).replace("-", "_"): value for name, value in constants.items()}


def _score(
    tables: Sequence[Table], trainer: Trainer | None, names: Sequence[str]
) -> tuple[str | None, str, tuple[str, ...]]:
    """Return the score's series, why it is, and the others; validations alone serve without being asked for."""
    counts = {name: int((~np.isnan(values)).sum()) for table in tables for name, values in table.columns.items()}
    if names:
        score = next((name for name in names if name in counts), names[0])
        table = next((table for table in tables if score in table.columns), tables[0])
        return resolve(score, table, "score"), "as asked for", ()
    if trainer is None:
        column = next((name for name in ("score", "metric", "accuracy") if name in counts), None)
        return column, "by its name", ()
    choice = choose_score(trainer, counts)
    if choice is None:
        return None, "nothing was validated", ()
    if choice.kind == "training":
        return None, "nothing was validated often enough", (*choice.series, *choice.others)
    if len(choice.series) > 1:
        raise InputError(
            f"'{tables[0].name}' has several sets of validation problems: {', '.join(choice.series)}. Choose one with "
            "--score NAME"
        )
    return choice.series[0], choice.why, choice.others


def _steps(
    step_rows: Sequence[tuple[int, dict[str, float]]], trainer: Trainer | None, score: str | None, clock: str | None
) -> tuple[Sequence[Step], int]:
    """Put what was said of each step together, in their order, with what each took; and say how far these are ahead."""
    rows: dict[int, dict[str, float]] = {}
    early: dict[str, float] = {}  # a validation of the base model beside a first update that is called 0
    for step, values in step_rows:
        ours, seconds = ours_of(trainer, values) if trainer and step == 0 else ({}, {})
        of_update = ours.keys() & {"reward", "loss", "grad_norm", "response_tokens"} or "update" in seconds
        (rows.setdefault(step, {}) if step or of_update else early).update(values)
    ahead = int(0 in rows)  # updates are counted from 0
    if ahead and score in rows[0] and trainer is not None and trainer.validates_first:
        early[score] = rows[0].pop(score)
    placed = ([(0, early)] if early else []) + [(step + ahead, rows[step]) for step in sorted(rows)]
    steps, before, at = [], 0, None
    for step, values in placed:
        ours, seconds = ours_of(trainer, values) if trainer else ({}, {})
        now = values.get(clock) if clock else None
        took = _took(trainer, seconds, max(1, step - before) if step else 0)
        if took is None and now is not None:
            took = max(0.0, now - at) if at is not None else None
        at = now if now is not None else at
        steps.append(Step(step, values.get(score) if score else None, seconds, took, ours))
        before = step
    return _filled(steps), ahead


def _took(trainer: Trainer | None, seconds: Mapping[str, float], updates: int) -> float | None:
    """Return what a step took: its own time, for as many updates as it stands for, and what lies outside of it.

    Phases may overlap, as generation and training do in an asynchronous run: their sum serves where no step is timed.
    Some versions of a trainer hold a phase within the step: where the others leave room for it, it is in there.
    """
    if trainer is None or not seconds:
        return None
    inside = sum(took for phase, took in seconds.items() if phase != WHOLE_STEP and phase not in trainer.outside)
    whole, outside = seconds.get(WHOLE_STEP, inside), 0.0
    room = whole - inside if {"generate", "update"} <= seconds.keys() else 0.0
    for took in sorted((seconds[phase] for phase in trainer.outside if phase in seconds), reverse=True):
        room, outside = (room - took, outside) if took <= room else (room, outside + took)
    return whole * updates + outside


def _filled(steps: Sequence[Step], usual: float | None = None) -> Sequence[Step]:
    """Give updates whose time is not known the median one, or what is given where there is none."""
    seconds = [step.took for step in steps if step.took is not None and step.step]
    usual = statistics.median(seconds) if seconds else usual
    if usual is None:
        return steps
    before = [0, *(step.step for step in steps)]
    return [
        step if step.took is not None else replace(step, took=usual * (step.step - last))
        for step, last in zip(steps, before, strict=False)
    ]


def timed(run: LoggedRun, seconds_per_step: float) -> LoggedRun:
    """Return a run whose log does not say how long its steps took, with so many seconds for each."""
    if run.timed:
        return run
    untimed = [replace(step, took=None) if step.step else step for step in run.steps]
    return replace(run, steps=tuple(_filled(untimed, seconds_per_step)))


def gpu_hours(steps: Sequence[Step], gpus: int) -> list[float]:
    """Return the GPU-hours up to each step."""
    seconds = np.cumsum([max(step.took or 0.0, LEAST_SECONDS) for step in steps])
    return [float(total) for total in seconds * gpus / SECONDS_PER_HOUR]


NEWEST = 20  # updates whose time and rollouts count as typical of those to come


@dataclass(frozen=True, slots=True)
class Progress:
    """A run as far as it is, by its log's own steps; None where its log, or whoever asks, does not say."""

    step: int
    end: int | None  # its last step
    seconds: float | None  # so far, validations included
    seconds_per_step: float | None  # likewise, of the newest
    best: tuple[int, float] | None  # the step and its score
    now: tuple[int, float] | None
    dead_groups: float | None  # share of the newest groups
    cut_off: float | None  # share of the newest responses
    gpus: int | None = None
    dollars_per_gpu_hour: float | None = None
    ahead: int = 0  # updates that are done at its step 0

    @property
    def seconds_left(self) -> float | None:
        """Seconds to its end."""
        if self.end is None or self.seconds_per_step is None:
            return None
        return max(0, self.end - self.step - self.ahead) * self.seconds_per_step

    @property
    def gpu_hours(self) -> tuple[float, float | None] | None:
        """GPU-hours so far, and at its end."""
        if self.gpus is None or self.seconds is None:
            return None
        now, remaining = self.seconds * self.gpus / SECONDS_PER_HOUR, self.seconds_left
        return now, None if remaining is None else now + remaining * self.gpus / SECONDS_PER_HOUR


def progress_of(
    steps: Sequence[Step],
    end: int | None,
    gpus: int | None = None,
    dollars_per_gpu_hour: float | None = None,
    ahead: int = 0,
) -> Progress | None:
    """Say how far a run is; None before its first update."""
    updates = [step for step in steps if step.step]
    if not updates:
        return None
    newest, before = updates[-NEWEST:], updates[-NEWEST - 1].step if len(updates) > NEWEST else 0
    timed = all(update.took is not None for update in updates)
    scores = [(max(0, step.step - ahead), step.score) for step in steps if step.score is not None]
    return Progress(
        step=updates[-1].step - ahead,
        end=end,
        seconds=sum(step.took or 0.0 for step in steps) if timed else None,
        seconds_per_step=sum(recent.took or 0.0 for recent in newest) / (newest[-1].step - before) if timed else None,
        best=max(scores, key=lambda score: score[1], default=None),
        now=scores[-1] if scores else None,
        dead_groups=_mean(newest, "zero_variance_share"),
        cut_off=_mean(newest, "truncated_share"),
        gpus=gpus,
        dollars_per_gpu_hour=dollars_per_gpu_hour,
        ahead=ahead,
    )


def _mean(steps: Sequence[Step], name: str) -> float | None:
    values = [step.values[name] for step in steps if name in step.values]
    return statistics.fmean(values) if values else None
