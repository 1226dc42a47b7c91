"""A curve in the terminal: scores against GPU-hours in dots of braille, or in asterisks."""

from collections.abc import Sequence
from itertools import pairwise

from planner.view import ScorePoint
from rlplan.wording.draw import Canvas
from rlplan.wording.numbers import hours
from rlplan.wording.sparkline import LEAST_SPAN

HEIGHT = 8  # lines
NARROWEST, WIDEST = 16, 100
LABEL = 6  # columns for the scores at the left
# The bits of a braille sign's eight dots, by row and column.
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
BLANK = 0x2800

Place = tuple[float, float]  # from the left and from below, as shares of the chart


def chart(scores: Sequence[ScorePoint], canvas: Canvas, height: int = HEIGHT) -> list[str]:
    """Draw scores against GPU-hours, in dots of braille or, without Unicode, asterisks; nothing without room for it."""
    width = min(canvas.width, WIDEST) - LABEL - 1
    if len(scores) < 2 or width < NARROWEST:
        return []
    values = [each.score for each in scores]
    low, high = min(values), max(values)
    missing = max(0.0, LEAST_SPAN - (high - low)) / 2
    low, high = low - missing, high + missing
    last = max(each.gpu_hours for each in scores) or 1.0
    places = _joined([(each.gpu_hours / last, (each.score - low) / (high - low)) for each in scores], width, height)
    drawn = _braille(places, width, height) if canvas.unicode else _asterisks(places, width, height)
    side, corner, floor = ("│", "└", "─") if canvas.unicode else ("|", "+", "-")
    labels = [f"{high:.2f}", *[""] * (height - 2), f"{low:.2f}"]
    end = f"{hours(last)} GPU-hours"
    return [
        *(f"{label:>{LABEL - 1}} {side}{line}".rstrip() for label, line in zip(labels, drawn, strict=True)),
        f"{'':>{LABEL}}{corner}{floor * width}",
        f"{'':>{LABEL}} 0{end:>{width - 1}}",
    ]


def _joined(places: list[Place], width: int, height: int) -> list[Place]:
    """Return points with lines between them where they are too few to be seen as a curve."""
    if len(places) >= width:
        return places
    joined = places[:1]
    for (x, y), (to_x, to_y) in pairwise(places):
        dots = 1 + int(max(abs(to_x - x) * 2 * width, abs(to_y - y) * 4 * height))
        joined += [(x + (to_x - x) * dot / dots, y + (to_y - y) * dot / dots) for dot in range(1, dots + 1)]
    return joined


def _braille(places: Sequence[Place], width: int, height: int) -> list[str]:
    signs = [[0] * width for _ in range(height)]
    for x, y in places:
        column, row = _cell(x, 2 * width), 4 * height - 1 - _cell(y, 4 * height)
        signs[row // 4][column // 2] |= DOTS[row % 4][column % 2]
    return ["".join(chr(BLANK + bits) if bits else " " for bits in line) for line in signs]


def _asterisks(places: Sequence[Place], width: int, height: int) -> list[str]:
    signs = [[" "] * width for _ in range(height)]
    for x, y in places:
        signs[height - 1 - _cell(y, height)][_cell(x, width)] = "*"
    return ["".join(line) for line in signs]


def _cell(share: float, cells: int) -> int:
    return min(cells - 1, max(0, int(share * cells)))
