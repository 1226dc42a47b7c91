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
        return [each for each in self.steps if each.score is not None]

    @property
    def base_score(self) -> float | None:
        """The score before training; None where there is none between 0 and 1."""
        first = next((each.score for each in self.scores if each.step == 0), None)
        return first if first is not None and 0 <= first <= 1 else None

    @property
    def timed(self) -> bool:
        """Whether it is known how long its updates took."""
        return any(each.took for each in self.steps if each.step)

    @property
    def problems(self) -> str | None:
        """The validation problems by the last part of their name, as far as the series names them."""
        found = _PROBLEMS.match(self.score or "")
        named = next(filter(None, found.groups()), None) if found else self.score
        return named.rpartition("/")[2].casefold() if named else None

    @property
    def samples(self) -> int | None:
        """Answers to each validation problem, where the series' name says so."""
        found = _SAMPLES.search(self.score or "")
        return int(found[1]) if found else None

    @property
    def last_step(self) -> int:
        """How many updates it did."""
        return self.steps[-1].step if self.steps else 0

    def typical(self, name: str) -> float | None:
        """Return the median of one of our values over the updates; None where it was never said."""
        finite = [each.values[name] for each in self.steps if name in each.values and np.isfinite(each.values[name])]
        return statistics.median(finite) if finite else None

    def phases(self) -> dict[str, float]:
        """Return the median seconds of each phase, over the steps in which it occurred."""
        named = dict.fromkeys(phase for each in self.steps for phase in each.seconds)
        return {phase: statistics.median(e.seconds[phase] for e in self.steps if phase in e.seconds) for phase in named}


def read_run(path: Path, scores: Sequence[str] = (), tables: Sequence[Table] | None = None) -> LoggedRun:
    """Read a run's log, whatever wrote it; `scores` names series of which the first that it has is to be the score.

    `tables` are what it holds, where that was read already.
    """
    tables = read_table(path) if tables is None else tables
    if len(tables) > 1 and not any(path.glob("*/metrics.jsonl")):  # prime-rl's trainer and orchestrator have one each
        raise InputError(f"'{path}' holds {len(tables)} runs: give them one by one")
    table = tables[0]
    columns = dict.fromkeys(name for each in tables for name in each.columns)
    trainer = trainer_of(columns, table.trainer)
    series, why, others = _score(tables, trainer, scores)
    clock = next((name for name in _CLOCKS if name in columns), None)
    used = {*(known_to(trainer, columns) if trainer else ()), series, clock}
    step_rows, notes = [], list(table.notes)
    for each in tables:
        counter = next((column for name in _STEPS for column in matching(name, each.columns)), None)
        if counter is None:
            raise InputError(f"'{path}' counts no steps: a run that is adopted has a column step")
        placed = np.isfinite(each.columns[counter])
        rows, restarted = newest(each, np.arange(each.rows), placed, counter)
        notes += restarted
        counts, kept = each.columns[counter], np.zeros(each.rows, dtype=bool)
        kept[rows[placed[rows]]] = True
        values = rows_of(each, [name for name in each.columns if name in used and name != counter])
        step_rows += [(int(counts[row]), of_row) for row, of_row in enumerate(values) if kept[row]]
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
    found: dict[str, float | str] = {}
    for table in tables:
        for name, column in table.columns.items():
            values = column[np.isfinite(column)]
            if values.size and values.min() == values.max():
                found[name] = float(values[0])
        texts = {name: set(column) - {""} for name, column in table.text.items()}
        found |= {name: min(values) for name, values in texts.items() if len(values) == 1}
    return {re.sub(r"^config[./]", "", name).replace("-", "_"): value for name, value in found.items()}


