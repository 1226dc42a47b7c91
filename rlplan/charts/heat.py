"""Heat maps over (n, B): what every configuration is expected to score at the target, and how likely it is the best."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from planner.axes import format_axes
from planner.store.schema import Candidate
from planner.view import Axes, Configuration
from rlplan.charts.chart import (
    INK,
    PAPER,
    Chart,
    Expected,
    Trace,
    axis,
    configuration_of,
    expected_of,
    layout,
    scatter,
    text,
)
from rlplan.reading.story import Beliefs, Story
from rlplan.wording.numbers import aligned_hours, probability

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
    known = {cell: value for cell, value in values.items() if value is not None}
    if not known:
        return f"{title}: nothing is expected of any allocation yet."
    best = max(known, key=lambda cell: known[cell])
    return (
        f"{title} over n and B: {len(known)} allocations, {len(grid.bold & set(values))} of them {grid.words[0]}, "
        f"highest at n = {best.rollouts_per_prompt}, B = {best.prompts_per_batch} with {known[best]:.3f}."
    )
