"""What our programs do alike in the interpreter of a trainer that is driven: problems in order, its model, its lines.

It is copied into a trial's folder with the modules that it imports, and needs nothing of the trainer.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from runner.training.prompts import PromptStream

MARK = "complete.json"  # in a checkpoint, written when every process has written its part
PARTS = (  # of rlplan, beside those of the reward
    "runner/trainers/inside.py",
    "runner/training/__init__.py",
    "runner/training/prompts.py",
)


class MetricsWriter:
    """Writes a line of JSON for each thing that is to be known of a step; step_lines.py reads them."""

    def __init__(self, path: Path) -> None:
        """Append to a file of this attempt alone."""
        self._path = path

    def say(self, step: int, **what: Any) -> None:
        """Write what was done, at what time by this process's clock."""
        line = json.dumps({"step": step, "at_seconds": time.monotonic(), **what}, default=float)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


class InOrder:
    """A trainer's data set of each problem, as one that has them in the plan's order and as far as the horizon."""

    def __init__(self, problems: Any, run: Mapping[str, Any]) -> None:
        """Refuse a data set in which the trainer has left out problems."""
        there, count = len(problems), run["order"]["count"]
        if there != count:
            raise RuntimeError(
                f"rlplan input: it took {there:,} of the {count:,} problems to train on: are some too long for it?"
            )
        self._problems, self._order = problems, ordered_problems(run)

    def __len__(self) -> int:
        """Return how many prompts the horizon has."""
        return len(self._order)

    def __getitem__(self, place: int) -> Any:
        """Return the problem at a place of the order."""
        return self._problems[self._order[place]]


def ordered_problems(run: Mapping[str, Any]) -> list[int]:
    """Return the places of the problems to train on, in the plan's order and as far as the horizon."""
    order = run["order"]
    return PromptStream(order["count"], order["seed"], pass_rates=order["pass_rates"]).take(order["rows"])


def lay_model(folder: Path, run: Mapping[str, Any]) -> Path | str:
    """Return a folder of the model's files with a tokenizer's beside them, which trainers expect to be in one.

    What is on the hub is in one already, and goes by its name where nothing stands for its own.
    """
    model, own = Path(run["model"]), folder / "tokenizer"
    if not model.is_dir():
        if not own.is_dir():
            return str(run["model"])
        from huggingface_hub import snapshot_download  # noqa: PLC0415

        model = Path(snapshot_download(run["model"]))
    laid = folder / "model"
    laid.mkdir(exist_ok=True)
    for source in (*(own.iterdir() if own.is_dir() else ()), *model.iterdir()):  # ours first
        place = laid / source.name
        if not place.is_symlink():
            place.symlink_to(source)
    return laid


def write_data(folder: Path, run: Mapping[str, Any], row: Callable[[int, Any], dict[str, Any]]) -> None:
    """Write the files to train (InOrder repeats and orders its rows) and to validate on.

    `row` makes a row of a problem's place and prompt.
    """
    lines = (folder / "problems.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row(number, json.loads(line)["prompt"]) for number, line in enumerate(lines)]
    count = run["order"]["count"]
    _write_rows(folder / "train.jsonl", rows[:count])
    _write_rows(folder / "validation.jsonl", rows[count:])


def _write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a data file whole or not at all; one that is there already is the same."""
    if path.exists():
        return
    aside = path.with_name(f"{path.name}.writing")
    with aside.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    aside.replace(path)


def mark(checkpoint: Path, step: int, **beside: Any) -> None:
    """Say that a checkpoint is complete."""
    write_whole(checkpoint / MARK, {"step": step, **beside})


def write_whole(path: Path, value: Any) -> None:
    """Write a file of JSON whole or not at all."""
    aside = path.with_name(f"{path.name}.writing")
    with aside.open("w", encoding="utf-8") as file:
        file.write(json.dumps(value))
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
