"""A chart as JSON: plain, small, and harmless within HTML."""

import json
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlplan.charts.chart import Chart, plain, safe_json, text
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
