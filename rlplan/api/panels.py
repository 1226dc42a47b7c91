"""Puts several charts, each with one pair of axes, into one figure."""

import math
from collections.abc import Sequence
from typing import Any

from rlplan.charts.chart import Chart, text

HEADING = 30  # pixels above a panel
MARGIN = {"l": 56, "r": 16, "t": 12, "b": 44}
GAP = 0.07  # of the width, between two columns


def grid(
    panels: Sequence[tuple[str, Chart]],
    columns: int,
    *,
    below: int = 30,
    titles: tuple[str, str] | None = None,
    legends: bool = False,
) -> dict[str, Any]:
    """Return a figure with a panel for each chart, row by row, each under its heading.

    `below` is how many pixels of a panel its ticks take; `titles` are those of x and y, for the outermost axes; with
    `legends` each panel has its own at its right.
    """
    across = min(columns, len(panels))
    rows = math.ceil(len(panels) / across)
    height = max(chart.height for _, chart in panels)
    inner = rows * (height + HEADING)
    layout: dict[str, Any] = {
        **panels[0][1].figure["layout"],
        "margin": MARGIN,
        "showlegend": legends,
        "shapes": [],
        "annotations": [],
        "height": inner + MARGIN["t"] + MARGIN["b"],
    }
    wide = (1 - GAP * (across - 1)) / across
    data: list[dict[str, Any]] = []
    for number, (heading, chart) in enumerate(panels):
        row, column = divmod(number, across)
        left = column * (wide + GAP)
        top = 1 - (row * (height + HEADING) + HEADING) / inner
        own = str(number + 1) if number else ""
        x, y = [left, min(1.0, left + wide)], [max(0.0, top - (height - below) / inner), top]
        data += [_placed(trace, own) for trace in chart.figure["data"]]
        axes = chart.figure["layout"]
        lowest, first = number + across >= len(panels), column == 0
        layout[f"xaxis{own}"] = {
            **axes["xaxis"],
            **_named(titles and titles[0], lowest),
            "domain": x,
            "anchor": f"y{own}",
        }
        layout[f"yaxis{own}"] = {
            **axes["yaxis"],
            **_named(titles and titles[1], first),
            "domain": y,
            "anchor": f"x{own}",
        }
        if legends:
            layout[f"legend{own}"] = {"x": 1.01, "xanchor": "left", "y": top, "yanchor": "top", "font": {"size": 11}}
        layout["shapes"] += [_shape(each, own) for each in axes.get("shapes", ())]
        layout["annotations"].append(_title(heading, left, top))
    return {"data": data, "layout": layout}


def _placed(trace: dict[str, Any], own: str) -> dict[str, Any]:
    placed = {**trace, "xaxis": f"x{own}", "yaxis": f"y{own}"}
    if trace["type"] == "heatmap":  # its numbers stand in its cells
        return {**placed, "showscale": False}
    return {**placed, "legend": f"legend{own}"}


def _named(title: str | None, outermost: bool) -> dict[str, Any]:
    return {"title": {"text": title, "standoff": 8}} if title and outermost else {}


def _shape(shape: dict[str, Any], own: str) -> dict[str, Any]:
    x, y = shape["xref"], shape["yref"]
    return {**shape, "xref": f"x{own}{x[1:]}", "yref": f"y{own}{y[1:]}"}


def _title(heading: str, left: float, top: float) -> dict[str, Any]:
    return {
        "text": f"<b>{text(heading)}</b>",
        "x": left,
        "y": top,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
    }
