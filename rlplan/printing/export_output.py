"""Exports what a sweep has in its rows: one table into a file or to stdout, or all of them into a folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgets.errors import InputError, NotFoundError, UnknownNameError
from planner.store import open_store
from planner.store.sweeps import sweep_named
from rlplan.printing.export_writing import content, document, plain_rows, write_stdout
from rlplan.reading.export_tables import TABLES, Table, recorded, rows_of
from rlplan.reading.rank_reading import ranking
from rlplan.reading.row_choice import axis_cells, axis_columns
from rlplan.reading.sweep_data import RANKING_COLUMNS
from rlplan.wording.file_writing import require_room, write_file, write_folder
from rlplan.wording.formats import FileFormat
from rlplan.wording.terminal import tell

STDOUT = "-"
ALL, RANKING, REPLAY = "all", "ranking", "replay"
WHAT = (*TABLES, RANKING, ALL)


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What is asked of `rlplan export`; `out` is a path, or - for stdout."""

    out: str
    sweep: str | None = None
    what: str | None = None
    format: FileFormat | None = None
    purpose: str | None = None  # replay: the points as `rlplan replay` reads them
    force: bool = False


def export(database: str, request: ExportRequest) -> None:
    """Write what is asked for."""
    what, format = _what(request), _format(request)
    if what == ALL and format is not FileFormat.JSON and request.out == STDOUT:
        raise InputError("stdout takes one table: give --what points, or --format json, or a folder instead of -")
    if format is FileFormat.PARQUET and request.out == STDOUT:
        raise InputError("stdout takes no parquet: give --format csv or json, or a path instead of -")
    into_file = request.out != STDOUT and (what != ALL or _one_document(request, format))
    if into_file:
        require_room(Path(request.out).expanduser(), force=request.force)
    sweep, tables = _tables(database, request, (*TABLES, RANKING) if what == ALL else (what,))
    if what != ALL:
        _put(request, content(tables[what], format, {"sweep": sweep, "what": what}))
    elif _one_document(request, format):
        _put(request, document({"sweep": sweep, **{name: plain_rows(table) for name, table in tables.items()}}))
    else:
        files = {
            f"{name}.{format.value}": content(table, format, {"sweep": sweep, "what": name})
            for name, table in tables.items()
        }
        write_folder(Path(request.out).expanduser(), files, force=request.force)
    if request.out != STDOUT:
        counted = ", ".join(f"{name} ({len(table.rows):,} rows)" for name, table in tables.items())
        tell(f"wrote {counted} of {sweep} to {request.out}")


def _put(request: ExportRequest, written: bytes) -> None:
    if request.out == STDOUT:
        write_stdout(written)
    else:
        write_file(Path(request.out).expanduser(), written, force=request.force)


def _what(request: ExportRequest) -> str:
    if request.purpose is not None and request.purpose != REPLAY:
        raise UnknownNameError("purpose in --for", request.purpose, [REPLAY])
    if request.purpose == REPLAY:
        if request.what not in (None, "points"):
            raise InputError(f"--for replay exports points: leave out --what {request.what}")
        return "points"
    path = Path(request.out)
    into_folder = request.out != STDOUT and (not path.suffix or path.is_dir())
    what = request.what or (ALL if into_folder else "points")
    if what not in WHAT:
        raise UnknownNameError("table in --what", what, WHAT)
    return what


def _format(request: ExportRequest) -> FileFormat:
    """Return the format that the suffix or the flag names; they must not contradict each other."""
    suffix = "" if request.out == STDOUT else Path(request.out).suffix.casefold().removeprefix(".")
    by_suffix = next((format for format in FileFormat if format.value == suffix), None)
    if request.format is not None and by_suffix is not None and request.format is not by_suffix:
        raise InputError(
            f"'{request.out}' and --format {request.format.value} contradict each other: leave out --format, or give "
            f"another path, such as {Path(request.out).stem}.{request.format.value}"
        )
    if request.format is None and by_suffix is None and suffix and not Path(request.out).is_dir():
        raise InputError(
            f"'{request.out}' ends in none of .csv, .json and .parquet: give another path, or say which with --format"
        )
    return request.format or by_suffix or FileFormat.CSV


def _one_document(request: ExportRequest, format: FileFormat) -> bool:
    path = Path(request.out)
    return format is FileFormat.JSON and (request.out == STDOUT or (bool(path.suffix) and not path.is_dir()))


def _tables(database: str, request: ExportRequest, names: tuple[str, ...]) -> tuple[str, Mapping[str, Table]]:
    """Read the tables of one moment; the ranking is worked out after it where what is stored is out of date."""
    tables: dict[str, Table] = {}
    with open_store(database, read_only=True) as store, store.read() as session:
        sweep = sweep_named(session, request.sweep)
        for name in names:
            if request.purpose == REPLAY:
                tables[name] = recorded(session, sweep)
            elif name != RANKING:
                tables[name] = rows_of(session, sweep, name)
    if request.purpose == REPLAY and not tables["points"].rows:
        raise NotFoundError(f"{sweep.name} has no scores yet: there is nothing to replay")
    if RANKING in names:
        tables[RANKING] = _ranking(database, sweep.name)
    return sweep.name, tables


def _ranking(database: str, sweep: str) -> Table:
    found = ranking(database, sweep)
    axes = axis_columns(row.axes for row in found.rows)
    rows: list[dict[str, Any]] = []
    for row in found.rows:
        values = {name: getattr(row, name) for name in RANKING_COLUMNS} | axis_cells(row.axes)
        rows.append({"sweep": sweep, "plan": found.plan, "source": found.source.value, **values})
    return Table(("sweep", "plan", "source", *RANKING_COLUMNS, *axes), rows)
