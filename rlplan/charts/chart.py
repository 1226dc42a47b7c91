"""A chart: a plotly figure as plain data, whose colours are names that the page's theme looks up; and its axes."""

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
    value = float(f"{number:.{DIGITS}g}")
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def text(given: object) -> str:
    """Write a name or a reason as the text that it is: plotly takes some tags for markup."""
    return str(given).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def faded(colour: str, opacity: float) -> str:
    """Return a colour of the theme that lets through what lies below it."""
    return f"{colour}/{opacity:g}"


INK, MUTED, PAPER = "$ink", "$muted", "$surface"
ACCENT, GOOD, MIND, BAD = "$accent", "$good", "$mind", "$bad"
SERIES = tuple(f"${name}" for name in ("series-1", "series-2", "series-3", "series-4", "series-5", "series-6"))
QUIET = "$quiet"
SCALE = [[step / 4, f"$scale-{step}"] for step in range(5)]
MARGIN = {"l": 56, "r": 16, "t": 12, "b": 44}

LINE = "$line"
_AXIS = {
    "gridcolor": LINE,
    "linecolor": LINE,
    "zerolinecolor": LINE,
    "tickcolor": LINE,
    "zeroline": False,
    "ticks": "outside",
    "ticklen": 4,
    "ticklabelstandoff": 3,
    "exponentformat": "none",
    "separatethousands": True,
    "tickfont": {"color": MUTED, "size": 11},
    "title": {"font": {"color": MUTED, "size": 12}},
}
_BAR = {"tickfont": {"color": MUTED, "size": 11}, "title": {"font": {"color": MUTED, "size": 11}}}
CLEAR = "rgba(0,0,0,0)"
# What all charts look like beside their data, on a page and in a notebook.
TEMPLATE = {
    "layout": {
        "font": {"color": INK, "size": 12},
        "paper_bgcolor": PAPER,
        "plot_bgcolor": PAPER,
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "legend": {"font": {"size": 11.5}, "bgcolor": CLEAR},
        "hoverlabel": {
            "bgcolor": "$raised",
            "bordercolor": QUIET,
            "align": "left",
            "font": {"color": INK, "size": 12},
        },
        "modebar": {"bgcolor": CLEAR, "color": QUIET, "activecolor": ACCENT},
    },
    "data": {"heatmap": [{"colorbar": _BAR}]},
}

Axis = dict[str, Any]


def axis(title: str = "", **more: Any) -> Axis:
    """Return an axis; the theme gives it its colours."""
    named = {"title": {"text": title, "standoff": 8}} if title else {}
    return {**named, "automargin": True, **more}


def layout(**more: Any) -> dict[str, Any]:
    """Return a layout in which what the reader has zoomed to survives a redraw."""
    return {"margin": MARGIN, "uirevision": "kept", "hovermode": "closest", "showlegend": False, **more}


def legend_below(height: int = 76) -> dict[str, Any]:
    """Return what puts a legend under the picture, where it covers nothing."""
    return {
        "showlegend": True,
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0,
            "xanchor": "left",
        },
        "margin": {**MARGIN, "b": height},
    }


def decade_ticks(low: float, high: float) -> dict[str, Any]:
    """Return the ticks of a log axis of GPU-hours: powers of ten, and 2 and 5 times them where these are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    tens = [10.0**power for power in powers if low <= 10.0**power <= high]
    finer = [times * 10.0**power for power in powers for times in (1, 2, 5) if low <= times * 10.0**power <= high]
    ticks = tens if len(tens) >= 3 else finer
    return {
        "type": "log",
        "tickvals": ticks,
        "ticktext": [f"{tick:,.0f}" if tick >= 1 else f"{tick:g}" for tick in ticks],
    }


def logarithmic(values: Sequence[float]) -> bool:
    """Say whether values above zero span so much that a linear axis would hide the small ones."""
    above = [value for value in values if value > 0]
    return bool(above) and max(above) >= 8 * min(above)


def octave_ticks(low: float, high: float) -> dict[str, Any]:
    """Return the ticks of a log axis for what is counted in powers of two."""
    ticks, value = [], 1
    while value <= high * 1.5:
        if value >= low / 1.5:
            ticks.append(value)
        value *= 2
    step = max(1, -(-len(ticks) // 9))
    ticks = ticks[::step]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,}" for tick in ticks]}


def band(x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str, name: str = "") -> list[Trace]:
    """Return an interval along x; with a name it stands in the legend."""
    common = {
        "type": "scatter",
        "x": list(x),
        "mode": "lines",
        "line": {"width": 0, "color": faded(colour, 0)},
        "hoverinfo": "skip",
    }
    return [
        {**common, "y": list(low), "showlegend": False},
        {**common, "y": list(high), "fill": "tonexty", "fillcolor": faded(colour, 0.18), "showlegend": bool(name)}
        | ({"name": name} if name else {}),
    ]


def upright(x: float, axis_name: str = "x", dash: str = "dash", colour: str = MUTED) -> dict[str, Any]:
    """Return a line over the whole height of a panel; it stays in place when its axis becomes a log axis."""
    return {
        "type": "line",
        "xref": axis_name,
        "yref": f"y{axis_name[1:]} domain",
        "x0": x,
        "x1": x,
        "y0": 0,
        "y1": 1,
        "line": {"color": colour, "width": 1.5, "dash": dash},
        "layer": "below",
    }
