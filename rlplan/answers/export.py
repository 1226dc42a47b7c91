"""`rlplan export`: the tables of a sweep as files, or on stdout."""

import io
import json
import sys
from collections.abc import Iterator, Mapping
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
from rlplan.reading.export_tables import REPLAYED, TABLES, Table, recorded
from rlplan.reading.rank_reading import ranking
from rlplan.requests.reading import ExportRequest
from rlplan.wording.documents import plain
from rlplan.wording.file_writing import Content, require_room, write_cells, write_file
from rlplan.wording.formats import FileFormat
from rlplan.wording.terminal import tell

STDOUT = "-"
ALL, RANKING, REPLAY = "all", "ranking", "replay"
WHAT = (*TABLES, RANKING, ALL)
_PLAIN = frozenset({str, int, float, bool, type(None)})


def answer(request: ExportRequest) -> None:
    """Write what is asked for, or what the sweep has learnt."""
    if request.experience is not None:
        if (request.out, request.what, request.purpose, request.format) != (None, None, None, None):
            raise InputError("--experience writes one file: leave out the other path, --what, --for and --format")
        _export_experience(request, request.experience)
    elif request.out is None:
        raise InputError("nothing says where to write: give a file, - for stdout, or --experience FILE")
    else:
        _export_tables(request, request.out)


def _export_experience(request: ExportRequest, out: str) -> None:
    """Write what a sweep has learnt into a file that `--learn-from` reads, or to stdout for -."""
    _require_room(out, force=request.force)
    experience = experience_in(request.db, request.sweep)
    size = f"{experience.configurations} configurations ({experience.curves} curves)"
    _write(out, experience_document([experience]).encode(), f"what {experience.name} has learnt of {size}", request)


def _export_tables(request: ExportRequest, out: str) -> None:
    what, format = _what(request), _format(request, out)
    if what == ALL and format is not FileFormat.JSON:
        raise InputError("all tables go into one JSON document: give a .json file, or - with --format json")
    _require_room(out, force=request.force)
    with open_store(request.db, read_only=True) as store, store.read() as session:
        sweep = sweep_named(session, request.sweep)
        names = (*TABLES, RANKING) if what == ALL else (what,)
        tables = {name: _table(name, request, session, sweep) for name in names}
        if format is FileFormat.CSV:
            content: Content = partial(_write_csv, tables[what])
        elif what == ALL:
            content = partial(_write_json, {"sweep": sweep.name}, tables)
        else:
            about = {"sweep": sweep.name, "what": what, "columns": list(tables[what].columns)}
            content = partial(_write_json, about, {"rows": tables[what]})
        sizes = ", ".join(f"{name} ({table.count:,} rows)" for name, table in tables.items())
        _write(out, content, f"{sizes} of {sweep.name}", request)


def _require_room(out: str, *, force: bool) -> None:
    if out != STDOUT:
        require_room(Path(out).expanduser(), force=force)


def _write(out: str, content: Content, what: str, request: ExportRequest) -> None:
    if out != STDOUT:
        write_file(Path(out).expanduser(), content, force=request.force)
        tell(f"wrote {what} to {out}")
    elif isinstance(content, bytes):
        sys.stdout.buffer.write(content)
    else:
        content(sys.stdout.buffer)


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


def _table(name: str, request: ExportRequest, session: Session, sweep: Sweep) -> Table:
    """Read a table; the ranking is worked out where what is stored is out of date."""
    if request.purpose == REPLAY:
        table = Table(REPLAYED, partial(recorded, session, sweep))
        if not table.count:
            raise NotFoundError(f"{sweep.name} has no scores yet: there is nothing to replay")
        return table
    if name == RANKING:
        ranked = ranking(request.db, sweep.name)
        keys = {"sweep": sweep.name, "plan": ranked.plan, "source": ranked.source.value}
        columns, rows = ranked.table()
        return Table((*keys, *columns), lambda: (keys | row for row in rows))
    columns, read = TABLES[name]
    return Table(columns, partial(read, session, sweep))


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
    def cells() -> Iterator[list[Any]]:
        for row in table.rows():
            yield [value if value.__class__ in _PLAIN else _cell(value) for value in map(row.get, table.columns)]

    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
    write_cells(text, table.columns, cells())
    text.detach()


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list | tuple) else plain(value)