def _score(
    tables: Sequence[Table], trainer: Trainer | None, given: Sequence[str]
) -> tuple[str | None, str, tuple[str, ...]]:
    """Return the score's series, why it is, and the others; validations alone serve without being asked for."""
    counts = {name: int((~np.isnan(values)).sum()) for table in tables for name, values in table.columns.items()}
    if given:
        wanted = next((name for name in given if name in counts), given[0])
        table = next((each for each in tables if wanted in each.columns), tables[0])
        return resolve(wanted, table, "score"), "as asked for", ()
    if trainer is None:
        own = next((name for name in ("score", "metric", "accuracy") if name in counts), None)
        return own, "by its name", ()
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
    found, before, at = [], 0, None
    for step, values in placed:
        ours, seconds = ours_of(trainer, values) if trainer else ({}, {})
        now = values.get(clock) if clock else None
        took = _took(trainer, seconds, max(1, step - before) if step else 0)
        if took is None and now is not None:
            took = max(0.0, now - at) if at is not None else None
        at = now if now is not None else at
        found.append(Step(step, values.get(score) if score else None, seconds, took, ours))
        before = step
    return _filled(found), ahead


def _took(trainer: Trainer | None, seconds: Mapping[str, float], updates: int) -> float | None:
    """Return what a step took: its own time, for as many updates as it stands for, and what lies outside of it.

    Phases may overlap, as generation and training do in an asynchronous run: their sum serves where no step is timed.
    Some versions of a trainer hold a phase within the step: where the others leave room for it, it is in there.
    """
    if trainer is None or not seconds:
        return None
    inside = sum(took for phase, took in seconds.items() if phase != WHOLE_STEP and phase not in trainer.outside)
    whole, beside = seconds.get(WHOLE_STEP, inside), 0.0
    room = whole - inside if {"generate", "update"} <= seconds.keys() else 0.0
    for took in sorted((seconds[phase] for phase in trainer.outside if phase in seconds), reverse=True):
        room, beside = (room - took, beside) if took <= room else (room, beside + took)
    return whole * updates + beside


def _filled(steps: Sequence[Step], usual: float | None = None) -> Sequence[Step]:
    """Give updates whose time is not known the median one, or what is given where there is none."""
    known = [each.took for each in steps if each.took is not None and each.step]
    usual = statistics.median(known) if known else usual
    if usual is None:
        return steps
    before = [0, *(each.step for each in steps)]
    return [
        each if each.took is not None else replace(each, took=usual * (each.step - last))
        for each, last in zip(steps, before, strict=False)
    ]


def timed(run: LoggedRun, seconds_per_step: float) -> LoggedRun:
    """Return a run whose log does not say how long its steps took, with so many seconds for each."""
    if run.timed:
        return run
    untimed = [replace(each, took=None) if each.step else each for each in run.steps]
    return replace(run, steps=tuple(_filled(untimed, seconds_per_step)))


def gpu_hours(steps: Sequence[Step], gpus: int) -> list[float]:
    """Return the GPU-hours up to each step."""
    seconds = np.cumsum([max(each.took or 0.0, LEAST_SECONDS) for each in steps])
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
        now, left = self.seconds * self.gpus / SECONDS_PER_HOUR, self.seconds_left
        return now, None if left is None else now + left * self.gpus / SECONDS_PER_HOUR


def progress_of(
    steps: Sequence[Step],
    end: int | None,
    gpus: int | None = None,
    dollars_per_gpu_hour: float | None = None,
    ahead: int = 0,
) -> Progress | None:
    """Say how far a run is; None before its first update."""
    updates = [each for each in steps if each.step]
    if not updates:
        return None
    newest, before = updates[-NEWEST:], updates[-NEWEST - 1].step if len(updates) > NEWEST else 0
    timed = all(each.took is not None for each in updates)
    scores = [(max(0, each.step - ahead), each.score) for each in steps if each.score is not None]
    return Progress(
        step=updates[-1].step - ahead,
        end=end,
        seconds=sum(each.took or 0.0 for each in steps) if timed else None,
        seconds_per_step=sum(each.took or 0.0 for each in newest) / (newest[-1].step - before) if timed else None,
        best=max(scores, key=lambda each: each[1], default=None),
        now=scores[-1] if scores else None,
        dead_groups=_mean(newest, "zero_variance_share"),
        cut_off=_mean(newest, "truncated_share"),
        gpus=gpus,
        dollars_per_gpu_hour=dollars_per_gpu_hour,
        ahead=ahead,
    )


def _mean(steps: Sequence[Step], name: str) -> float | None:
    known = [each.values[name] for each in steps if name in each.values]
    return statistics.fmean(known) if known else None
