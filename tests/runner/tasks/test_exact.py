import pytest

from runner.ports.task import Problem
from runner.tasks.rewards import ExactReward

PROBLEM = Problem("p", "1+1=", "2")


@pytest.mark.parametrize(
    ("response", "stripped", "strict"), [("2", 1.0, 1.0), (" 2\n", 1.0, 0.0), ("3", 0.0, 0.0), ("", 0.0, 0.0)]
)
def test_only_the_answer_is_right(response: str, stripped: float, strict: float) -> None:
    assert ExactReward().score([PROBLEM], [response]).values == [stripped]
    assert ExactReward(strip=False).score([PROBLEM], [response]).values == [strict]


def test_each_response_has_its_own_problem_and_nothing_fails() -> None:
    reward = ExactReward()
    scores = reward.score([PROBLEM, Problem("q", "1+2=", "3")], ["3", "3"])
    assert (scores.values, scores.failures) == ([0.0, 1.0], {})
    reward.close()
    with pytest.raises(ValueError, match="zip"):
        reward.score([PROBLEM], [])
