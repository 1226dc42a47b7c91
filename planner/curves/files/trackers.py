"""Runs of experiment trackers: Weights & Biases' and MLflow's folders and databases, and runs on their servers.

The files are read without the trackers: W&B's is a log of records (LevelDB's framing around protocol buffers, of which
the history alone matters here), MLflow's are text, or tables of SQLite. A server is asked by the tracker's own client.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.curves.files.formats import table_of
from planner.curves.files.table import Table

_URL = re.compile(r"(https?):/+(.*)")  # a path has one slash of two
_WANDB_RUN = re.compile(r"[^/]+/([\w.-]+/[\w.-]+)/runs/([\w-]+)")
_MLFLOW_RUN = re.compile(r"(.*?)/?#/experiments/[^/]+/runs/(\w+)")
SQLITE = b"SQLite format 3\0"
_BLOCK, _HEADER = 32768, 7  # of LevelDB's log; the file begins with as many bytes of W&B's own
_HISTORY, _ITEM, _KEY, _NESTED, _VALUE = 2, 1, 1, 2, 16  # fields of wandb_internal.proto

Row = dict[str, Any]


def tracked(path: Path) -> list[Table] | None:
    """Read the runs of a tracker that a path or an address means; None where it means none."""
    if address := _URL.fullmatch(str(path)):
        return [_on_server(f"{address[1]}://{address[2]}", address[2])]
    if path.is_dir():
        if (path / "meta.yaml").is_file() and (path / "metrics").is_dir():
            return [table_of(_mlflow_rows(path / "metrics"), path.name, ["read from MLflow's folder"])]
        wandb_files = sorted(path.glob("*.wandb")) or sorted((path / "latest-run").glob("*.wandb"))
        return _wandb(wandb_files[-1]) if wandb_files else None
    if path.suffix == ".wandb" and path.is_file():
        return _wandb(path)
    return None


def mlflow_tables(path: Path) -> list[Table]:
    """Read the runs of MLflow's database, one table each."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
            points = store.execute("select run_uuid, step, key, value from metrics order by run_uuid, step").fetchall()
            names = dict(store.execute("select run_uuid, name from runs").fetchall())
    except sqlite3.Error as error:
        raise InputError(f"'{path}' is no database of MLflow's: {error}") from None
    tables = []
    for run, rows in groupby(points, key=lambda row: row[0]):
        steps = _by_step((step, key, value) for _, step, key, value in rows)
        tables.append(table_of(steps, names.get(run) or run, ["read from MLflow's database"]))
    if not tables:
        raise InputError(f"'{path}' holds no metrics yet")
    return tables


def _by_step(metrics: Iterable[tuple[int, str, float]]) -> list[Row]:
    """Return a row for each step, of steps with the names and values of metrics."""
    rows: dict[int, Row] = {}
    for step, name, value in metrics:
        rows.setdefault(step, {"step": step})[name] = value
    return [rows[step] for step in sorted(rows)]


def _mlflow_rows(metrics: Path) -> list[Row]:
    """Return a row for each step: a file for each metric has lines of time, value and step."""
    rows = []
    for file in sorted(path for path in metrics.rglob("*") if path.is_file()):
        for line in file.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                _, value, step = line.split()
                rows.append((int(step), str(file.relative_to(metrics)), float(value)))
    if not rows:
        raise InputError(f"'{metrics.parent}' holds no metrics yet")
    return _by_step(rows)


def _wandb(file: Path) -> list[Table]:
    rows = [row for record in _records(file.read_bytes()) if (row := _history(record))]
    if not rows:
        raise InputError(f"'{file}' holds no history yet")
    return [table_of(rows, file.resolve().parent.name, ["read from W&B's folder"])]


def _records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a log in blocks, whole (1), or in a first (2), middle and last (4) part."""
    place, parts = _HEADER, b""
    while place + _HEADER <= len(data):
        if _BLOCK - place % _BLOCK < _HEADER:  # no record begins in what is left of a block
            place += _BLOCK - place % _BLOCK
            continue
        size, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        if not kind or place + _HEADER + size > len(data):
            return  # it is being written
        part = data[place + _HEADER : place + _HEADER + size]
        parts = part if kind in (1, 2) else parts + part
        if kind in (1, 4):
            yield parts
        place += _HEADER + size


def _history(record: bytes) -> Row:
    """Return the numbers that a record logs; nothing for one of another kind."""
    row: Row = {}
    for _, item in (entry for number, body in _fields(record) if number == _HISTORY for entry in _fields(body)):
        if not isinstance(item, bytes):
            continue
        entries = list(_fields(item))
        name = "/".join(
            text.decode() for number, text in entries if number in (_KEY, _NESTED) and isinstance(text, bytes)
        )
        value = next((text for number, text in entries if number == _VALUE and isinstance(text, bytes)), b"")
        with suppress(ValueError):
            number = json.loads(value)
            if name and isinstance(number, int | float):
                row[name] = number
    return row


def _fields(message: bytes | int) -> Iterator[tuple[int, bytes | int]]:
    """Yield the fields of a protocol buffer by their numbers; what is no message yields nothing."""
    place, data = 0, message if isinstance(message, bytes) else b""
    with suppress(IndexError):
        while place < len(data):
            tag, place = _varint(data, place)
            value: bytes | int
            match tag & 7:
                case 0:
                    value, place = _varint(data, place)
                case 2:
                    size, place = _varint(data, place)
                    value, place = data[place : place + size], place + size
                case 1 | 5 as kind:
                    size = 8 if kind == 1 else 4
                    value, place = data[place : place + size], place + size
                case _:
                    return
            yield tag >> 3, value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return value, place


def _on_server(url: str, address: str) -> Table:
    """Read a run from its server, with the tracker's own client and whatever it is signed in as."""
    try:
        if match := _MLFLOW_RUN.fullmatch(url):
            from mlflow import MlflowClient  # noqa: PLC0415

            client, run = MlflowClient(match[1]), match[2]
            metrics = {name: client.get_metric_history(run, name) for name in client.get_run(run).data.metrics}
            points = ((point.step, name, point.value) for name, history in metrics.items() for point in history)
            return table_of(_by_step(points), run, [f"read from {match[1]}"])
        if match := _WANDB_RUN.fullmatch(address):
            import wandb  # noqa: PLC0415

            rows = wandb.Api().run(f"{match[1]}/{match[2]}").scan_history()
            return table_of([dict(row) for row in rows], match[2], [f"read from {url}"])
    except ImportError as error:
        raise InputError(f"{url} is asked by {error.name}, which is not installed: pip install {error.name}") from None
    except Exception as error:
        raise InputError(f"{url} cannot be read: {error}") from error
    raise InputError(f"{url} is no run of W&B (…/ENTITY/PROJECT/runs/ID) or MLflow (…/#/experiments/N/runs/ID)")
