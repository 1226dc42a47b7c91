"""A chart's scales, colours and texts, and which points it keeps."""

import json
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlplan.charts.chart import FEWEST, Chart, plain, safe_json, text, thinned
from tests.rlplan.charts.stories import EVIL


@given(
    st.recursive(
        st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_holds_what_was_given_and_no_sign_of_html(value: object) -> None:
    written = safe_json(value)
    assert json.loads(written) == value
    assert not set(written) & set("<>&\u2028\u2029")


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12))
def test_rounding_keeps_what_a_picture_shows(number: float) -> None:
    kept = plain(number)
    assert math.isclose(kept, number, rel_tol=6e-5, abs_tol=1e-300)


def test_numpy_becomes_plain() -> None:
    made = plain({"x": np.array([1.5, np.nan]), "n": np.int64(3), "s": np.float64(0.25), "t": (1, "a"), "b": True})
    assert made == {"x": [1.5, None], "n": 3, "s": 0.25, "t": [1, "a"], "b": True}
    assert [type(each) for each in (made["n"], made["s"], made["b"])] == [int, float, bool]


def test_markup_in_a_name_is_text() -> None:
    assert text("<b>a & b</b>") == "&lt;b&gt;a &amp; b&lt;/b&gt;"
    assert "<" not in Chart("a", "A", "a", {"data": [{"name": EVIL}]}, 100).json


scores = st.floats(0.0, 1.0)


@given(st.lists(scores, max_size=300), st.integers(FEWEST, 60))
def test_few_points_stay_and_they_are_the_outermost(y: list[float], most: int) -> None:
    kept = thinned(y, most)
    assert len(kept) == len(y) if len(y) <= most else len(kept) <= most
    assert (np.diff(kept) > 0).all()
    if y:
        assert (kept[0], kept[-1]) == (0, len(y) - 1)
        shown = np.asarray(y)[kept]
        assert (shown.min(), shown.max()) == (min(y), max(y))


@given(st.integers(50, 2000), st.integers(0, 10**9), st.integers(20, 100), st.booleans())
def test_a_single_point_that_falls_or_leaps_is_never_lost(count: int, place: int, most: int, up: bool) -> None:
    y = 0.3 + 0.4 * np.arange(count) / count
    spike = place % count
    y[spike] = 1.0 if up else 0.0
    assert spike in thinned(y, most)
