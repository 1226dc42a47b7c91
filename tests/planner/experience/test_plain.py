import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.experience.experience import Experience
from planner.experience.plain import document, read_document, to_plain
from planner.pooling.features import Line, Term
from tests.planner.experience.makers import learnt

numbers = st.floats(-1e6, 1e6)


@st.composite
def experiences(draw: st.DrawFn) -> Experience:
    size = draw(st.integers(1, 5))
    vector = st.lists(numbers, min_size=size, max_size=size).map(np.array)
    root = np.random.default_rng(draw(st.integers(0, 2**31))).normal(size=(size, size))
    lines = (Line("n", draw(st.floats(0, 5)), draw(st.floats(6, 9)), True),)
    return Experience(
        name=draw(st.text()),
        lines=lines,
        terms=(Term(0, ()), Term(1, ("n",)), Term(0, ("n", "n")), Term(2, ("n",)), Term(1, ("recipe=a",)))[:size],
        mean=draw(vector),
        covariance=root @ root.T + np.eye(size),
        prior_mean=draw(vector),
        prior_sd=np.abs(draw(vector)) + 0.1,
        target_gpu_hours=draw(st.floats(1e-6, 1e9)),
        start=draw(st.floats(0, 1)),
        configurations=draw(st.integers(3, 1000)),
        curves=draw(st.integers(3, 1000)),
        about=draw(st.dictionaries(st.text(), st.text(), max_size=3)),
    )


@given(st.lists(experiences(), min_size=1, max_size=3))
@settings(max_examples=40)
def test_experience_comes_back_bit_by_bit(sources: list[Experience]) -> None:
    back = read_document(document(sources), "a.json")
    assert [to_plain(each) for each in back] == [to_plain(each) for each in sources]
    for one, other in zip(sources, back, strict=True):
        assert (one.lines, one.terms) == (other.lines, other.terms)
        assert one.covariance.tobytes() == other.covariance.tobytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mean": [1.0]}, "not every vector is of its"),
        ({"target_gpu_hours": 0}, "target_gpu_hours is not above 0"),
        ({"lines": []}, "belongs to no axis"),
        ({"curves": math.inf}, "cannot convert float infinity"),
        ({"prior_sd": [1e-300] * 15}, "a spread is not above 0"),
        ({"prior_mean": [1e200] * 15}, "out of all reason"),
        (
            {"lines": [{"name": name, "low": 1e200, "high": 1e300, "log": True} for name in "nB"]},
            "the axis n has no width",
        ),
        ({"lines": [{"name": name, "low": 1.0, "high": 2.0, "log": True} for name in "nnB"]}, "is there twice"),
    ],
)
def test_broken_experience_is_refused_by_what_is_wrong(change: dict[str, object], said: str) -> None:
    data = json.loads(document([learnt(1)]))
    data["sources"][0] |= change
    with pytest.raises(InputError, match=said) as caught:
        read_document(json.dumps(data), "a.json")
    assert "write it anew" in str(caught.value)


def test_a_covariance_must_be_one() -> None:
    data = json.loads(document([learnt(1)]))
    data["sources"][0]["covariance"][0][0] = -1.0
    with pytest.raises(InputError, match="not positive definite"):
        read_document(json.dumps(data), "a.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("run,seed\n", "is no JSON"),
        ('{"runs": []}', "holds no experience"),
        ('{"rlplan_experience": 9, "sources": []}', "of version 9"),
        ('{"rlplan_experience": 1, "sources": []}', "holds no source"),
        ('{"rlplan_experience": 1, "sources": [{}]}', "'name' is missing"),
    ],
)
def test_other_files_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_document(text, "a.json")
