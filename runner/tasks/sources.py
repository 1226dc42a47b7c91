"""Rows of problems, from wherever they are: JSON lines, CSV, Parquet, or what the package datasets loads."""

import csv
import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.config.task import ProblemSource
from runner.tasks.hub import is_hub_name

SHAPE = (
    '{"prompt": "What is 2 + 2?", "answer": "4"}: prompt is text or a list of {"role", "content"}, answer is text or '
    "a number, an id and further fields are optional"
)
_SAVED = ("dataset_dict.json", "state.json")  # in a folder of datasets' save_to_disk
Row = tuple[str, dict[str, Any]]  # where it stands, in words, and its fields


def rows_of(source: ProblemSource) -> Iterator[Row]:
    """Yield the rows of a source; InputError says what cannot be read, and where."""
    path = Path(source.path).expanduser()
    if path.is_dir() or is_hub_name(source.path):
        yield from _of_datasets(source, path)
        return
    reader = {".parquet": _of_parquet, ".csv": _of_csv}.get(path.suffix.lower(), _of_lines)
    try:
        yield from reader(path, source.path)
    except FileNotFoundError as error:
        raise InputError(
            f"'{source.path}' does not exist: give a file of problems (JSONL, CSV or Parquet), or a name such as "
            "openai/gsm8k"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"'{source.path}' is not UTF-8 text: save it as UTF-8") from error
    except OSError as error:
        raise InputError(f"'{source.path}' cannot be read: {error.strerror or error}") from error


def _of_lines(path: Path, name: str) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            place = f"'{name}', line {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{place} is not JSON ({error}): each line should be like {SHAPE}") from error
            if not isinstance(row, dict):
                raise InputError(f"{place} is no JSON object: each line should be like {SHAPE}")
            yield place, row


def _of_csv(path: Path, name: str) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=1):
            yield f"'{name}', row {number}", {key: value for key, value in row.items() if key is not None}


def _of_parquet(path: Path, name: str) -> Iterator[Row]:
    parquet: Any = import_module("pyarrow.parquet")
    try:
        batches = parquet.ParquetFile(path).iter_batches()
        rows = (row for batch in batches for row in batch.to_pylist())
        yield from ((f"'{name}', row {number}", row) for number, row in enumerate(rows, start=1))
    except ValueError as error:  # as of a file that is no Parquet
        raise InputError(f"'{name}' cannot be read as Parquet: {error}") from error


def _of_datasets(source: ProblemSource, path: Path) -> Iterator[Row]:
    """Yield the rows of a split that datasets loads: from its own folder, a folder of files, or the hub."""
    try:
        datasets: Any = import_module("datasets")
    except ImportError as error:
        raise InputError(
            f"'{source.path}' is read by the package datasets, which is not installed: pip install datasets, or give a "
            "JSONL, CSV or Parquet file"
        ) from error
    try:
        if any((path / name).is_file() for name in _SAVED):
            loaded = datasets.load_from_disk(str(path))
        else:
            loaded = datasets.load_dataset(source.path, source.subset, split=source.split)
        rows = loaded[source.split] if isinstance(loaded, Mapping) else loaded
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"'{source.path}' (subset {source.subset or 'none'}, split '{source.split}') cannot be loaded: {reason}"
        ) from error
    yield from ((f"'{source.path}', row {number}", dict(row)) for number, row in enumerate(rows, start=1))
