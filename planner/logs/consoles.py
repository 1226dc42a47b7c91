"""Consoles: which trainer printed a text, and the rows that its lines make."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.logs.lines import StepValues, Values, areal_values, openrlhf_values, trl_values, verl_values

_TRL_BAR = re.compile(r"\b(\d+)/(\d+) \[\d")  # TRL's dictionaries name no step; the progress bar before them does
_TRL_EVALUATION = "eval_"
_STEP = "step"

CONSOLES: dict[str, tuple[re.Pattern[str], Callable[[str], StepValues | None]]] = {
    "verl": (re.compile(r"step:\d+ - |Initial validation metrics: \{|\"data\": ?\{"), verl_values),
    "openrlhf": (re.compile(r"(?:Global step|Eval at step) \d+: \{|Evaluation completed in "), openrlhf_values),
    "areal": (re.compile(r"Train step \d+/\d+ done|│ \w"), areal_values),
    "trl": (re.compile(r"\{'[\w./@ -]+': "), trl_values),
}
# One look at a line that says nothing, of which there may be millions.
_ANY_MARK = re.compile("|".join(f"(?:{mark.pattern})" for mark, _ in CONSOLES.values()) + f"|{_TRL_BAR.pattern}")


@dataclass(frozen=True)
class Printed:
    """What a trainer printed: a row for each line with numbers, in their order."""

    trainer: str
    rows: list[dict[str, Any]]
    notes: tuple[str, ...]


def read_printed(path: Path) -> Printed | None:
    """Read what a trainer printed, whatever else stands between; None for a file in which none is known to speak.

    Bytes that are no UTF-8 are passed over. The last number of a line that has no end is left out: it may be torn.
    """
    found = {name: _Rows(name) for name in CONSOLES}
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        for line in file:
            if _ANY_MARK.search(line):
                for rows in found.values():
                    rows.take(line)
    best = max(found.values(), key=lambda rows: len(rows.rows))
    return best.printed() if best.rows else None


class _Rows:
    """The rows of one trainer, should it be the one that printed the text."""

    def __init__(self, trainer: str) -> None:
        self._trainer = trainer
        self._mark, self._values_of = CONSOLES[trainer]
        self._steps = _TrlSteps() if trainer == "trl" else None
        self._step: int | None = None
        self._torn = False
        self.rows: list[dict[str, Any]] = []

    def take(self, line: str) -> None:
        """Add what a line says."""
        if self._steps is not None:
            self._steps.see(line)
        said = self._values_of(line) if self._mark.search(line) else None
        if said is None:
            return
        step, values = said
        if self._steps is not None:
            step = self._steps.of(said)
        if not line.endswith("\n") and len(values) > 1:
            values.popitem()
            self._torn = True
        self._add(self._step if step is None else step, values)

    def _add(self, step: int | None, values: Values) -> None:
        self._step = step
        if step is None or not values:
            return
        if self._trainer == "areal" and self.rows and self.rows[-1][_STEP] == step:
            self.rows[-1].update(values)  # a table has several lines
            return
        if self.rows and self.rows[-1].items() <= {_STEP: step, **values}.items():
            self.rows.pop()  # a validation that is printed by itself and logged with its step
        self.rows.append({_STEP: step, **values})

    def printed(self) -> Printed:
        """Return all of it, with what is to be known of it."""
        notes = [f"printed by {self._trainer}"]
        if self._torn:
            notes.append("the last line has no end: its last number is left out")
        if self._steps is not None and self._steps.counted:
            notes.append(f"{self._steps.counted} lines name no step: counted one by one")
        return Printed(self._trainer, self.rows, tuple(notes))


class _TrlSteps:
    """Says at which step a printed dictionary was: that of the progress bar with the most steps, else one further."""

    def __init__(self) -> None:
        self._most, self._bar, self._taken, self._last = 0, 0, -1, 0
        self.counted = 0  # dictionaries whose step no bar said

    def see(self, line: str) -> None:
        """Look for progress bars in a line; those of evaluations and of loading have fewer steps."""
        for done, total in _TRL_BAR.findall(line):
            if int(total) >= self._most:
                self._most, self._bar = int(total), int(done)

    def of(self, said: StepValues) -> int:
        """Return the step of what was just read."""
        if any(name.startswith(_TRL_EVALUATION) for name in said[1]):
            return max(self._last, self._bar)
        if self._bar and self._bar != self._taken:
            self._taken = self._last = self._bar
        else:
            self._last += 1
            self.counted += 1
        return self._last
