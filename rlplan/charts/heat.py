"""Heat maps over (n, B): what every configuration is expected to score at the target, and how likely it is the best."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.axes import format_axes
from planner.store.schema import Candidate
from planner.view import Axes, Configuration
from rlplan.charts.chart import INK, PAPER, QUIET, SCALE, Chart, Trace, axis, faded, layout, text
from rlplan.charts.groups import Expected, chosen, configuration_of, expected_of
from rlplan.reading.story import Beliefs, Story
from rlplan.wording.numbers import aligned_hours, probability

HATCHES = 4  # strokes of a cell that no trial has seen
ROW, ABOVE = 46, 90  # pixels
FEWEST_ROWS = 4
DARK = 0.62  # of the colour scale: from here on its colours are nearer to the ink than to the page
PLAIN = "n and B alone"
Quantity = tuple[str, str, str, str, Callable[[float], str]]  # a chart's name and title; what it shows, in which unit


@dataclass(frozen=True, slots=True)
class Variant:
    """The two maps of one setting of the further axes."""

    label: str
    score: Chart
    best: Chart
    has_chosen: bool


@dataclass(frozen=True, slots=True)
class _Grid:
    """Rows of B and columns of n; powers of two that are missing between others keep their place."""

    columns: tuple[int, ...]
    rows: tuple[int, ...]
    outlooks: dict[tuple[int, int], Expected]
    observed: frozenset[tuple[int, int]]
    planned: frozenset[tuple[int, int]]
    chosen: tuple[int, int] | None
    words: tuple[str, str] = ("seen by a trial", "no trial has seen it: this comes from its neighbours")


def heat_maps(story: Story, beliefs: Beliefs | None) -> tuple[Variant, ...]:
    """Return the maps of every setting of the further axes, the one with the recommended allocation first."""
    known = expected_of(story, beliefs)
    taken = chosen(story, beliefs)
    trained = frozenset(
        configuration_of(trial) for trial in story.picture.trials if any(score.gpu_hours > 0 for score in trial.scores)
    )
    planned = {*story.planned, *trained, *known}
    settings = sorted(
        {each.axes for each in planned}, key=lambda axes: (taken is None or axes != taken.axes, format_axes(axes))
    )
    grids = [_grid(axes, known, trained, planned, taken) for axes in settings]
    score = ("heat-score", "Expected score at the target", "expected_score", "score", "{:.3f}".format)
    return _variants(settings, grids, score, ("heat-best", "P(best)", "probability_best", "P(best)", probability))


def plan_maps(candidates: Sequence[Candidate]) -> tuple[Variant, ...]:
    """Return what a plan expects of its candidates and what a step of each costs, for each setting of further axes."""
    priced = {configuration_of(each): each for each in candidates}
    piloted = frozenset(configuration_of(each) for each in candidates if each.pilot_steps)
    settings = list(dict.fromkeys(each.axes for each in priced))  # the best first, as candidates are
    words = ("gets a pilot", "gets no pilot")
    grids = [replace(_grid(axes, priced, piloted, set(priced), None), words=words) for axes in settings]
    score = ("plan-score", "Expected score", "expected_score", "score", "{:.3f}".format)
    price = ("plan-price", "GPU-hours a step", "gpu_hours_per_step", "GPU-hours", aligned_hours)
    return _variants(settings, grids, score, price)


def _variants(settings: Sequence[Axes], grids: Sequence[_Grid], left: Quantity, right: Quantity) -> tuple[Variant, ...]:
    return tuple(
        Variant(
            format_axes(axes) or PLAIN, _map(number, left, grid), _map(number, right, grid), grid.chosen is not None
        )
        for number, (axes, grid) in enumerate(zip(settings, grids, strict=True))
    )


def _grid(
    axes: Axes,
    known: Mapping[Configuration, Expected],
    trained: frozenset[Configuration],
    planned: set[Configuration],
    taken: Configuration | None,
) -> _Grid:
    own = [each for each in planned if each.axes == axes]
    return _Grid(
        columns=_octaves({each.rollouts_per_prompt for each in own}),
        rows=_octaves({each.prompts_per_batch for each in own}),
        outlooks={each[:2]: outlook for each, outlook in known.items() if each.axes == axes},
        observed=frozenset(each[:2] for each in trained if each.axes == axes),
        planned=frozenset(each[:2] for each in own),
        chosen=taken[:2] if taken is not None and taken.axes == axes else None,
    )


def _octaves(values: set[int]) -> tuple[int, ...]:
    if all(value & (value - 1) == 0 for value in values) and min(values) > 0:
        low, high = min(values).bit_length() - 1, max(values).bit_length() - 1
        return tuple(2**power for power in range(low, high + 1))
    return tuple(sorted(values))


def _map(number: int, drawn: Quantity, grid: _Grid) -> Chart:
    name, title, quantity, unit, write = drawn
    values = [[_value(grid, (n, B), quantity) for n in grid.columns] for B in grid.rows]
    figure = {
        "data": [
            {
                "type": "heatmap", "z": values, "x": list(range(len(grid.columns))), "y": list(range(len(grid.rows))),
                "colorscale": SCALE, "xgap": 2, "ygap": 2, "hoverongaps": False,
                "customdata": [[_words(grid, n, B) for n in grid.columns] for B in grid.rows],
                "hovertemplate": "%{customdata}<extra></extra>",
                "colorbar": {"thickness": 10, "outlinewidth": 0, "title": {"text": unit, "side": "right"}},
            },
            *_hatched(grid),
            *_framed(grid),
            _labels(values, write),
        ],
        "layout": layout(
            margin={"l": 52, "r": 8, "t": 8, "b": 44},
            xaxis=_ticks("n, rollouts per prompt", grid.columns),
            yaxis=_ticks("B, prompts per batch", grid.rows),
        ),
    }  # fmt: skip
    height = ABOVE + ROW * max(FEWEST_ROWS, len(grid.rows))
    return Chart(f"{name}-{number}", title, _described(title, quantity, grid), figure, height)


def _labels(values: list[list[float | None]], write: Callable[[float], str]) -> Trace:
    """Write each value into its cell: in ink on what is near the page's colour, in the page's colour on the rest."""
    known = [value for row in values for value in row if value is not None]
    low, span = min(known, default=0.0), (max(known, default=1.0) - min(known, default=0.0)) or 1.0
    cells = [(x, y, v) for y, row in enumerate(values) for x, v in enumerate(row) if v is not None]
    return {
        "type": "scatter", "mode": "text", "hoverinfo": "skip", "meta": "cells",
        "x": [x for x, _, _ in cells], "y": [y for _, y, _ in cells], "text": [write(value) for *_, value in cells],
        "textfont": {"size": 11, "color": [PAPER if (value - low) / span > DARK else INK for *_, value in cells]},
    }  # fmt: skip


def _ticks(title: str, values: Sequence[int]) -> dict[str, object]:
    return axis(
        title,
        tickvals=list(range(len(values))),
        ticktext=[f"{value:,}" for value in values],
        range=[-0.5, len(values) - 0.5],
        showgrid=False,
        zeroline=False,
        ticks="",
    )


def _value(grid: _Grid, cell: tuple[int, int], quantity: str) -> float | None:
    outlook = grid.outlooks.get(cell)
    return None if outlook is None else getattr(outlook, quantity)


def _words(grid: _Grid, n: int, B: int) -> str:
    outlook, cell = grid.outlooks.get((n, B)), (n, B)
    lines = [f"<b>n = {n}, B = {B}</b>" + (", recommended" if cell == grid.chosen else "")]
    if isinstance(outlook, Candidate):
        lines.append(f"{aligned_hours(outlook.gpu_hours_per_step)} GPU-hours a step")
    if outlook is not None and outlook.expected_score is not None:
        lines.append(f"expected {outlook.expected_score:.3f}")
        if outlook.score_low is not None and outlook.score_high is not None:
            lines[-1] += f", a new run {outlook.score_low:.3f} to {outlook.score_high:.3f}"
        if not isinstance(outlook, Candidate) and outlook.probability_best is not None:
            lines.append(f"P(best) {outlook.probability_best:.3f}")
    lines.append(grid.words[cell not in grid.observed])
    return "<br>".join(lines)


def _hatched(grid: _Grid) -> Iterator[Trace]:
    """Hatch what no trial has seen: a line with gaps, which costs little however large the grid is."""
    unseen = grid.planned - grid.observed
    for cells, colour in ((unseen & set(grid.outlooks), PAPER), (unseen - set(grid.outlooks), QUIET)):
        x: list[float | None] = []
        y: list[float | None] = []
        for n, B in sorted(cells):
            column, row = grid.columns.index(n), grid.rows.index(B)
            for (x0, y0), (x1, y1) in _strokes():
                x += [column + x0, column + x1, None]
                y += [row + y0, row + y1, None]
        if cells:
            yield {
                "type": "scatter", "x": x, "y": y, "mode": "lines", "hoverinfo": "skip",
                "line": {"color": faded(colour, 0.45), "width": 1},
            }  # fmt: skip


def _strokes() -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Return diagonals of a cell around (0, 0)."""
    edge = 0.47
    for number in range(1, 2 * HATCHES):
        offset = (number / HATCHES - 1) * 2 * edge
        yield (
            (max(-edge, -edge + offset), max(-edge, -edge - offset)),
            (min(edge, edge + offset), min(edge, edge - offset)),
        )


def _framed(grid: _Grid) -> Iterator[Trace]:
    if grid.chosen is None:
        return
    column, row = grid.columns.index(grid.chosen[0]), grid.rows.index(grid.chosen[1])
    corners = [(-0.48, -0.48), (0.48, -0.48), (0.48, 0.48), (-0.48, 0.48), (-0.48, -0.48)]
    yield {
        "type": "scatter", "mode": "lines", "hoverinfo": "skip", "line": {"color": INK, "width": 3},
        "cliponaxis": False, "x": [column + x for x, _ in corners], "y": [row + y for _, y in corners],
    }  # fmt: skip


def _described(title: str, quantity: str, grid: _Grid) -> str:
    if not grid.outlooks:
        return f"{title}: nothing is expected of any allocation yet."
    best = max(grid.outlooks, key=lambda cell: getattr(grid.outlooks[cell], quantity) or 0.0)
    value = getattr(grid.outlooks[best], quantity)
    highest = "" if value is None else f", highest at n = {best[0]}, B = {best[1]} with {value:.3f}"
    return text(f"{title} over n and B: {len(grid.outlooks)} allocations, {len(grid.observed)} of them seen{highest}.")
