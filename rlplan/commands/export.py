"""`rlplan export`: the tables of a sweep as files, or on stdout."""

import codecs
import json
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import IO, Any, BinaryIO

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import InputError, NotFoundError, UnknownNameError
from planner.store import open_store
from planner.store.read_model import counting, every_point, present_attempts
from planner.store.schema import Decision, Fit, Segment, Sweep, Trial
from planner.store.sweeps import sweep_named, totals_of
from planner.tables import flattened
from rlplan.reading.ranked import ranking
from rlplan.reading.row_choice import axis_cells
from rlplan.reading.sweep_picture import ScoreData
from rlplan.reading.sweep_rows import read_picture
from rlplan.requests.results import ExportRequest
from rlplan.wording.answers import TRIALS, Columns, columns, plain, spread
from rlplan.wording.command_lines import FileFormat
from rlplan.wording.file_writing import require_room, write_csv, write_file
from rlplan.wording.screen import tell

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


STDOUT = "-"
ALL, RANKING, REPLAY = "all", "ranking", "replay"
WHAT = (*TABLES, RANKING, ALL)
_PLAIN = frozenset({str, int, float, bool, type(None)})


def answer(request: ExportRequest) -> None:
    """Write the tables that are asked for."""
    out = request.out
    if out is None:
        raise InputError("nothing says where to write: give a file, or - for stdout")
    what, format = _what(request), _format(request, out)
    if what == ALL and format is not FileFormat.JSON:
        raise InputError("all tables go into one JSON document: give a .json file, or - with --format json")
    path = None if out == STDOUT else Path(out).expanduser()
    if path is not None:
        require_room(path, force=request.force)
    with tempfile.TemporaryFile() as file:
        sweep, tables = _tables(request, (*TABLES, RANKING) if what == ALL else (what,), file)
        if format is FileFormat.CSV:
            content: Callable[[BinaryIO], None] = partial(_write_csv, tables[what])
        elif what == ALL:
            content = partial(_write_json, {"sweep": sweep}, tables)
        else:
            about = {"sweep": sweep, "what": what, "columns": list(tables[what].columns)}
            content = partial(_write_json, about, {"rows": tables[what]})
        if path is None:
            content(sys.stdout.buffer)
            return
        write_file(path, content, force=request.force)
    sizes = ", ".join(f"{name} ({table.count:,} rows)" for name, table in tables.items())
    tell(f"wrote {sizes} of {sweep} to {out}")


def _what(request: ExportRequest) -> str:
    if request.purpose is not None and request.purpose != REPLAY:
        raise UnknownNameError("purpose in --for", request.purpose, [REPLAY])
    if request.purpose == REPLAY and request.what not in (None, "points"):
        raise InputError(f"--for replay exports points: leave out --what {request.what}")
    what = request.what or "points"
    if what not in WHAT:
        raise UnknownNameError("table in --what", what, WHAT)
    return what


def _format(request: ExportRequest, out: str) -> FileFormat:
    """Return the format that the suffix or the flag names; they must not contradict each other."""
    suffix = "" if out == STDOUT else Path(out).suffix.casefold().removeprefix(".")
    by_suffix = next((format for format in FileFormat if format.value == suffix), None)
    if request.format is not None and by_suffix is not None and request.format is not by_suffix:
        raise InputError(
            f"'{out}' and --format {request.format.value} contradict each other: leave out --format, or give "
            f"another path, such as {Path(out).stem}.{request.format.value}"
        )
    if request.format is None and by_suffix is None and suffix:
        raise InputError(f"'{out}' ends in neither .csv nor .json: give another path, or say which with --format")
    return request.format or by_suffix or FileFormat.CSV


def _tables(request: ExportRequest, names: tuple[str, ...], file: IO[bytes]) -> tuple[str, dict[str, Table]]:
    """Read tables of the sweep, whose name is returned; the ranking is worked out where the stored one is old."""
    tables = {}
    with open_store(request.db, read_only=True) as store, store.read() as session:
        sweep = sweep_named(session, request.sweep)
        for name in names:
            if request.purpose == REPLAY:
                tables[name] = Table(REPLAYED, recorded(session, sweep), file)
                if not tables[name].count:
                    raise NotFoundError(f"{sweep.name} has no scores yet: there is nothing to replay")
            elif name == RANKING:
                ranked = ranking(request.db, sweep.name)
                keys = {"sweep": sweep.name, "plan": ranked.plan, "source": ranked.source.value}
                columns, rows = ranked.table()
                tables[name] = Table((*keys, *columns), (keys | row for row in rows), file)
            else:
                columns, read = TABLES[name]
                tables[name] = Table(columns, read(session, sweep), file)
        return sweep.name, tables


def _write_json(about: Mapping[str, Any], tables: Mapping[str, Table], file: BinaryIO) -> None:
    """Write one JSON document, a line for each row: a table may be too long to be held."""
    file.write(json.dumps(about, indent=1, allow_nan=False).removesuffix("\n}").encode())
    for name, table in tables.items():
        file.write(f",\n {json.dumps(name)}: [".encode())
        between, end = "\n", ""
        for row in table.rows():
            file.write(f"{between}  {json.dumps(row, allow_nan=False, default=plain)}".encode())
            between, end = ",\n", "\n "
        file.write(f"{end}]".encode())
    file.write(b"\n}\n")


def _write_csv(table: Table, file: BinaryIO) -> None:
    rows = (
        {name: cell if cell.__class__ in _PLAIN else _text(cell) for name, cell in row.items()} for row in table.rows()
    )
    # Unlike a TextIOWrapper it leaves stdout open where the reader goes before the end.
    text: Any = codecs.getwriter("utf-8")(file, "replace")
    write_csv(text, table.columns, rows)


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list | tuple) else plain(value)
