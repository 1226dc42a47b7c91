"""The configurations of a plan: the heat map over n and B, and what other budgets would choose."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from planner.axes import format_axes, named_configuration
from planner.store.schema import Candidate
from planner.view import Axes, Configuration
from rlplan.charts.chart import (
    ACCENT,
    INK,
    PAPER,
    QUIET,
    Axis,
    Chart,
    Expected,
    Trace,
    answer_in,
    axis,
    band,
    configuration_of,
    expected_of,
    faded,
    layout,
    scatter,
    text,
    thinned_curve,
    upright,
)
from rlplan.reading.story import Beliefs, Story
from rlplan.wording.numbers import aligned_hours, hours, probability

ROW, ABOVE = 46, 90  # pixels
FEWEST_ROWS = 4
DARK = 0.62  # of the colour scale: from here on its colours are nearer to the ink than to the page
PLAIN = "n and B alone"


class Quantity(NamedTuple):
    """What a map shows: an attribute of what is expected, in a unit, and how a cell writes it."""

    name: str
    title: str
    attribute: str
    unit: str
    write: Callable[[float], str]


SCORE = Quantity("heat-score", "Expected score at the target", "expected_score", "score", "{:.3f}".format)
BEST = Quantity("heat-best", "P(best)", "probability_best", "P(best)", probability)
PLAN_SCORE = Quantity("plan-score", "Expected score", "expected_score", "score", "{:.3f}".format)
PLAN_PRICE = Quantity("plan-price", "GPU-hours a step", "gpu_hours_per_step", "GPU-hours", aligned_hours)


@dataclass(frozen=True, slots=True)
class Variant:
    """The two maps of one setting of the further axes."""

    label: str
    score: Chart
    best: Chart
    has_chosen: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """What is expected of each configuration, None where nothing is; which are bold, and which one is framed."""

    expected: Mapping[Configuration, Expected | None]
    bold: frozenset[Configuration]
    chosen: Configuration | None
    words: tuple[str, str]  # of a cell that is bold, and of another


def heat_maps(story: Story, beliefs: Beliefs | None) -> tuple[Variant, ...]:
    """Return the maps of every setting of the further axes, the one with the recommended allocation first."""
    expected = expected_of(story, beliefs)
    best = next(iter(expected), None)  # the recommended one
    trained = frozenset(
        configuration_of(trial) for trial in story.picture.trials if any(score.gpu_hours > 0 for score in trial.scores)
    )
    planned = {*story.planned, *trained, *expected}
    words = ("seen by a trial", "no trial has seen it: this comes from its neighbours")
    grid = Grid({cell: expected.get(cell) for cell in planned}, trained, best, words)
    settings = sorted(
        {cell.axes for cell in planned}, key=lambda axes: (best is None or axes != best.axes, format_axes(axes))
    )
    return tuple(_variant(grid, axes, number, SCORE, BEST) for number, axes in enumerate(settings))


def plan_maps(candidates: Sequence[Candidate]) -> tuple[Variant, ...]:
    """Return what a plan expects of its candidates and what a step of each costs, for each setting of further axes."""
    piloted = frozenset(configuration_of(candidate) for candidate in candidates if candidate.pilot_steps)
    priced = {configuration_of(candidate): candidate for candidate in candidates}
    grid = Grid(priced, piloted, None, ("gets a pilot", "gets no pilot"))
    settings = dict.fromkeys(cell.axes for cell in priced)  # the best first, as candidates are
    return tuple(_variant(grid, axes, number, PLAN_SCORE, PLAN_PRICE) for number, axes in enumerate(settings))


def _variant(grid: Grid, axes: Axes, number: int, left: Quantity, right: Quantity) -> Variant:
    has_chosen = grid.chosen is not None and grid.chosen.axes == axes
    score, best = (_map(grid, axes, f"{quantity.name}-{number}", quantity) for quantity in (left, right))
    return Variant(format_axes(axes) or PLAIN, score, best, has_chosen)


def _map(grid: Grid, axes: Axes, name: str, quantity: Quantity) -> Chart:
    planned = {cell for cell in grid.expected if cell.axes == axes}
    columns = _octaves({cell.rollouts_per_prompt for cell in planned})
    rows = _octaves({cell.prompts_per_batch for cell in planned})
    cells = [[Configuration(n, B, axes) for n in columns] for B in rows]
    values = {
        cell: getattr(grid.expected[cell], quantity.attribute, None) for row in cells for cell in row if cell in planned
    }
    border = {"type": "rect", "line": {"color": INK, "width": 3}}
    frames = [
        {**border, "x0": x - 0.48, "x1": x + 0.48, "y0": y - 0.48, "y1": y + 0.48}
        for y, row in enumerate(cells)
        for x, cell in enumerate(row)
        if cell == grid.chosen
    ]
    figure = {
        "data": [
            {
                "type": "heatmap",
                "x": [f"{n:,}" for n in columns],
                "y": [f"{B:,}" for B in rows],
                "z": [[values.get(cell) for cell in row] for row in cells],
                "customdata": [[_hover(grid, cell) for cell in row] for row in cells],
                "hovertemplate": "%{customdata}<extra></extra>",
                "colorbar": {"title": {"text": quantity.unit}},
            },
            _labels(grid, values, quantity.write),
        ],
        "layout": layout(
            margin={"l": 52, "r": 8, "t": 8, "b": 44},
            xaxis=axis("n, rollouts per prompt", type="category", showgrid=False, ticks=""),
            yaxis=axis("B, prompts per batch", type="category", showgrid=False, ticks=""),
            shapes=frames,
        ),
    }
    height = ABOVE + ROW * max(FEWEST_ROWS, len(rows))
    return Chart(name, quantity.title, _caption(quantity.title, grid, values), figure, height)


def _octaves(values: set[int]) -> list[int]:
    """Return the sizes of an axis; powers of two that are missing between others keep their place."""
    if any(value & (value - 1) for value in values):
        return sorted(values)
    return [2**power for power in range(min(values).bit_length() - 1, max(values).bit_length())]


def _labels(grid: Grid, values: Mapping[Configuration, float | None], write: Callable[[float], str]) -> Trace:
    """Write each value into its cell, or a dash: in ink on what is near the page's colour, else in the page's."""
    numbers = [value for value in values.values() if value is not None]
    low, span = min(numbers, default=0.0), (max(numbers, default=1.0) - min(numbers, default=0.0)) or 1.0
    labels = {cell: "–" if value is None else text(write(value)) for cell, value in values.items()}
    colours = [PAPER if value is not None and (value - low) / span > DARK else INK for value in values.values()]
    return scatter(
        [f"{cell.rollouts_per_prompt:,}" for cell in values],
        [f"{cell.prompts_per_batch:,}" for cell in values],
        "text",
        text=[f"<b>{label}</b>" if cell in grid.bold else label for cell, label in labels.items()],
        textfont={"size": 11, "color": colours},
        meta="cells",
    )


def _hover(grid: Grid, cell: Configuration) -> str:
    expected = grid.expected.get(cell)
    lines = [f"<b>n = {cell.rollouts_per_prompt}, B = {cell.prompts_per_batch}</b>"]
    if cell == grid.chosen:
        lines[0] += ", recommended"
    if isinstance(expected, Candidate):
        lines.append(f"{aligned_hours(expected.gpu_hours_per_step)} GPU-hours a step")
    if expected is not None and expected.expected_score is not None:
        lines.append(f"expected {expected.expected_score:.3f}")
        if expected.score_low is not None and expected.score_high is not None:
            lines[-1] += f", a new run {expected.score_low:.3f} to {expected.score_high:.3f}"
        if not isinstance(expected, Candidate) and expected.probability_best is not None:
            lines.append(f"P(best) {expected.probability_best:.3f}")
    lines.append(grid.words[cell not in grid.bold])
    return "<br>".join(lines)


def _caption(title: str, grid: Grid, values: Mapping[Configuration, float | None]) -> str:
    """Describe a map to who cannot see it."""
    scores = {cell: value for cell, value in values.items() if value is not None}
    if not scores:
        return f"{title}: nothing is expected of any allocation yet."
    best = max(scores, key=lambda cell: scores[cell])
    return (
        f"{title} over n and B: {len(scores)} allocations, {len(grid.bold & set(values))} of them {grid.words[0]}, "
        f"highest at n = {best.rollouts_per_prompt}, B = {best.prompts_per_batch} with {scores[best]:.3f}."
    )


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
    ticks = _spend_axis(answer.target_gpu_hours, spends)
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


def _spend_axis(target: float, spends: list[float]) -> Axis:
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
