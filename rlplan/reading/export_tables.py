"""The tables of a sweep as rows, which are read one at a time: a sweep may have millions of points."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import IO, Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from planner.store.curves import counting, every_point, present_attempts
from planner.store.schema import Decision, Fit, Segment, Sweep, Trial
from planner.store.sweeps import totals_of
from planner.tables import flattened
from rlplan.reading.row_choice import axis_cells
from rlplan.reading.sweep_picture import ScoreData
from rlplan.reading.sweep_reading import read_picture
from rlplan.wording.documents import plain
from rlplan.wording.row_columns import TRIALS, Columns, columns, spread

Row = dict[str, Any]
Rows = Callable[[Session, Sweep], Iterable[Row]]
SEGMENTS = columns("""
    number attempt from_step to_step reserved_gpu_hours charged_gpu_hours worker started_at ended_at outcome
    start_up_gpu_hours
""")
REPLAYED = columns("run rollouts_per_prompt prompts_per_batch seed gpu_hours score score_standard_error step")
DECISIONS = columns("number at action reason seen alternatives")
FITS = columns("""
    made_at model verdict upto_gpu_hours target_gpu_hours predicted_mean predicted_low predicted_high level
    probability_best fit_milliseconds parameters
""")


def points(session: Session, sweep: Sweep) -> Iterator[Row]:
    """Yield every point by trial, step and attempt, with the metrics of its update.

    Of a step that several attempts reached, `counts` marks the newest one's; what an attempt did beyond the step where
    the present one began is void.
    """
    trials = session.execute(select(Trial.name, Trial.attempt, Trial.id).where(Trial.sweep_id == sweep.id)).all()
    attempts = present_attempts(trials, totals_of(session, sweep.id))
    present = {trial.name: attempts[trial.id] for trial in trials}
    steps = groupby(every_point(session, sweep.id), key=lambda row: (row[0]["trial"], row[1].step))
    for (name, step), at_step in steps:
        rows = list(at_step)
        counted = counting(present[name], step, [point for _, point in rows])
        for trial, point in rows:
            measured = point._asdict()
            further, metrics = measured.pop("further_scores") or {}, measured.pop("metrics") or {}
            cell = {name: value for name, value in trial.items() if name != "axes"} | axis_cells(trial["axes"])
            row = {"sweep": sweep.name, **cell, "attempt": 0, "step": step, "counts": point is counted, **measured}
            row |= {f"further.{score}": value[0] for score, value in further.items() if value}
            yield row | dict(flattened(metrics, "metrics."))


def recorded(session: Session, sweep: Sweep) -> Iterator[Row]:
    """Yield the curves as `rlplan replay` reads them: what counts of each trial, in the metric that the sweep uses.

    Two scores at the same GPU-hours cannot both be on a curve; the later one is taken.
    """
    for trial in read_picture(session, sweep, datetime.now(UTC)).trials:
        cell = {"run": trial.name, **{name: getattr(trial, name) for name in REPLAYED[1:4]}}
        for score in {score.gpu_hours: score for score in trial.scores}.values():
            yield cell | plain(ScoreData(score)) | dict(trial.axes)


def trials(session: Session, sweep: Sweep) -> Iterator[Row]:
    """Yield every trial as it stands."""
    picture = read_picture(session, sweep, datetime.now(UTC))
    further = columns("recipe checkpoint_path created_at updated_at failure_tail")
    query = select(Trial.id, *(getattr(Trial, name) for name in further)).where(Trial.sweep_id == sweep.id)
    stored = {number: dict(zip(further, values, strict=True)) for number, *values in session.execute(query)}
    for trial, row in zip(picture.trials, spread(TRIALS, picture.trials)[1], strict=True):
        yield {"sweep": sweep.name, **row, **stored[trial.id]}


def stored(model: Any, names: Iterable[str], session: Session, sweep: Sweep) -> Iterator[Row]:
    """Yield the rows of a table of the database whose rows belong to a trial of the sweep, or to the sweep itself.

    What they have as `parameters` is a column for each value.
    """
    cells = (getattr(model, name) for name in names)
    query = select(Trial.name.label("trial"), *cells).select_from(model).outerjoin(Trial, Trial.id == model.trial_id)
    owner = getattr(model, "sweep_id", Trial.sweep_id)
    for found in session.execute(query.where(owner == sweep.id).order_by(model.id)):
        row = {"sweep": sweep.name, **found._mapping}
        yield row | dict(flattened(row.pop("parameters", None) or {}))


class Table:
    """Rows under the columns that any of them has, kept in a file: a sweep may have millions of points."""

    def __init__(self, columns: Columns, rows: Iterable[Row], file: IO[bytes]) -> None:
        """Read the rows once, and put them at the end of the file."""
        names: Row = dict.fromkeys(columns)
        self.count, self._file, self._begins = 0, file, file.tell()
        for row in rows:
            self.count += 1
            names |= row
            pickle.dump(row, file)
        self.columns = tuple(names)

    def rows(self) -> Iterator[Row]:
        """Yield the rows as they were read."""
        self._file.seek(self._begins)
        for _ in range(self.count):
            yield pickle.load(self._file)


TABLES: Mapping[str, tuple[Columns, Rows]] = {  # each with the columns that it has without any row
    "points": ((), points),
    "trials": ((), trials),
    "segments": (("sweep", "trial", *SEGMENTS), partial(stored, Segment, SEGMENTS)),
    "decisions": (("sweep", "trial", *DECISIONS), partial(stored, Decision, DECISIONS)),
    "fits": (("sweep", "trial", *FITS[:-1]), partial(stored, Fit, FITS)),
}
