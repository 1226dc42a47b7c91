"""Frames have the columns and the types that are said, whatever is in them and whichever library makes them."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlplan
from rlplan.wording import frames
from rlplan.wording.frames import Kind, make_frame, spread

DOCUMENT = Path(__file__).parents[3] / "docs" / "python.md"
DOCUMENTED = {
    "book.plans()": frames.PLANS,
    "book.sweeps()": frames.SWEEPS,
    "plan.frame()": frames.CANDIDATES,
    "sweep.trials()": frames.TRIALS,
    "sweep.curves()": frames.CURVES,
    "sweep.points()": frames.POINTS,
    "sweep.ranked()": frames.RANKED,
    "sweep.decisions()": frames.DECISIONS,
    "sweep.segments()": frames.SEGMENTS,
    "answer.frame()": frames.CHOICES,
    "fits.frame()": frames.FITS,
    "laws.frame()": frames.LAWS,
    "compared.frame()": frames.COMPARED,
    "replay.frame()": frames.TRACE,
}
ALL = {"id": Kind.WHOLE, "steps": Kind.WHOLE_OR_MISSING, "score": Kind.NUMBER, "name": Kind.TEXT, "at": Kind.TIME}
WHOLE = st.integers(-(2**62), 2**62)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": WHOLE,
            "steps": st.none() | WHOLE,
            "score": st.none() | st.floats(allow_nan=False),
            "name": st.none() | st.text(st.characters(codec="utf-8")),
            "at": st.none()
            | st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),
        }
    ),
    max_size=5,
)


def plain(frame: Any) -> list[dict[str, Any]]:
    if isinstance(frame, polars.DataFrame):
        return frame.to_dicts()
    missing = frame.astype(object).where(frame.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in missing.to_dict("records")]


@given(ROWS)
def test_what_goes_in_comes_out(rows: list[dict[str, Any]]) -> None:
    assert make_frame(ALL, rows, "rows") == rows
    assert plain(make_frame(ALL, rows, "polars")) == rows
    assert make_frame(ALL, rows, "pyarrow").to_pylist() == rows
    assert plain(make_frame(ALL, rows, "pandas")) == rows


@given(ROWS)
def test_types_do_not_depend_on_what_is_there(rows: list[dict[str, Any]]) -> None:
    library: Any
    empty, filled = (make_frame(ALL, these, "pandas") for these in ([], rows))
    assert list(filled.dtypes) == list(empty.dtypes) == [kind.value for kind in ALL.values()]
    for library in ("polars", "pyarrow"):
        assert make_frame(ALL, rows, library).schema == make_frame(ALL, [], library).schema


def test_without_a_wish_it_is_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"pandas", "polars"}
    monkeypatch.setattr(frames, "find_spec", lambda name: name in there or None)
    assert isinstance(make_frame(ALL, [], None), pandas.DataFrame)
    there.remove("pandas")
    assert isinstance(make_frame(ALL, [], None), polars.DataFrame)
    there.remove("polars")
    assert make_frame(ALL, [], None) == []
    with pytest.raises(rlplan.InputError, match="polars is not installed"):
        make_frame(ALL, [], "polars")


def test_axes_are_columns_of_numbers_where_they_are_numbers() -> None:
    axes = ((("recipe", "grpo"), ("learning_rate", 0.5)), (("growth", 2.0),), (("growth", "linear"),))
    made, rows = spread({"id": Kind.WHOLE}, [{"id": at, "axes": own} for at, own in enumerate(axes, start=1)])
    kinds = {"axis_recipe": Kind.TEXT, "axis_learning_rate": Kind.NUMBER, "axis_growth": Kind.TEXT}
    assert made == {"id": Kind.WHOLE, **kinds}
    assert rows[1] == {"id": 2, "axis_recipe": None, "axis_learning_rate": None, "axis_growth": "2.0"}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_documentation_has_every_column(name: str) -> None:
    words: Mapping[Kind, str] = dict.fromkeys((Kind.WHOLE, Kind.WHOLE_OR_MISSING), "whole")
    words = {**words, Kind.NUMBER: "number", Kind.TEXT: "text", Kind.TIME: "time"}
    line = re.search(rf"^\| `{re.escape(name)}` \| (.*) \|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert line is not None
    expected = ", ".join(f"{words[kind]} {column}" for column, kind in DOCUMENTED[name].items())
    assert line[1] == expected or line[1].startswith(f"{expected}, and ")
