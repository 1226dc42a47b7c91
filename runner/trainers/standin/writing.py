"""Metrics and checkpoints as a trainer writes them, with the standard library alone."""

import csv
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

TO_KEEP = 2  # checkpoints
CHECKPOINT = "checkpoint-{step}"  # of the stand-in itself
STATE = "state.json"
_HALF_SECONDS = 0.15  # between the halves of a line


class TornError(Exception):
    """A checkpoint cannot be read."""


@dataclass(frozen=True)
class StepReport:
    """What a trainer says of a step; step 0 has no update."""

    step: int
    at: float
    loss: float
    score: float | None
    error: float | None


class Plain:
    """A line of JSON for each update and each score; a checkpoint is a folder that gets its name once it is whole."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Take what the process was given."""
        self._given = given
        self._checkpoint = str(given.get("checkpoint") or CHECKPOINT)
        self._mark: str | None = given.get("mark")
        self._bytes = int(given["checkpoint_bytes"])
        self._tokens = float(given["response_tokens"])

    @cached_property
    def _file(self) -> TextIO:
        """Return the log, which is there once there is something to say."""
        path = Path(self._given["metrics"])
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a", encoding="utf-8", buffering=1)

    def stands(self, step: int, at: float) -> None:
        """Say that start-up is over, and where it goes on."""
        self._line({"step": step, "at_seconds": at})

    def say(self, report: StepReport, *, in_two: bool = False) -> None:
        """Write what a step did; its first line in two pieces, as a buffer that was full would."""
        where = {"step": report.step, "at_seconds": report.at}
        if report.step:
            self._line({**where, "loss": report.loss, "response_tokens": self._tokens}, in_two=in_two)
        if report.score is not None:
            self._line({**where, "score": report.score, "score_standard_error": report.error})

    def save(self, step: int, *, torn: bool) -> None:
        """Write a checkpoint, and remove all but the newest two."""
        path = self._path(step)
        aside = Path(f"{path}.writing")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        text = json.dumps({"step": step, "weights": "0" * 40})
        (aside / STATE).write_text(text[: len(text) // 2] if torn else text, encoding="utf-8")
        if self._bytes:
            (aside / "weights.bin").write_bytes(bytes(self._bytes))
        shutil.rmtree(path, ignore_errors=True)
        aside.replace(path)
        if self._mark:
            (path / self._mark.replace("{step}", str(step))).write_text(
                json.dumps({"step": step, "response_tokens": self._tokens}), encoding="utf-8"
            )
        for name in self._given.get("holds", ()):
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).touch()
        if self._given.get("tracker"):
            self._track(step)
        for each in self._earlier(step)[: -(TO_KEEP - 1)]:
            shutil.rmtree(each, ignore_errors=True)

    def load(self, step: int) -> None:
        """Go on from a checkpoint."""
        path = self._path(step) / STATE
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise TornError(f"checkpoint {path} is torn: unexpected end ({error})") from error

    def _its(self, step: int) -> int:
        """Return the number that the trainer gives a step."""
        return step

    def _path(self, step: int) -> Path:
        return Path(self._checkpoint.replace("{step}", str(self._its(step))))

    def _track(self, step: int) -> None:
        """Name the newest checkpoint in a file of its own, which is written last."""
        tracker = Path(self._given["tracker"])
        tracker.parent.mkdir(parents=True, exist_ok=True)
        tracker.write_text(str(self._its(step)), encoding="utf-8")

    def _earlier(self, step: int) -> list[Path]:
        """Return the checkpoints before a step, the oldest first."""
        before, _, after = self._checkpoint.partition("{step}")
        known = []
        for path in Path().glob(f"{before}*{after}"):
            name = str(path)
            number = name[len(before) : len(name) - len(after)]
            if number.isdigit() and int(number) < self._its(step):
                known.append((int(number), path))
        return [path for _, path in sorted(known)]

    def _line(self, values: dict[str, Any], *, in_two: bool = False) -> None:
        self._write(json.dumps(values) + "\n", in_two)

    def _write(self, text: str, in_two: bool) -> None:
        if in_two:
            self._file.write(text[: len(text) // 2])
            self._file.flush()
            time.sleep(_HALF_SECONDS)
            text = text[len(text) // 2 :]
        self._file.write(text)
        self._file.flush()


class Described(Plain):
    """JSON lines or a table with the columns that a trainer's file names."""

    def _line(self, values: dict[str, Any], *, in_two: bool = False) -> None:
        columns: Mapping[str, str] = self._given["columns"]
        if self._given["table"]:
            if not self._file.tell():
                csv.writer(self._file).writerow(columns.values())
            cells = ("" if values.get(ours) is None else str(values[ours]) for ours in columns)
            self._write(",".join(cells) + "\n", in_two)
            return
        named = {columns[ours]: value for ours, value in values.items() if ours in columns}
        self._write(json.dumps(named) + "\n", in_two)
