"""Consoles: what a line of a trainer's log says, which trainer printed a text, and the rows that its lines make.

verl prints `step:12 - k:v - …` and its file logger writes {"step", "data"}; prime-rl {"step", "time", …}, several
rows of one step; OpenRLHF, AReaL and TRL print dictionaries and tables. Colours and Ray's prefixes may stand before.
"""

import json
import re
from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Values = dict[str, float]  # by the trainer's own names
StepValues = tuple[int | None, Values]  # the step, where the line names it, and what it says of it

CLOCK = "time"  # seconds since 1970 in every row of prime-rl's

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PREFIX = re.compile(r"^\s*(?:\([^()]*\bpid=\d+[^()]*\)\s?)+")
_REPEATED = re.compile(r"\s*\[repeated \d+x across [^\]]*\].*$")
_DIGITS = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_WRAPPED = r"(?:(?:np|numpy|torch)\.\w+\(|tensor\()?"  # np.float64(0.5), tensor(0.5)
_NUMBER = re.compile(rf"\s*{_WRAPPED}({_DIGITS}|[-+]?(?:nan|inf(?:inity)?)\b)(?![\w.])", re.IGNORECASE)
# A pair of a printed dictionary; what ends it shows that the number is whole. Some versions print numbers as strings.
_PAIR = re.compile(
    rf"""(['"])((?:(?!\1).)+)\1:\s*['"]?{_WRAPPED}({_DIGITS}|[-+]?(?:nan|inf)\b)(?=['")]*\s*[,}})]|[^\w.])""",
    re.IGNORECASE,
)
_STEP_NUMBER = r"(\d{1,18})"  # more digits are no step
_VERL_STEP = re.compile(rf"(?:^|[^\w])step:{_STEP_NUMBER} - ")
_VERL_BETWEEN = re.compile(r" - (?=\S)")
_VERL_INITIAL = "Initial validation metrics: {"
_VERL_OLD_VALIDATION = "test_score/"  # printed without the 'val/' under which it is logged
_OPENRLHF_UPDATE = re.compile(  # the latter is the asynchronous one's
    rf"(?:Global step|Eval at step) {_STEP_NUMBER}: (\{{.*)"
)
_OPENRLHF_VALIDATION = re.compile(
    r"Evaluation completed in (?:(\d{1,9}) days?, )?(\d{1,9}):(\d{1,9}):(\d{1,9}), "
    rf"global_step {_STEP_NUMBER}, eval_metrics: (\{{.*)"
)
_VALIDATION_SECONDS = "evaluation_seconds"  # a name of ours: it is in no dictionary of OpenRLHF's
_AREAL_DONE = re.compile(rf"\bTrain step {_STEP_NUMBER}/\d+ done")
_AREAL_FRAMES = "│|"
_TRL_SUMMARY = ("train_runtime", "train_samples_per_second")
_TRL_KNOWN = ("loss", "reward", "learning_rate", "grad_norm", "eval_loss", "eval_reward", "eval_runtime")


def plain(line: str) -> str:
    """Return a line without colours, Ray's prefixes such as '(TaskRunner pid=7)' and its remark on repeated lines."""
    bare = _PREFIX.sub("", _COLOURS.sub("", line) if "\x1b" in line else line)
    return (_REPEATED.sub("", bare) if "repeated" in bare else bare).rstrip()


def verl_values(line: str) -> StepValues | None:
    """Return the step and the numbers of a line of verl's console or file logger; None for any other line."""
    text = plain(line)
    if text.startswith("{"):
        row = _row(text)
        return (row["step"], _numbers(row["data"])) if isinstance(row.get("data"), Mapping) else None
    if _VERL_INITIAL in text:
        pairs = _pairs(text.partition(_VERL_INITIAL)[2])
        return 0, {f"val/{name}" if name.startswith(_VERL_OLD_VALIDATION) else name: v for name, v in pairs.items()}
    step = _VERL_STEP.search(text)
    if step is None:
        return None
    values: Values = {}
    for piece in _VERL_BETWEEN.split(text[step.end() :]):  # of which a log may have ten million: no call for each
        name, _, raw = piece.rpartition(":")
        try:
            values[name] = float(raw)
        except ValueError:
            if (value := _number(raw)) is not None:
                values[name] = value
    values.pop("", None)
    return int(step[1]), values


def prime_rl_values(line: str) -> StepValues | None:
    """Return the step and the numbers of a row of prime-rl's metrics.jsonl; None for any other line."""
    row = _row(line)
    return (row.pop("step"), _numbers(row)) if row else None


