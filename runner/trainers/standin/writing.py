"""Metrics and checkpoints as a trainer writes them, with the standard library alone."""

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KEPT = 2  # checkpoints
STATE = "state.json"
_HALF_SECONDS = 0.15  # between the halves of a line


class TornError(Exception):
    """A checkpoint cannot be read."""


class Plain:
    """A line of JSON for each update and each score; a checkpoint is a folder that gets its name once it is whole."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Take what the process was given."""
        self._bytes = int(given["checkpoint_bytes"])
        self._tokens = float(given["response_tokens"])
        self._file = open(given["metrics"], "a", encoding="utf-8", buffering=1)  # noqa: SIM115  (open for life)

    def stands(self, step: int, at: float) -> None:
        """Say that start-up is over, and where it goes on."""
        self._line({"step": step, "at": at})

    def update(self, step: int, at: float, loss: float, *, in_two: bool = False) -> None:
        """Write what an update did; in two pieces, as a buffer that was full would."""
        self._line({"step": step, "at": at, "loss": loss, "response_tokens": self._tokens}, in_two=in_two)

    def score(self, step: int, at: float, score: float, error: float) -> None:
        """Write what a validation measured."""
        self._line({"step": step, "at": at, "score": score, "score_standard_error": error})

    def save(self, step: int, *, torn: bool) -> None:
        """Write a checkpoint, and remove all but the newest two."""
        path = Path(f"checkpoint-{step}")
        aside = Path(f"{path}.writing")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        text = json.dumps({"step": step, "weights": "0" * 40})
        (aside / STATE).write_text(text[: len(text) // 2] if torn else text, encoding="utf-8")
        if self._bytes:
            (aside / "weights.bin").write_bytes(bytes(self._bytes))
        shutil.rmtree(path, ignore_errors=True)
        aside.replace(path)
        known = sorted((int(each.name.removeprefix("checkpoint-")), each) for each in Path().glob("checkpoint-*[0-9]"))
        for _, each in known[:-KEPT]:
            shutil.rmtree(each, ignore_errors=True)

    def load(self, step: int) -> None:
        """Go on from a checkpoint."""
        path = Path(f"checkpoint-{step}", STATE)
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise TornError(f"checkpoint {path} is torn: unexpected end ({error})") from error

    def _line(self, values: dict[str, Any], *, in_two: bool = False) -> None:
        text = json.dumps(values) + "\n"
        if in_two:
            self._file.write(text[: len(text) // 2])
            self._file.flush()
            time.sleep(_HALF_SECONDS)
            text = text[len(text) // 2 :]
        self._file.write(text)
        self._file.flush()


FORMATS = {"standin": Plain}
