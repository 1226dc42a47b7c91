"""A final run against its promise: the band that was promised, the scores, and where it is expected to end."""

from rlplan.charts.chart import ACCENT, INK, QUIET, Chart, axis, band, layout, scatter
from rlplan.reading.finals import FinalStanding

HOVER = "update %{x:,}<br>%{y:.3f}"


def final_chart(final: FinalStanding) -> Chart:
    """Return the chart; x is the run's updates, since prices may turn out otherwise."""
    steps = [round(share * final.update_steps) for share, *_ in final.band]
    promised = [score for _, score, _, _ in final.band]
    lows, highs = [low for *_, low, _ in final.band], [high for *_, high in final.band]
    at, scores = [point.step for point in final.scores], [point.score for point in final.scores]
    traces = [
        band(steps, lows, highs, QUIET, name="promised, 90 %"),
        scatter(steps, promised, "lines", HOVER, name="promised", line={"color": QUIET, "width": 1.5, "dash": "dash"}),
        scatter(at, scores, "lines+markers", HOVER, name="scores", line={"color": ACCENT, "width": 2}),
    ]
    if final.expected is not None and not final.ended:
        end = final.expected
        error = {"type": "data", "array": [end.high - end.score], "arrayminus": [end.score - end.low], "color": INK}
        style = {"name": "end expected now, 90 %", "marker": {"color": INK, "size": 8}, "error_y": error}
        traces.append(scatter([final.update_steps], [end.score], "markers", HOVER, **style))
    figure = {
        "data": traces,
        "layout": layout(
            76, xaxis=axis("updates of the final run", range=[0, final.update_steps * 1.03]), yaxis=axis("score")
        ),
    }
    caption = final.ending if final.ended else final.line
    return Chart("final", "The final run against its promise", caption or "Nothing was scored yet.", figure, 380)
