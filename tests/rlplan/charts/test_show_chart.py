"""The chart of a curve in a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from planner.view import ScorePoint
from rlplan.printing.score_chart import HEIGHT, chart
from rlplan.wording.draw import Canvas

FINITE = st.floats(-1e6, 1e6)


def scores(*values: float) -> list[ScorePoint]:
    return [ScorePoint(step, float(step), value, None) for step, value in enumerate(values)]


def test_a_rising_curve_rises() -> None:
    assert chart(scores(0.0, 0.5, 1.0), Canvas(24, unicode=False), height=3) == [
        " 1.00 |           ******",
        "      |     ******",
        " 0.00 |******",
        "      +-----------------",
        "       0     2 GPU-hours",
    ]


def test_dots_of_braille_are_twice_as_wide_and_four_times_as_high() -> None:
    assert chart(scores(0.0, 1.0), Canvas(23), height=2) == [
        " 1.00 │        ⣀⣀⠤⠤⠒⠒⠉⠉",
        " 0.00 │⣀⣀⠤⠤⠒⠒⠉⠉",
        "      └────────────────",
        "       0    1 GPU-hours",
    ]


@given(
    points=st.lists(st.tuples(st.floats(0, 1e9), FINITE), min_size=2, max_size=300),
    width=st.integers(23, 250),
    unicode=st.booleans(),
)
def test_whatever_is_drawn_fits_and_is_seen(points: list[tuple[float, float]], width: int, unicode: bool) -> None:
    lines = chart([ScorePoint(1, x, y, None) for x, y in points], Canvas(width, unicode=unicode))
    assert len(lines) == HEIGHT + 2
    assert any(line.partition("│" if unicode else "|")[2].strip() for line in lines[:HEIGHT])
    assert all(line.isascii() for line in lines) != unicode
