"""Where the GPU-hours went: of the pilots, of all, and of a plan."""

from collections.abc import Sequence

from rlplan.charts.chart import (
    ACCENT,
    BAD,
    GOOD,
    INK,
    MIND,
    PAPER,
    QUIET,
    SERIES,
    Chart,
    Figure,
    Trace,
    axis,
    band,
    faded,
    layout,
    scatter,
    text,
)
from rlplan.reading.finals import FinalStanding
from rlplan.reading.story import Story
from rlplan.wording.numbers import aligned_hours

# How a segment ended, and what no segment was charged for: in words, and in which colour.
LOOKS = {
    "committed": ("trained", ACCENT),
    "reserved": ("under way", GOOD),
    "failed": ("failed", BAD),
    "lost": ("lost", MIND),
    "released": ("given back", QUIET),
    "idle": ("idle", QUIET),
}
PILOTS, ALL = faded(ACCENT, 0.55), SERIES[2]
LEFT = faded(QUIET, 0.35)


def uses(story: Story) -> dict[str, tuple[float, str]]:
    """Return the GPU-hours of the pilots by what they went to, each with its colour."""
    money = story.picture.money
    parts = [(*LOOKS.get(kind, (kind, SERIES[3])), gpu_hours) for kind, gpu_hours in money.by_use.items()]
    parts += [("reserved", GOOD, money.reserved_gpu_hours), ("left", LEFT, money.left)]
    return {name: (gpu_hours, colour) for name, colour, gpu_hours in parts if gpu_hours > 0}


def budget_chart(story: Story) -> Chart:
    """Return where the pilots' GPU-hours went, and how much of all is for the final run."""
    parts = uses(story)
    final = max(0.0, story.final_gpu_hours)
    bars = [_bar(name, "pilots", gpu_hours, colour) for name, (gpu_hours, colour) in parts.items()]
    words = ", ".join(f"{name} {aligned_hours(gpu_hours)}" for name, (gpu_hours, _) in parts.items())
    caption = f"GPU-hours of the pilots: {words}; {aligned_hours(final)} for the final run."
    figure = _figure(bars, story.picture.money.pilot_gpu_hours, final, legend=84)
    return Chart("budget", "Where the GPU-hours went", caption, figure, 210)


def split_chart(pilots: Sequence[tuple[str, float]], pilot_gpu_hours: float, final: float) -> Chart:
    """Return how a plan shares out its GPU-hours: what each pilot takes, and what is left for the final run."""
    bars = [_bar(name, "pilots", gpu_hours, PILOTS) for name, gpu_hours in pilots]
    taken = sum(gpu_hours for _, gpu_hours in pilots)
    if (left := pilot_gpu_hours - taken) > 0:
        bars.append(_bar("not given out", "pilots", left, LEFT))
    words = f"{len(pilots)} pilots take {aligned_hours(taken)} of {aligned_hours(pilot_gpu_hours)} GPU-hours"
    caption = f"{words}; {aligned_hours(final)} for the final run."
    return Chart("split", "How the budget is split", caption, _figure(bars, pilot_gpu_hours, final), 170)


def _figure(bars: list[Trace], pilots: float, final: float, legend: int = 0) -> Figure:
    """Return bars of the pilots above one of all GPU-hours."""
    return {
        "data": [*bars, _bar("pilots", "all", pilots, PILOTS), _bar("final run", "all", final, ALL)],
        "layout": layout(
            legend,
            barmode="stack",
            uniformtext={"minsize": 11, "mode": "hide"},
            bargap=0.35,
            xaxis=axis("GPU-hours", rangemode="tozero"),
            yaxis={"autorange": "reversed", "showgrid": False, "ticks": ""},
        ),
    }


def _bar(name: str, row: str, gpu_hours: float, colour: str) -> Trace:
    return {
        "type": "bar",
        "orientation": "h",
        "name": text(name),
        "x": [gpu_hours],
        "y": [row],
        "marker": {"color": colour, "line": {"width": 1, "color": PAPER}},
        "text": [f"{text(name)} {aligned_hours(gpu_hours)}"],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "insidetextfont": {"color": INK if "/" in colour else PAPER},
        "textangle": 0,
        "hovertemplate": f"<b>{text(name)}</b><br>%{{x:.4~g}} GPU-hours<extra></extra>",
    }


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
