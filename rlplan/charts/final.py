"""A final run against its promise: the band that was promised, the scores, and where it is expected to end."""

from typing import Any

from rlplan.charts.chart import ACCENT, INK, QUIET, Chart, Trace, axis, band, layout, legend_below
from rlplan.reading.finals import FinalStanding

NAME = "final"
HEIGHT = 380
HOVER = "update %{x:,}<br>%{y:.3f}<extra></extra>"


def final_chart(final: FinalStanding) -> Chart:
    """Return the chart; x is the run's updates, since prices may turn out otherwise."""
    steps = [round(share * final.update_steps) for share, *_ in final.band]
    promised = [score for _, score, _, _ in final.band]
    lows, highs = [low for *_, low, _ in final.band], [high for *_, high in final.band]
    figure: dict[str, Any] = {
        "data": [
            *band(steps, lows, highs, QUIET, "promised, 90 %"),
            _line(steps, promised, "promised", {"color": QUIET, "width": 1.5, "dash": "dash"}),
            {
                **_line([each.step for each in final.scores], [each.score for each in final.scores], "scores", {}),
                "mode": "lines+markers",
                "line": {"color": ACCENT, "width": 2},
            },
            *_expected(final),
        ],
        "layout": layout(
            **legend_below(),
            xaxis=axis("updates of the final run", range=[0, final.update_steps * 1.03]),
            yaxis=axis("score"),
        ),
    }
    caption = final.ending if final.ended else final.line
    return Chart(NAME, "The final run against its promise", caption or "Nothing was scored yet.", figure, HEIGHT)


def _line(x: list[int], y: list[float], name: str, line: dict[str, Any]) -> Trace:
    return {"type": "scatter", "x": x, "y": y, "mode": "lines", "line": line, "name": name, "hovertemplate": HOVER}


def _expected(final: FinalStanding) -> list[Trace]:
    """Mark where it is expected to end, as long as it has not."""
    if final.expected is None or final.ended:
        return []
    end = final.expected
    spread = {"array": [end.high - end.score], "arrayminus": [end.score - end.low], "color": INK, "symmetric": False}
    at = _line([final.update_steps], [end.score], "end expected now, 90 %", {"color": INK})
    return [{**at, "mode": "markers", "marker": {"color": INK, "size": 8}, "error_y": {"type": "data", **spread}}]
