"""A chart: a plotly figure as plain data, whose colours are names that the page's theme looks up."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DIGITS = 5  # significant ones; a picture shows no more, and a file of tens of thousands of numbers stays small

Trace = dict[str, Any]
Figure = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture; `name` is the same whenever it is drawn anew, `text` says what it shows to who cannot see it."""

    name: str
    title: str
    text: str
    figure: Figure
    height: int  # pixels

    @property
    def data(self) -> dict[str, Any]:
        """Return the figure as what JSON can hold: no numpy, no number that is none, few digits."""
        return {"height": self.height, **plain(self.figure)}

    @property
    def json(self) -> str:
        """Return the figure as JSON that can stand within an HTML element: no text in it ends one, or begins one."""
        return safe_json(self.data)


def safe_json(value: Any) -> str:
    """Write JSON without a sign that HTML reads."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def plain(value: Any) -> Any:
    """Return nested data with plain numbers: None for what is not finite, the others rounded."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Sequence):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return rounded(value)
    return value


def rounded(number: float) -> float | int | None:
    """Return a number with few digits, as a whole one where it is one."""
    if not math.isfinite(number):
        return None
    if number == 0:
        return 0
    kept = float(f"{number:.{DIGITS}g}")
    return int(kept) if kept.is_integer() and abs(kept) < 1e15 else kept


def text(given: object) -> str:
    """Write a name or a reason as the text that it is: plotly takes some tags for markup."""
    return str(given).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def faded(colour: str, opacity: float) -> str:
    """Return a colour of the theme that lets through what lies below it."""
    return f"{colour}/{opacity:g}"
