"""What to take at each spend, what it is expected to score, and its n."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from planner.axes import named_configuration
from planner.recommending.answer import FinalAnswer
from planner.recommending.choosing import Choice
from rlplan.charts.chart import (
    ACCENT,
    INK,
    QUIET,
    Chart,
    Trace,
    axis,
    band,
    faded,
    layout,
    legend_below,
    octave_ticks,
    text,
    upright,
)
from rlplan.charts.groups import answer_in
from rlplan.charts.thinning import thinned_curve
from rlplan.reading.story import Beliefs, Story
from rlplan.wording.numbers import aligned_hours, hours, probability

NAME = "frontier"
UPPER, LOWER = (0.42, 1.0), (0.0, 0.34)  # of the height: the scores, and n below them
HEIGHT = 620
BEHIND = 40, 10, 3_000  # points of a trial that are drawn faintly, at most and at least, and of all trials
TAKEN = ACCENT
CHOICE_HOVER = (
    "<b>%{customdata[0]}</b>, M=%{customdata[1]:,}<br>%{x:.4~g} GPU-hours<br>expected %{y:.3f}, 90 % "
    "%{customdata[2]:.3f} to %{customdata[3]:.3f}<br>P(best) %{customdata[4]}<extra></extra>"
)


def frontier_chart(story: Story, beliefs: Beliefs | None) -> Chart | None:
    """Return what to take at each spend; None where nothing is recommended yet."""
    answer = answer_in(beliefs)
    if answer is None:
        return None
    taken = [(each.gpu_hours, each.choice) for each in answer.frontier if each.choice is not None]
    tried = [choice.rollouts_per_prompt for choice in answer.ranked]
    spends = _spends(answer, taken)
    figure = {
        "data": [*_behind(story), *_taken(taken), _rollouts(taken)],
        "layout": layout(
            **legend_below(88),
            xaxis=axis(type="log", matches="x2", showticklabels=False, anchor="y", ticks="", **spends),
            xaxis2=axis("GPU-hours of the final run", type="log", anchor="y2", **spends),
            yaxis=axis("score", domain=UPPER),
            yaxis2=axis("n, rollouts per prompt", domain=LOWER, anchor="x2", **octave_ticks(min(tried), max(tried))),
            shapes=[upright(answer.target_gpu_hours, "x"), upright(answer.target_gpu_hours, "x2")],
        ),
    }
    (low, first), (high, last) = taken[0], taken[-1]
    caption = (
        f"The expected score goes from {first.expected_score:.3f} at {hours(low)} GPU-hours to "
        f"{last.expected_score:.3f} at {hours(high)}. {answer.at_other_budgets}."
    )
    return Chart(NAME, "What to take at each spend, and what it should score", caption, figure, HEIGHT)


def _spends(answer: FinalAnswer, taken: Sequence[tuple[float, Choice]]) -> dict[str, Any]:
    """Name the spends that are octaves of the target: these are what one asks about."""
    low, high = taken[0][0], taken[-1][0]
    octaves = [answer.target_gpu_hours * 2.0**octave for octave in range(-8, 3)]
    shown = [each for each in octaves if low * 0.7 <= each <= high * 1.1]
    return {
        "tickvals": shown,
        "ticktext": [aligned_hours(each) for each in shown],
        "range": [math.log10(0.8 * min([low, *shown])), math.log10(1.25 * high)],
    }


def _behind(story: Story) -> Iterator[Trace]:
    """Draw every trial's scores faintly: what all this rests on."""
    x: list[float | None] = []
    y: list[float | None] = []
    many, few, total = BEHIND
    most = max(few, min(many, total // max(1, len(story.picture.trials))))
    for trial in story.picture.trials:
        points = [each for each in thinned_curve(trial.scores, most) if each.gpu_hours > 0]
        x += [*(each.gpu_hours for each in points), None]
        y += [*(each.score for each in points), None]
    if any(value is not None for value in x):
        yield {
            "type": "scatter", "name": "scores of the trials", "x": x, "y": y, "mode": "lines",
            "line": {"color": faded(QUIET, 0.5), "width": 1}, "hoverinfo": "skip",
        }  # fmt: skip


def _taken(taken: Sequence[tuple[float, Choice]]) -> Iterator[Trace]:
    x, choices = [spend for spend, _ in taken], [choice for _, choice in taken]
    low, high = [choice.score_low for choice in choices], [choice.score_high for choice in choices]
    yield from band(x, low, high, TAKEN, name="its 90 % interval")
    yield {
        "type": "scatter", "name": "what to take, expected", "mode": "lines+markers",
        "x": x, "y": [choice.expected_score for choice in choices],
        "line": {"color": TAKEN, "width": 2.5}, "marker": {"color": TAKEN, "size": 7},
        "customdata": [
            [_name(each), each.update_steps, each.score_low, each.score_high, probability(each.probability_best)]
            for each in choices
        ],
        "hovertemplate": CHOICE_HOVER,
    }  # fmt: skip


def _rollouts(taken: Sequence[tuple[float, Choice]]) -> Trace:
    return {
        "type": "scatter", "xaxis": "x2", "yaxis": "y2", "x": [spend for spend, _ in taken],
        "y": [choice.rollouts_per_prompt for _, choice in taken], "mode": "markers+text", "name": "n to take",
        "marker": {"color": TAKEN, "size": 9, "symbol": "diamond"}, "meta": "labels", "cliponaxis": False,
        "text": _labels([choice for _, choice in taken]), "textposition": "top center",
        "textfont": {"color": INK, "size": 11}, "customdata": [_name(choice) for _, choice in taken],
        "hovertemplate": "%{x:.4~g} GPU-hours<br>to take: %{customdata}<extra></extra>",
    }  # fmt: skip


def _labels(choices: Sequence[Choice]) -> list[str]:
    """Name what is taken where it changes, so that the names do not cover one another."""
    changed = [True, *(before.configuration != after.configuration for before, after in pairwise(choices))]
    return [_name(choice) if new else "" for choice, new in zip(choices, changed, strict=True)]


def _name(choice: Choice) -> str:
    return text(named_configuration(choice.configuration))
