"""Where the GPU-hours went: one bar for the whole budget, one for the pilots' part of it."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlplan.charts.chart import Chart, Trace, faded, text
from rlplan.charts.looks import ACCENT, BAD, GOOD, INK, MIND, PAPER, QUIET, SERIES, axis, layout, legend_below
from rlplan.reading.story import Story
from rlplan.reading.sweep_data import uses
from rlplan.wording.numbers import aligned_hours

# What segments ended with, and what no segment was charged for, in words.
WORDS = {
    "committed": "trained",
    "failed": "failed",
    "lost": "lost",
    "released": "given back",
    "idle": "idle",
}
COLOURS = {"committed": ACCENT, "failed": BAD, "lost": MIND, "released": QUIET, "idle": QUIET}
PILOTS, WHOLE = "pilots", "all"
HEIGHT = 210


@dataclass(frozen=True, slots=True)
class Use:
    """GPU-hours that went to one thing."""

    name: str
    gpu_hours: float
    colour: str


def used(story: Story) -> tuple[Use, ...]:
    """Return where the pilots' GPU-hours are; what is none is left out."""
    return tuple(use for use in _used(story) if use.gpu_hours > 0)


def _used(story: Story) -> Iterator[Use]:
    money = story.picture.money
    for kind, gpu_hours in uses(money).items():
        yield Use(WORDS.get(kind, kind), gpu_hours, COLOURS.get(kind, SERIES[3]))
    yield Use("reserved", money.reserved, GOOD)
    yield Use("left", money.left, faded(QUIET, 0.35))


def budget_chart(story: Story) -> Chart:
    """Return the stacked bars."""
    money = story.picture.money
    bars: list[Trace] = [_bar(use.name, PILOTS, use.gpu_hours, use.colour) for use in used(story)]
    final = max(0.0, story.final_gpu_hours)
    bars += [
        _bar("pilots", WHOLE, money.pilot_gpu_hours, faded(ACCENT, 0.55)),
        _bar("final run", WHOLE, final, SERIES[2]),
    ]
    figure = {
        "data": bars,
        "layout": layout(
            **legend_below(84),
            barmode="stack",
            uniformtext={"minsize": 11, "mode": "hide"},
            bargap=0.35,
            xaxis=axis("GPU-hours", rangemode="tozero"),
            yaxis=axis(autorange="reversed", showgrid=False, ticks=""),
        ),
    }
    went = ", ".join(f"{use.name} {aligned_hours(use.gpu_hours)}" for use in used(story))
    said = f"GPU-hours of the pilots: {went}; {aligned_hours(final)} for the final run."
    return Chart("budget", "Where the GPU-hours went", said, figure, HEIGHT)


def _bar(name: str, row: str, gpu_hours: float, colour: str) -> Trace:
    return {
        "type": "bar", "orientation": "h", "name": text(name), "x": [gpu_hours], "y": [row],
        "marker": {"color": colour, "line": {"width": 0}},
        "text": [f"{text(name)} {aligned_hours(gpu_hours)}"], "textposition": "inside", "insidetextanchor": "middle",
        "insidetextfont": {"color": INK if "/" in colour else PAPER},
        "textangle": 0,
        "hovertemplate": f"<b>{text(name)}</b><br>%{{x:.4~g}} GPU-hours<extra></extra>",
    }  # fmt: skip
