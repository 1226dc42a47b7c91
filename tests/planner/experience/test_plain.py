import json
import math

import pytest

from budgets.errors import InputError
from planner.experience.plain import document, read_document, to_plain
from tests.planner.experience.makers import learnt


def test_experience_comes_back_bit_by_bit() -> None:
    source = learnt(1, task="sums")
    (back,) = read_document(document([source]), "a.json")
    assert to_plain(back) == to_plain(source)
    assert (back.lines, back.terms) == (source.lines, source.terms)
    assert back.covariance.tobytes() == source.covariance.tobytes()


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
