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

SAVE_NOW = "save-now.json"  # written by the supervisor: it is to save after the update under way, and is then ended
MARK = "complete.json"  # in a checkpoint, written when every process has written its part
PARTS = (  # of rlplan, beside those of the reward
    "runner/trainers/trainer_process.py",
    "runner/training/__init__.py",
    "runner/training/prompts.py",
)


class MetricsWriter:
    """Writes a line of JSON for each thing that is to be known of a step; metric_lines.py reads them.

    It also knows when the trainer is to save within a segment.
    """

    def __init__(self, folder: Path, run: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        """Append to a file of this attempt alone, in a trial's folder, as run.json says."""
        self._folder, self._run, self._clock, self.saved_at = folder, run, clock, time.monotonic()

    def say(self, step: int, logs: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """Write what was done, at what time, in one go: several processes may write to a file."""
        if logs is not None:  # of which numbers alone are read
            fields["logs"] = {name: value for name, value in logs.items() if isinstance(value, int | float)}
        line = json.dumps({"step": step, "at_seconds": self._clock(), **fields}, default=float) + "\n"
        with (self._folder / self._run["metrics"]).open("ab", buffering=0) as file:
            file.write(line.encode())

    def begin(self, step: int) -> None:
        """Say that start-up is over, and where the trainer stands."""
        if step != self._run["from_step"]:
            raise RuntimeError(f"rlplan checkpoint: it stands at step {step} instead of {self._run['from_step']}")
        self.say(step)

    def save_is_due(self, step: int) -> bool:
        """Whether it has not been saved for long, or rlplan asks for it, now or at every so many steps."""
        every = self._run.get("save_every")
        due = (self._folder / SAVE_NOW).exists() or (every is not None and step % every == 0)
        return due or time.monotonic() - self.saved_at > self._run["save_seconds"]


class OrderedData:
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


def link_model(folder: Path, run: Mapping[str, Any]) -> Path | str:
    """Return a folder of the model's files with a tokenizer's beside them, which trainers expect to be in one.

    What is on the hub is in one already, and goes by its name where nothing stands for its own.
    """
    model, tokenizer = Path(run["model"]), folder / "tokenizer"
    if not model.is_dir():
        if not tokenizer.is_dir():
            return str(run["model"])
        from huggingface_hub import snapshot_download  # noqa: PLC0415

        model = Path(snapshot_download(run["model"]))
    linked = folder / "model"
    linked.mkdir(exist_ok=True)
    for source in (*(tokenizer.iterdir() if tokenizer.is_dir() else ()), *model.iterdir()):  # ours first
        place = linked / source.name
        if not place.is_symlink():
            place.symlink_to(source)
    return linked


def problems_in(folder: Path) -> list[dict[str, Any]]:
    """Return a trial's problems, those to train on first."""
    return [json.loads(line) for line in (folder / "problems.jsonl").read_text(encoding="utf-8").splitlines()]


def write_data(folder: Path, run: Mapping[str, Any], row: Callable[[int, dict[str, Any]], dict[str, Any]]) -> None:
    """Write the files to train (OrderedData repeats and orders its rows) and to validate on.

    `row` makes a row of a problem and its place.
    """
    rows = [row(number, problem) for number, problem in enumerate(problems_in(folder))]
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


def group_scores(scores: Iterable[tuple[Any, Any]]) -> list[list[float]]:
    """Return the scores of each problem's samples, from pairs of a problem's place and a score."""
    groups: dict[int, list[float]] = {}
    for number, score in scores:
        groups.setdefault(int(number), []).append(float(score))
    return [groups[number] for number in sorted(groups)]


def response_text(tokenizer: Any, ids: list[int], run: Mapping[str, Any]) -> str:
    """Return the text of a response up to the end of its turn."""
    end = run["end_id"]
    whole = ids[: ids.index(end)] if end in ids else ids
    skipped = run["skip_special_tokens"]
    return str(tokenizer.decode(whole, skip_special_tokens=skipped, clean_up_tokenization_spaces=False))


def mark(checkpoint: Path, step: int, **fields: Any) -> None:
    """Say that a checkpoint is complete."""
    write_whole(checkpoint / MARK, {"step": step, **fields})


def write_whole(path: Path, value: Any) -> None:
    """Write a file of JSON whole or not at all."""
    aside = path.with_name(f"{path.name}.writing")
    with aside.open("w", encoding="utf-8") as file:
        file.write(json.dumps(value))
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
