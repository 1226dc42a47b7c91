"""`rlplan export`: the tables of a sweep as files, or on stdout."""

import codecs
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO

from budgets.errors import InputError, NotFoundError, UnknownNameError
from planner.store import open_store
from planner.store.sweeps import sweep_named
from rlplan.reading.export_tables import REPLAYED, TABLES, Table, recorded
from rlplan.reading.rank_reading import ranking
from rlplan.requests.reading import ExportRequest
from rlplan.wording.documents import plain
from rlplan.wording.file_writing import require_room, write_csv, write_file
from rlplan.wording.formats import FileFormat
from rlplan.wording.terminal import tell

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