def openrlhf_values(line: str) -> StepValues | None:
    """Return the step and the numbers of a line of OpenRLHF's; None for any other line."""
    text = plain(line)
    if match := _OPENRLHF_UPDATE.search(text):
        return int(match[1]), _pairs(match[2])
    if match := _OPENRLHF_VALIDATION.search(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
        took = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return int(match[5]), {**_pairs(match[6]), _VALIDATION_SECONDS: float(took)}
    return None


def areal_values(line: str) -> StepValues | None:
    """Return the step of a line that ends one, or the numbers of a line of its tables, which belong to that step."""
    text = plain(line)
    if match := _AREAL_DONE.search(text):
        return int(match[1]), {}
    bare = text.strip()
    if not bare or bare[0] not in _AREAL_FRAMES:
        return None
    cells = [cell.strip() for cell in re.split(f"[{_AREAL_FRAMES}]", bare.strip(_AREAL_FRAMES))]
    cells_by_name = [(name, _number(raw)) for name, raw in zip(cells[::2], cells[1::2], strict=False)]
    values = {name: value for name, value in cells_by_name if name and value is not None and _number(name) is None}
    return (None, values) if values else None


def trl_values(line: str) -> StepValues | None:
    """Return the numbers of a dictionary that TRL printed, without a step."""
    text = plain(line)
    begin = text.find("{'")
    if begin < 0:
        return None
    values = _pairs(text[begin:])
    if not any(name in values for name in _TRL_KNOWN) or any(name in values for name in _TRL_SUMMARY):
        return None
    return None, values


def _row(text: str) -> dict[str, Any]:
    """Return a row of JSON that names its step, as a whole number; nothing for what is none."""
    with suppress(ValueError, OverflowError, RecursionError):
        row = json.loads(text)
        step = row.get("step") if isinstance(row, dict) else None
        if isinstance(step, int | float) and step == int(step) and abs(step) < 2**63:
            return {**row, "step": int(step)}
    return {}


def _numbers(row: Mapping[str, Any]) -> Values:
    whole = {name: value for name, value in row.items() if isinstance(value, int) and abs(value) < 2**1000}
    return {
        name: float(whole.get(name, value)) for name, value in row.items() if isinstance(value, float) or name in whole
    }


def _number(text: str) -> float | None:
    """Return the number at the beginning of a text, NaN too; None where there is none."""
    with suppress(ValueError):
        return float(text)
    match = _NUMBER.match(text)
    return float(match[1]) if match else None


def _pairs(text: str) -> Values:
    """Return the numbers of a printed dictionary by their keys; lists and texts in it are passed over."""
    return {match[2]: float(match[3]) for match in _PAIR.finditer(text)}


_TRL_BAR = re.compile(
    rf"\b{_STEP_NUMBER}/{_STEP_NUMBER} \[\d"
)  # TRL's dictionaries name no step; the progress bar before them does
_TRL_EVALUATION = "eval_"
_SURE = 2_000  # lines after which no other trainer begins to speak
_TAIL = 2**16  # bytes of a log in which its newest progress bar is looked for
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
    rows: "NumberRows"
    notes: tuple[str, ...]


def planned_steps(path: Path) -> int | None:
    """Return how many steps a printed log's progress bar ends at, of several the most; None where it has none."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        text = file.read().decode("utf-8", errors="replace")
    return max((int(total) for _, total in _TRL_BAR.findall(text)), default=None)


def read_printed(path: Path) -> Printed | None:
    """Read what a trainer printed, whatever else stands between; None for a file in which none is known to speak.

    Bytes that are no UTF-8 are passed over. The last number of a line that has no end is left out: it may be torn.
    """
    readers = [_Rows(name) for name in CONSOLES]
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        for number, line in enumerate(file):
            if len(readers) == 1 or _ANY_MARK.search(line):
                for rows in readers:
                    rows.take(line)
            if number == _SURE and len(speaking := [rows for rows in readers if rows.rows]) == 1:
                readers = speaking
    best = max(readers, key=lambda rows: len(rows.rows))
    return best.printed() if best.rows else None


class NumberRows:
    """Rows of numbers in little memory: eight bytes a number, its names once for all rows that have the same."""

    def __init__(self) -> None:
        self.kinds: dict[tuple[str, ...], int] = {}  # rows of the same names are of one kind
        self.kind_of, self.begins, self.numbers = array("q"), array("q"), array("d")
        self.last: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self.kind_of)

    def append(self, row: dict[str, float]) -> None:
        """Add a row."""
        self.kind_of.append(self.kinds.setdefault(tuple(row), len(self.kinds)))
        self.begins.append(len(self.numbers))
        self.numbers.extend(row.values())
        self.last = row

    def replace(self, row: dict[str, float]) -> None:
        """Put a row in the place of the last one."""
        self.kind_of.pop()
        del self.numbers[self.begins.pop() :]
        self.append(row)


class _Rows:
    """The rows of one trainer, should it be the one that printed the text."""

    def __init__(self, trainer: str) -> None:
        self._trainer = trainer
        self._mark, self._values_of = CONSOLES[trainer]
        self._steps = _TrlSteps() if trainer == "trl" else None
        self._step: int | None = None
        self._torn = False
        self.rows = NumberRows()

    def take(self, line: str) -> None:
        """Add what a line says."""
        if self._steps is not None:
            self._steps.see(line)
        record = self._values_of(line) if self._mark.search(line) else None
        if record is None:
            return
        step, values = record
        if self._steps is not None:
            step = self._steps.of(record)
        if not line.endswith("\n") and len(values) > 1:
            values.popitem()
            self._torn = True
        self._add(self._step if step is None else step, values)

    def _add(self, step: int | None, values: Values) -> None:
        self._step = step
        if step is None or not values:
            return
        row, last = {_STEP: step, **values}, self.rows.last
        # A table has several lines; a validation that is printed by itself is logged with its step too.
        same = last.get(_STEP) == step and (self._trainer == "areal" or last.items() <= row.items())
        (self.rows.replace if same else self.rows.append)({**last, **row} if same else row)

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
        for done, total in _TRL_BAR.findall(line) if " [" in line else ():
            if int(total) >= self._most:
                self._most, self._bar = int(total), int(done)

    def of(self, record: StepValues) -> int:
        """Return the step of what was just read."""
        if any(name.startswith(_TRL_EVALUATION) for name in record[1]):
            return max(self._last, self._bar)
        if self._bar and self._bar != self._taken:
            self._taken = self._last = self._bar
        else:
            self._last += 1
            self.counted += 1
        return self._last
