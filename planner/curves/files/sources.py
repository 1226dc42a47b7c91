"""What lies at a path: the format of a file, seen from its content, and the file that is meant in a directory."""

import os
import re
from pathlib import Path
from typing import TextIO

from budgets.errors import InputError, MissingFileError
from planner.curves.files.formats import (
    parsed,
    read_delimited,
    read_document,
    read_events,
    read_lines,
    table_of_printed,
)
from planner.curves.files.table import Table, listing
from planner.curves.files.trackers import SQLITE, mlflow_tables, tracked
from planner.logs.consoles import read_printed

_HEAD = 65_536
_DEEPEST = 4
_TABLES = (".csv", ".tsv")
_LOGS = (*_TABLES, ".jsonl", ".ndjson")
PRINTED = (".log", ".out", ".txt", ".stdout")
SCRIPTS = (".sh", ".bash", ".py", ".slurm", ".sbatch", ".yaml", ".yml")  # of which no trainer's log has the ending
# Files that are named alike in every run: the folder says which run it is.
NAMED_ALIKE = {"trainer_state", "metrics", "log", "logs", "history", "progress", "results"}
_FORMATS = "CSV, JSONL, trainer_state.json, TensorBoard, W&B and MLflow files and what a trainer prints"


def read_table(path: Path) -> list[Table]:
    """Read every column of a file, or of the log in a directory: one table a run."""
    try:
        if (tracked_tables := tracked(path)) is not None:
            return tracked_tables
        if path.is_dir():
            return _read_directory(path)
        if not path.exists():
            raise MissingFileError(f"no file '{path}'")
        if not path.is_file():
            raise InputError(f"'{path}' is not a regular file: save it to one first")
        return _read_file(path)
    except UnicodeDecodeError as error:
        raise InputError(
            f"'{path}' is not UTF-8 text ({error.reason}): save it as UTF-8. Read are {_FORMATS}"
        ) from None
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror or error}") from None


def _read_file(path: Path) -> list[Table]:
    if path.suffix.casefold() in SCRIPTS:
        raise InputError(f"'{path}' is a script, and a learning curve is wanted: `rlplan check {path}` reads a script")
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    name = _name(path)
    if b"brain.Event:" in head[:64] and "tfevents" not in path.name:
        raise InputError(f"'{path}' is a TensorBoard event file: its name must contain 'tfevents', so rename it")
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise InputError(f"'{path}' is empty. Read are {_FORMATS}")
    if head.startswith(SQLITE):
        return mlflow_tables(path)
    if "tfevents" in path.name and b"\0" in head:
        return [read_events(path, name)]
    lines = head.decode("utf-8-sig", errors="replace").splitlines()
    rows = isinstance(parsed(next((line for line in lines if line.strip()), "")), dict)
    table = path.suffix.casefold() in _TABLES  # of millions of rows, maybe: nobody prints into one
    if not rows and not table and (printed := read_printed(path)) is not None:
        return [table_of_printed(printed, name)]
    if b"\0" in head and not rows:
        raise InputError(f"'{path}' is not UTF-8 text, nor a format known here. Read are {_FORMATS}")
    # A row that a crash left full of other bytes is one broken line among many; a table has no such lines.
    with path.open(encoding="utf-8-sig", errors="replace" if rows else "strict", newline="") as text:
        return _read_text(text, name)


def _read_text(text: TextIO, name: str) -> list[Table]:
    """Tell JSON from delimited text by its first character, and JSONL from a document by its first line."""
    first = next(line for line in text if line.strip()).lstrip()
    text.seek(0)
    if not first.startswith(("{", "[")):
        return read_delimited(text, name)
    row = parsed(first)
    if not isinstance(row, dict) or "log_history" in row:
        document = parsed(text.read())
        if document is not None:
            return [read_document(document, name)]
        text.seek(0)
    return [read_lines(text, name)]


def _read_directory(path: Path) -> list[Table]:
    """Read the log that a directory holds: its own, its newest checkpoint's, or the event files below it."""
    inside = sorted(entry for entry in path.iterdir() if entry.is_file())
    names = {entry.name: entry for entry in inside}
    for name in ("trainer_state.json", "metrics.jsonl"):
        if name in names:
            return _read_file(names[name])
    if any("tfevents" in name for name in names):
        return [read_events(path, path.resolve().name)]
    logs = [entry for entry in inside if entry.suffix.casefold() in _LOGS]
    logs = logs or [file for file in inside if file.suffix.casefold() in PRINTED and read_printed(file) is not None]
    if len(logs) == 1:
        return _read_file(logs[0])
    if logs:
        raise InputError(f"'{path}' holds several logs: {listing(log.name for log in logs)}; give one of them")
    checkpoints = {entry for entry in path.glob("checkpoint-*/trainer_state.json") if _steps(entry) is not None}
    if checkpoints:
        return _read_file(max(checkpoints, key=lambda entry: _steps(entry) or 0))
    if parts := sorted(path.glob("*/metrics.jsonl")):  # prime-rl's trainer and orchestrator have one each
        return [table for part in parts for table in _read_file(part)]
    return _read_below(path)


def _read_below(path: Path) -> list[Table]:
    events, logs = [], []
    for folder, folders, files in os.walk(path):
        here = Path(folder)
        folders.sort()
        if len(here.relative_to(path).parts) >= _DEEPEST:
            folders.clear()
        if any("tfevents" in name for name in files):
            events.append(here)
        logs += [here / name for name in sorted(files) if Path(name).suffix.casefold() in _LOGS]
    if events:
        return [read_events(folder, f"{path.resolve().name}/{folder.relative_to(path)}") for folder in events]
    if logs:
        raise InputError(f"'{path}' holds logs further down: {listing(map(str, logs))}; give one of them")
    raise InputError(f"'{path}' holds no learning curve. Read are {_FORMATS}")


def _steps(state: Path) -> int | None:
    number = re.fullmatch(r"checkpoint-(\d+)", state.parent.name)
    return int(number[1]) if number else None


def _name(path: Path) -> str:
    """Name a curve for its file, or for its folder (not its checkpoint) when files are named alike in every run."""
    if "tfevents" not in path.name and path.stem.casefold() not in NAMED_ALIKE:
        return path.stem
    parent = path.resolve().parent
    return (parent.parent if re.fullmatch(r"checkpoint-\d+", parent.name) else parent).name or path.stem
