"""What to take at each spend, what it is expected to score, and its n."""

import math
from itertools import pairwise

from planner.axes import named_configuration
from rlplan.charts.chart import (
    ACCENT,
    INK,
    QUIET,
    Axis,
    Chart,
    Trace,
    answer_in,
    axis,
    band,
    faded,
    layout,
    scatter,
    text,
    thinned_curve,
    upright,
)
from rlplan.reading.story import Beliefs, Story
from rlplan.wording.numbers import aligned_hours, hours, probability

BEHIND = 40, 10, 3_000  # points of a trial that are drawn faintly, at most and at least, and of all trials
HOVER = (
    "<b>%{customdata[0]}</b>, M=%{customdata[1]:,}<br>%{x:.4~g} GPU-hours<br>expected %{y:.3f}, 90 % "
    "%{customdata[2]:.3f} to %{customdata[3]:.3f}<br>P(best) %{customdata[4]}"
)


def frontier_chart(story: Story, beliefs: Beliefs | None) -> Chart | None:
    """Return what to take at each spend; None where nothing is recommended yet."""
    answer = answer_in(beliefs)
    if answer is None:
        return None
    spends = [point.gpu_hours for point in answer.frontier if point.choice is not None]
    choices = [point.choice for point in answer.frontier if point.choice is not None]
    names = [text(named_configuration(choice.configuration)) for choice in choices]
    low, high = [choice.score_low for choice in choices], [choice.score_high for choice in choices]
    # Named where it changes, so that the names do not cover one another.
    labels = [names[0], *(after if after != before else "" for before, after in pairwise(names))]
    expected = scatter(
        spends,
        [choice.expected_score for choice in choices],
        "lines+markers",
        HOVER,
        name="what to take, expected",
        line={"color": ACCENT, "width": 2.5},
        marker={"color": ACCENT, "size": 7},
        customdata=[
            [name, choice.update_steps, choice.score_low, choice.score_high, probability(choice.probability_best)]
            for name, choice in zip(names, choices, strict=True)
        ],
    )
    rollouts = scatter(
        spends,
        [choice.rollouts_per_prompt for choice in choices],
        "markers+text",
        "%{x:.4~g} GPU-hours<br>to take: %{customdata}",
        name="n to take",
        xaxis="x2",
        yaxis="y2",
        marker={"color": ACCENT, "size": 9, "symbol": "diamond"},
        meta="labels",
        cliponaxis=False,
        text=labels,
        textposition="top center",
        textfont={"color": INK, "size": 11},
        customdata=names,
    )
    ticks = _octaves(answer.target_gpu_hours, spends)
    tried = [choice.rollouts_per_prompt for choice in answer.ranked]
    powers = [2**power for power in range(24) if min(tried) / 1.5 <= 2**power <= max(tried) * 1.5]
    powers = powers[:: len(powers) // 10 + 1]
    figure = {
        "data": [_behind(story), band(spends, low, high, ACCENT, name="its 90 % interval"), expected, rollouts],
        "layout": layout(
            88,
            xaxis={"matches": "x2", "showticklabels": False, "anchor": "y", "ticks": "", **ticks},
            xaxis2=axis("GPU-hours of the final run", anchor="y2", **ticks),
            yaxis=axis("score", domain=(0.42, 1.0)),
            yaxis2=axis(
                "n, rollouts per prompt",
                domain=(0.0, 0.34),
                anchor="x2",
                type="log",
                tickvals=powers[:: len(powers) // 10 + 1],
            ),
            shapes=[upright(answer.target_gpu_hours), upright(answer.target_gpu_hours, "2")],
        ),
    }
    caption = (
        f"The expected score goes from {choices[0].expected_score:.3f} at {hours(spends[0])} GPU-hours to "
        f"{choices[-1].expected_score:.3f} at {hours(spends[-1])}. {answer.at_other_budgets}."
    )
    return Chart("frontier", "What to take at each spend, and what it should score", caption, figure, 620)


def _octaves(target: float, spends: list[float]) -> Axis:
    """Return a log axis that names the spends that are octaves of the target: these are what one asks about."""
    low, high = spends[0], spends[-1]
    ticks = [tick for octave in range(-8, 3) if low * 0.7 <= (tick := target * 2.0**octave) <= high * 1.1]
    return {
        "type": "log",
        "tickvals": ticks,
        "ticktext": [aligned_hours(tick) for tick in ticks],
        "range": [math.log10(0.8 * min([low, *ticks])), math.log10(1.25 * high)],
    }


def _behind(story: Story) -> Trace:
    """Draw every trial's scores faintly: what all this rests on."""
    x: list[float | None] = []
    y: list[float | None] = []
    many, few, total = BEHIND
    most = max(few, min(many, total // max(1, len(story.picture.trials))))
    for trial in story.picture.trials:
        points = [point for point in thinned_curve(trial.scores, most) if point.gpu_hours > 0]
        x += [*(point.gpu_hours for point in points), None]
        y += [*(point.score for point in points), None]
    return scatter(x, y, name="scores of the trials", line={"color": faded(QUIET, 0.5), "width": 1})
