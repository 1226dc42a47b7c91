"""`rlplan export`: the tables of a sweep as files, or on stdout."""

import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy.orm import Session

from budgets.errors import InputError, NotFoundError, UnknownNameError
from planner.experience.plain import document as experience_document
from planner.store import open_store
from planner.store.schema import Sweep
from planner.store.sweeps import sweep_named
from rlplan.actions.learning import experience_in
from rlplan.reading.export_tables import TABLES, Row, Table, recorded
from rlplan.reading.rank_reading import ranking
from rlplan.requests.reading import ExportRequest
from rlplan.wording.file_writing import Content, require_room, write_cells, write_file
from rlplan.wording.formats import FileFormat
from rlplan.wording.terminal import tell

STDOUT = "-"
ALL, RANKING, REPLAY = "all", "ranking", "replay"
WHAT = (*TABLES, RANKING, ALL)
_AS_IT_IS = frozenset({str, int, float, bool, type(None)})


def answer(asked: ExportRequest) -> None:
    """Write what is asked for, or what the sweep has learnt."""
    if asked.experience is not None:
        if (asked.out, asked.what, asked.purpose, asked.format) != (None, None, None, None):
            raise InputError("--experience writes one file: leave out the other path, --what, --for and --format")
        _export_experience(asked.db, asked.experience, asked.sweep, force=asked.force)
    elif asked.out is None:
        raise InputError("nothing says where to write: give a file, - for stdout, or --experience FILE")
    else:
        _export(asked, asked.out)


def _export(request: ExportRequest, out: str) -> None:
    what, format = _what(request), _format(request, out)
    if what == ALL and format is not FileFormat.JSON:
        raise InputError("all tables go into one JSON document: give a .json file, or - with --format json")
    if format is FileFormat.PARQUET and out == STDOUT:
        raise InputError("stdout takes no parquet: give --format csv or json, or a path instead of -")
    if out != STDOUT:
        require_room(Path(out).expanduser(), force=request.force)
    with open_store(request.db, read_only=True) as store, store.read() as session:
        sweep = sweep_named(session, request.sweep)
        tables = _tables(request.db, session, sweep, request.purpose, (*TABLES, RANKING) if what == ALL else (what,))
        if what == ALL:
            written = _document({"sweep": sweep.name}, {name: table.rows for name, table in tables.items()})
        else:
            written = content(tables[what], format, {"sweep": sweep.name, "what": what})
        if out != STDOUT:
            write_file(Path(out).expanduser(), written, force=request.force)
            counted = ", ".join(f"{name} ({len(table.rows):,} rows)" for name, table in tables.items())
            tell(f"wrote {counted} of {sweep.name} to {out}")
        elif isinstance(written, bytes):
            sys.stdout.buffer.write(written)
        else:
            written(sys.stdout.buffer)


def _export_experience(database: str, out: str, sweep: str | None, *, force: bool) -> None:
    """Write what a sweep has learnt into a file that `--learn-from` reads, or to stdout for -."""
    path = Path(out).expanduser()
    if out != STDOUT:
        require_room(path, force=force)
    experience = experience_in(database, sweep)
    text = experience_document([experience])
    if out == STDOUT:
        sys.stdout.write(text)
        return
    write_file(path, text.encode(), force=force)
    tell(
        f"wrote what {experience.name} has learnt of {experience.configurations} configurations "
        f"({experience.curves} curves) to {out}"
    )


def _what(request: ExportRequest) -> str:
    if request.purpose is not None and request.purpose != REPLAY:
        raise UnknownNameError("purpose in --for", request.purpose, [REPLAY])
    if request.purpose == REPLAY:
        if request.what not in (None, "points"):
            raise InputError(f"--for replay exports points: leave out --what {request.what}")
        return "points"
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
        raise InputError(
            f"'{out}' ends in none of .csv, .json and .parquet: give another path, or say which with --format"
        )
    return request.format or by_suffix or FileFormat.CSV


def _tables(
    database: str, session: Session, sweep: Sweep, purpose: str | None, names: Sequence[str]
) -> Mapping[str, Table]:
    """Read the tables of one moment; the ranking is worked out where what is stored is out of date."""
    if purpose == REPLAY:
        found = recorded(session, sweep)
        if not found.rows:
            raise NotFoundError(f"{sweep.name} has no scores yet: there is nothing to replay")
        return dict.fromkeys(names, found)
    tables = {name: TABLES[name](session, sweep) for name in names if name != RANKING}
    if RANKING in names:
        ranked = ranking(database, sweep.name)
        own = {"sweep": sweep.name, "plan": ranked.plan, "source": ranked.source.value}
        columns, rows = ranked.table()
        tables[RANKING] = Table((*own, *columns), [own | row for row in rows])
    return tables


def content(table: Table, format: FileFormat, about: Mapping[str, Any]) -> Content:
    """Return a table as the content of a file; `about` goes with JSON alone, which has a place for it."""
    if format is FileFormat.CSV:
        return partial(_write_csv, table)
    if format is FileFormat.JSON:
        return _document({**about, "columns": list(table.columns)}, {"rows": table.rows})
    return _parquet(table)


def _document(about: Mapping[str, Any], lists: Mapping[str, Iterable[Row]]) -> Content:
    """Return one JSON document, a line for each row, of which the lists may be too long to be held."""

    def write(file: BinaryIO) -> None:
        file.write(json.dumps(about, indent=1, allow_nan=False).removesuffix("\n}").encode())
        for name, rows in lists.items():
            file.write(f",\n {json.dumps(name)}: [".encode())
            between, end = "\n", ""
            for row in rows:
                file.write(f"{between}  {json.dumps(dict(row), allow_nan=False, default=_flat)}".encode())
                between, end = ",\n", "\n "
            file.write(f"{end}]".encode())
        file.write(b"\n}\n")

    return write


def _write_csv(table: Table, file: BinaryIO) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
    write_cells(text, table.columns, (_cells(row, table.columns) for row in table.rows))
    text.detach()


def _cells(row: Row, columns: Sequence[str]) -> list[Any]:
    cells = list(map(row.get, columns))
    return cells if _AS_IT_IS.issuperset(map(type, cells)) else list(map(_flat, cells))  # nearly all are as they are


def _parquet(table: Table) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError("a .parquet file needs pyarrow, which is not installed. Run: pip install pyarrow") from error
    rows = list(table.rows)
    columns: dict[str, list[Any]] = {}
    for name in table.columns:
        values = [value if isinstance(value := row.get(name), datetime) else _flat(value) for row in rows]
        mixed = len({type(value) for value in values if value is not None}) > 1  # a column has one type
        columns[name] = [None if value is None else str(value) for value in values] if mixed else values
    file = io.BytesIO()
    parquet.write_table(pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()}), file)
    return file.getvalue()


def _flat(value: Any) -> Any:
    """Return a value for one cell."""
    if value.__class__ in _AS_IT_IS:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value
