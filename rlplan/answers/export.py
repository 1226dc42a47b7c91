"""`rlplan export`: the tables of a sweep as files, or on stdout."""

import io
import json
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO

from budgets.errors import InputError, NotFoundError, UnknownNameError
from planner.experience.plain import document as experience_document
from planner.store import open_store
from planner.store.sweeps import sweep_named
from rlplan.actions.learning import experience_in
from rlplan.reading.export_tables import REPLAYED, TABLES, Table, recorded
from rlplan.reading.rank_reading import ranking
from rlplan.requests.reading import ExportRequest
from rlplan.wording.documents import plain
from rlplan.wording.file_writing import Content, require_room, write_csv, write_file
from rlplan.wording.formats import FileFormat
from rlplan.wording.terminal import tell

STDOUT = "-"
ALL, RANKING, REPLAY = "all", "ranking", "replay"
WHAT = (*TABLES, RANKING, ALL)
_PLAIN = frozenset({str, int, float, bool, type(None)})


def answer(request: ExportRequest) -> None:
    """Write what is asked for, or what the sweep has learnt."""
    if request.experience is None:
        _export_tables(request)
        return
    if (request.out, request.what, request.purpose, request.format) != (None, None, None, None):
        raise InputError("--experience writes one file: leave out the other path, --what, --for and --format")
    _require_room(request.experience, request)
    experience = experience_in(request.db, request.sweep)
    size = f"{experience.configurations} configurations ({experience.curves} curves)"
    content = experience_document([experience]).encode()
    _write(request.experience, content, f"what {experience.name} has learnt of {size}", request)


def _export_tables(request: ExportRequest) -> None:
    out = request.out
    if out is None:
        raise InputError("nothing says where to write: give a file, - for stdout, or --experience FILE")
    what, format = _what(request), _format(request, out)
    if what == ALL and format is not FileFormat.JSON:
        raise InputError("all tables go into one JSON document: give a .json file, or - with --format json")
    _require_room(out, request)
    with tempfile.TemporaryFile() as file:
        sweep, tables = _tables(request, (*TABLES, RANKING) if what == ALL else (what,), file)
        if format is FileFormat.CSV:
            content: Content = partial(_write_csv, tables[what])
        elif what == ALL:
            content = partial(_write_json, {"sweep": sweep}, tables)
        else:
            about = {"sweep": sweep, "what": what, "columns": list(tables[what].columns)}
            content = partial(_write_json, about, {"rows": tables[what]})
        sizes = ", ".join(f"{name} ({table.count:,} rows)" for name, table in tables.items())
        _write(out, content, f"{sizes} of {sweep}", request)


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


def _require_room(out: str, request: ExportRequest) -> None:
    if out != STDOUT:
        require_room(Path(out).expanduser(), force=request.force)


def _write(out: str, content: Content, what: str, request: ExportRequest) -> None:
    if out != STDOUT:
        write_file(Path(out).expanduser(), content, force=request.force)
        tell(f"wrote {what} to {out}")
    elif isinstance(content, bytes):
        sys.stdout.buffer.write(content)
    else:
        content(sys.stdout.buffer)


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
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
    write_csv(text, table.columns, rows)
    text.detach()


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list | tuple) else plain(value)
