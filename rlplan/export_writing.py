"""Writes tables to files, whole or not at all, and to stdout."""

import io
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from rlplan.csv_writing import write_csv
from rlplan.databases import refuse_database
from rlplan.export_tables import Row, Table
from rlplan.options import FileFormat


def content(table: Table, format: FileFormat, about: Mapping[str, Any]) -> bytes:
    """Return a table as the content of a file; `about` goes with JSON alone, which has a place for it."""
    if format is FileFormat.CSV:
        return _csv(table)
    if format is FileFormat.JSON:
        return document({**about, "columns": list(table.columns), "rows": [_plain(row) for row in table.rows]})
    return _parquet(table)


def document(data: Mapping[str, Any]) -> bytes:
    """Return one JSON document."""
    return (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()


def plain_rows(table: Table) -> list[Row]:
    """Return rows as JSON can hold them."""
    return [_plain(row) for row in table.rows]


def write_stdout(written: bytes) -> None:
    """Write to stdout."""
    sys.stdout.write(written.decode())


def write_file(path: Path, written: bytes, *, force: bool) -> None:
    """Write a file whole or not at all; one that is there is only replaced by force."""
    path = path.resolve()
    require_room(path, force=force)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with _explained(path):
        try:
            _fill(part, written)
            _put(part, path, force=force)
        finally:
            part.unlink(missing_ok=True)


def write_folder(folder: Path, files: Mapping[str, bytes], *, force: bool) -> None:
    """Write files into a folder that is made for them, whole or not at all; by force into one that is there."""
    folder = folder.resolve()
    if folder.is_dir() and any(folder.iterdir()):
        if not force:
            raise InputError(f"{folder} is there and not empty; give another folder, or --force to write into it")
        for name, written in files.items():
            write_file(folder / name, written, force=True)
        return
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; all tables go into a folder, or into one .json file")
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    with _explained(folder):
        try:
            part.mkdir()
            for name, written in files.items():
                _fill(part / name, written)
            os.replace(part, folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def require_room(path: Path, *, force: bool) -> None:
    """Refuse a path that cannot be written, or that would replace something."""
    if not path.exists():
        return
    if not path.is_file():
        raise InputError(f"{path} is no file that can be written; give a path of a file, or - for stdout")
    if not force:
        raise _taken(path)
    refuse_database(path)


def _taken(path: Path) -> InputError:
    return InputError(f"{path} exists already; give another path, or --force to replace it")


def _fill(path: Path, written: bytes) -> None:
    with path.open("xb") as file:
        file.write(written)
        file.flush()
        os.fsync(file.fileno())


def _put(part: Path, path: Path, *, force: bool) -> None:
    """Give a file its name; without force only one that no other file has got in the meantime."""
    if force:
        os.replace(part, path)
        return
    try:
        os.link(part, path)
    except FileExistsError as error:
        raise _taken(path) from error
    except OSError:  # a file system without links
        require_room(path, force=False)
        os.replace(part, path)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what the file system refuses into a sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror or error}; give a path in a folder that you may write"
        ) from error


def _csv(table: Table) -> bytes:
    text = io.StringIO()
    write_csv(text, table.columns, ({name: _flat(value) for name, value in row.items()} for row in table.rows))
    return text.getvalue().encode(errors="replace")


def _parquet(table: Table) -> bytes:
    try:
        import pyarrow  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise InputError("a .parquet file needs pyarrow, which is not installed. Run: pip install pyarrow") from error
    columns = {name: _column(row.get(name) for row in table.rows) for name in table.columns}
    file = io.BytesIO()
    parquet.write_table(pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()}), file)
    return file.getvalue()


def _column(values: Iterable[Any]) -> list[Any]:
    """Return a column's values as one type: numbers as they are, what is mixed as text."""
    flat = [value if isinstance(value, datetime) else _flat(value) for value in values]
    kinds = {_kind(value) for value in flat} - {None}
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in flat]
    return flat


def _kind(value: Any) -> type | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, float) else int if isinstance(value, int) else type(value)


def _flat(value: Any) -> Any:
    """Return a value for one cell."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value


def _plain(row: Row) -> Row:
    return {name: value if isinstance(value, dict | list) else _flat(value) for name, value in row.items()}
