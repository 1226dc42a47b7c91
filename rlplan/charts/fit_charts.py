"""Fitted curves and laws as charts: their points, the band of the fit, the window, the cut, the predictions."""

from collections.abc import Iterator, Sequence
from itertools import cycle

import numpy as np

from planner.curves.curve import Curve
from planner.percent import percent
from rlplan.charts.chart import MIND, MUTED, QUIET, SERIES, Chart, Trace, axis, band, layout, legend_below, text
from rlplan.charts.fit_panels import Line, Panel

SINGLE_HEIGHT, SMALL_HEIGHT = 560, 380  # pixels, with the legend
FLOPS = 1e12  # x from which on it counts operations, which only powers of ten can name
OBSERVED = "$good"


def fit_charts(panels: Sequence[Panel]) -> list[Chart]:
    """Return a chart for each panel."""
    return [_chart(f"fit-{number}", panel, single=len(panels) == 1) for number, panel in enumerate(panels, start=1)]


def _chart(name: str, panel: Panel, *, single: bool) -> Chart:
    lines = zip(panel.lines, cycle(SERIES), strict=False)
    traces = [trace for line, colour in lines for trace in _line(panel, line, colour)]
    for at, dash, what in ((panel.cut, "dot", "cut"), (panel.window, "dash", "end of the window")):
        if at is not None:  # a trace and no shape: the legend has its name
            style = {"color": MUTED, "dash": dash, "width": 1}
            traces.append(_trace(what, [at, at], panel.height, "lines", line=style))
    named: set[str] = set()
    for trace in traces:  # the legend has each name once
        trace["showlegend"] = trace.get("name", "") not in {"", *named}
        named.add(trace.get("name", ""))
    farthest = max((float(line.x.max(initial=0.0)) for line in panel.lines), default=0.0)
    numbers = {"exponentformat": "power"} if farthest >= FLOPS else {}
    scales = [{"type": "log" if log else "linear"} for log in (panel.logarithmic, panel.logarithmic_y)]
    figure = {
        "data": traces,
        "layout": layout(
            xaxis=axis(text(panel.x_name), **scales[0], **numbers),
            yaxis=axis(text(panel.y_name), **scales[1], **(numbers if panel.logarithmic_y else {})),
        )
        | legend_below(120),
    }
    caption = f"{panel.title}: {panel.y_name} against {panel.x_name}, with the fit's {percent(panel.level)} interval."
    return Chart(name, panel.title, caption, figure, SINGLE_HEIGHT if single else SMALL_HEIGHT)


def _line(panel: Panel, line: Line, colour: str) -> Iterator[Trace]:
    several = len(panel.lines) > 1
    if line.band is not None:
        x, low, high = line.band.x.tolist(), line.band.low.tolist(), line.band.high.tolist()
        yield from band(x, low, high, colour, f"{panel.level * 100:g} % band")
    for points, own, label in ((line.unused, QUIET, "not used"), (line.used, colour, "used")):
        yield from _points(points, panel.leftmost, own, text(line.name) if several else label)
    if line.band is not None:
        label = text(line.name) if several else "median of the fit"
        yield _trace(label, line.band.x, line.band.median, "lines", line={"color": colour, "width": 2})
    if line.predictions:
        at, middle, least, most = (np.array(values) for values in zip(*line.predictions, strict=True))
        own = colour if several else MIND
        error = {"type": "data", "array": most - middle, "arrayminus": middle - least, "color": own}
        yield _trace("prediction", at, middle, "markers", marker={"color": own, "size": 8}, error_y=error)
    if line.observed:
        where, came = zip(*line.observed, strict=True)
        yield _trace("observed", where, came, "markers", marker={"color": OBSERVED, "size": 10, "symbol": "diamond"})


def _points(points: Curve, leftmost: float, colour: str, name: str) -> Iterator[Trace]:
    trained = points.x > 0
    if trained.any():
        marker = {"color": colour, "size": 5, "opacity": 0.75}
        yield _trace(name, points.x[trained], points.y[trained], "markers", marker=marker)
    if not trained.all():
        marker = {"color": colour, "size": 10, "symbol": "triangle-left"}
        start = [leftmost] * int((~trained).sum())
        yield _trace("before training", start, points.y[~trained], "markers", marker=marker)


def _trace(name: str, x: object, y: object, mode: str, **style: object) -> Trace:
    return {"type": "scatter", "name": name, "legendgroup": name, "x": x, "y": y, "mode": mode, **style}
