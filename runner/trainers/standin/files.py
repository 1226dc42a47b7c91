"""Metrics and checkpoints as a trainer writes them, with the standard library alone."""

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

CHECKPOINT = "checkpoint-{step}"
STATE = "state.json"
_HALF_SECONDS = 0.15  # between the halves of a line


class TornError(Exception):
    """A checkpoint cannot be read."""


@dataclass(frozen=True)
class StepReport:
    """What a trainer logs of a step; step 0 has no update."""

    step: int
    at: float
    loss: float
    score: float | None
    error: float | None


class StandinFiles:
    """A line of JSON for each update and each score; a checkpoint is a folder that gets its name once it is whole.

    Tests of drivers override its short methods, to write as their trainers do.
    """

    pattern = CHECKPOINT

    def __init__(self, run: Mapping[str, Any]) -> None:
        """Take what the process was given."""
        self._run = run
        self._tokens = float(run["response_tokens"])

    @cached_property
    def _log(self) -> TextIO:
        """Return the log, which exists once something is written."""
        return Path(self._run["metrics"]).open("a", encoding="utf-8", buffering=1)

    def begin(self, step: int, at: float) -> None:
        """Log that start-up is over, and from which step it goes on."""
        self.log({"step": step, "at_seconds": at})

    def report(self, report: StepReport, *, in_two: bool = False) -> None:
        """Log a step; its first line in two pieces, as a buffer that was full would."""
        where = {"step": report.step, "at_seconds": report.at}
        if report.step:
            self.log({**where, "loss": report.loss, "response_tokens": self._tokens}, in_two=in_two)
        if report.score is not None:
            self.log({**where, "score": report.score, "score_standard_error": report.error})

    def save(self, step: int, *, torn: bool) -> None:
        """Write a checkpoint, and remove all but the newest two."""
        path = Path(self.pattern.replace("{step}", self.number(step)))
        aside = Path(f"{path}.writing")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        text = json.dumps({"step": step, "weights": "0" * 40})
        (aside / STATE).write_text(text[: len(text) // 2] if torn else text, encoding="utf-8")
        if size := int(self._run["checkpoint_bytes"]):
            (aside / "weights.bin").write_bytes(bytes(size))
        shutil.rmtree(path, ignore_errors=True)
        aside.replace(path)
        self.mark(step, path)
        before, _, after = self.pattern.partition("{step}")
        paths = {str(path)[len(before) :].removesuffix(after): path for path in Path().glob(f"{before}*{after}")}
        earlier = [name for name in paths if name.isdigit() and int(name) < int(self.number(step))]
        for name in sorted(earlier, key=int)[:-1]:
            shutil.rmtree(paths[name], ignore_errors=True)

    def load(self, step: int) -> None:
        """Go on from a checkpoint."""
        path = Path(self.pattern.replace("{step}", self.number(step))) / STATE
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise TornError(f"checkpoint {path} is torn: unexpected end ({error})") from error

    def number(self, step: int) -> str:
        """Return the number of a step as it is in the name of its checkpoint."""
        return str(step)

    def mark(self, step: int, path: Path) -> None:
        """Write what shows that a checkpoint is whole; its name does here."""

    def log(self, values: Mapping[str, Any], *, in_two: bool = False) -> None:
        """Write a line."""
        self.write(json.dumps(values) + "\n", in_two)

    def write(self, text: str, in_two: bool = False) -> None:
        """Write to the log, in two pieces where that is asked for."""
        if in_two:
            self._log.write(text[: len(text) // 2])
            self._log.flush()
            time.sleep(_HALF_SECONDS)
            text = text[len(text) // 2 :]
        self._log.write(text)
        self._log.flush()
