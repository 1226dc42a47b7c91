"""Tables as the content of files, and on stdout."""

import io
import json
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any

from budgets.errors import InputError
from rlplan.reading.export_tables import Row, Table
from rlplan.wording.csv_writing import write_csv
from rlplan.wording.formats import FileFormat


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
