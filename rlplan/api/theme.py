"""The theme of the report for figures outside of it: charts name their colours, and here they become colours."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

_COLOUR = re.compile(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
_LISTS = frozenset({"data", "shapes", "annotations"})


@cache
def palette(dark: bool) -> Mapping[str, str]:
    """Return the theme's colours by name, as the style sheet of the report has them."""
    style = files("rlplan.web").joinpath("static", "theme.css").read_text(encoding="utf-8")
    return {name: night if dark else day for name, day, night in _COLOUR.findall(style)}


def colour(name: str, dark: bool) -> str:
    """Return the colour that a name such as '$accent' or '$accent/0.2' stands for."""
    token, _, opacity = name.removeprefix("$").partition("/")
    found = palette(dark)[token]
    if not opacity:
        return found
    red, green, blue = (int(found[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity})"


def coloured(value: Any, dark: bool, key: str = "") -> Any:
    """Fill in the colours of a figure; only under keys that hold colours, for a trial may be called '$accent'."""
    if isinstance(value, Mapping):
        return {name: coloured(each, dark, name) for name, each in value.items()}
    if key == "colorscale":
        return [[at, colour(name, dark)] for at, name in value]
    if key in _LISTS:
        return [coloured(each, dark) for each in value]
    if isinstance(value, str) and value.startswith("$") and key.endswith("color"):
        return colour(value, dark)
    if isinstance(value, list | tuple) and key.endswith("color"):
        return [coloured(each, dark, key) for each in value]
    return value


def template(dark: bool) -> dict[str, Any]:
    """Return what all figures look like beside their data."""
    line, muted, ink, raised, quiet, surface = (
        colour(f"${name}", dark) for name in ("line", "muted", "ink", "raised", "quiet", "surface")
    )
    axis = {
        "gridcolor": line,
        "linecolor": line,
        "zerolinecolor": line,
        "tickcolor": line,
        "ticks": "outside",
        "ticklen": 4,
        "zeroline": False,
        "tickfont": {"color": muted, "size": 11},
        "title": {"font": {"color": muted, "size": 12}},
    }
    bar = {"tickfont": {"color": muted, "size": 11}, "title": {"font": {"color": muted, "size": 11}}}
    return {
        "layout": {
            "font": {"color": ink, "size": 12},
            "paper_bgcolor": surface,
            "plot_bgcolor": surface,
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"font": {"size": 11}, "bgcolor": "rgba(0,0,0,0)"},
            "hoverlabel": {
                "bgcolor": raised,
                "bordercolor": quiet,
                "font": {"color": ink, "size": 12},
                "align": "left",
            },
        },
        "data": {"heatmap": [{"colorbar": bar}]},
    }
