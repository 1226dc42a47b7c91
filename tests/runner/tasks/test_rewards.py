import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from budgets.errors import InputError
from runner.ports.task import Problem, summed
from runner.ports.trial import TaskChoice
from runner.tasks.rewards import ExactReward, ProcessReward, make_reward
from tests.runner.tasks.conftest import FUNCTION, LIMIT, PROBLEM

SUM = Problem("s", "1+1=", "2")


@pytest.mark.parametrize(
    ("response", "stripped", "strict"), [("2", 1.0, 1.0), (" 2\n", 1.0, 0.0), ("3", 0.0, 0.0), ("", 0.0, 0.0)]
)
def test_only_the_answer_is_right(response: str, stripped: float, strict: float) -> None:
    assert ExactReward().score([SUM], [response]).values == [stripped]
    assert ExactReward(strip=False).score([SUM], [response]).values == [strict]


def test_a_function_sees_the_problem_and_the_response(reward: ProcessReward) -> None:
    other = Problem("q", ({"role": "user", "content": "3?"},), "3")
    scores = reward.score([PROBLEM, other, PROBLEM, PROBLEM], ["equal 4", "equal 4", "level", "equal ½\ud800\n4"])
    assert scores.values == [1.0, 0.0, 0.7, 0.0]
    assert scores.failures == {}
    assert scores.notes == ()
    assert reward.score([], []).values == []


@pytest.mark.parametrize(
    ("response", "score", "kind", "says"),
    [
        ("fail it hurts", 0.125, "raised", "ValueError: no good: it hurts"),
        ("exit", 0.125, "raised", "SystemExit: 3"),
        ("value Odd()", 0.125, "raised", "no number today"),
        ("sleep 60", 0.125, "timed-out", "longer than 0.4 s"),
        ("spin", 0.125, "timed-out", "longer than 0.4 s"),
        ("backtrack", 0.125, "timed-out", "longer than 0.4 s"),
        ("swallow", 0.125, "timed-out", "longer than 0.4 s"),
        ("vanish", 0.125, "died", "exit code 3"),
        ("abort", 0.125, "died", "signal SIGSEGV"),
        ("close", 0.125, "died", "ended"),
        ("value float('nan')", 0.125, "not-finite", "the reward is nan"),
        ("value 10 ** 400", 0.125, "not-finite", "the reward is 1000"),
        ("value None", 0.125, "not-finite", "the reward is None"),
        ("value '1'", 0.125, "not-finite", "the reward is '1'"),
        ("value -1", 0.0, "out-of-range", "the reward is -1: it should lie in 0 to 1"),
        ("value 1.5", 1.0, "out-of-range", "the reward is 1.5"),
    ],
)
def test_what_one_response_does_is_counted_and_leaves_the_others_alone(
    reward: ProcessReward, response: str, score: float, kind: str, says: str
) -> None:
    scores = reward.score([PROBLEM] * 4, ["equal 4", response, "equal 5", "equal 4"])
    assert scores.values == [1.0, score, 0.0, 1.0]
    assert scores.failures == {kind: 1}
    (note,) = scores.notes
    assert note.startswith(f"problem 'p': {kind}: ")
    assert re.search(says, note)


def test_every_kind_of_number_counts_and_one_call_does_not_see_what_another_did(reward: ProcessReward) -> None:
    values = [f"value {value}" for value in ("True", "1", "1.0", "__import__('fractions').Fraction(1)")]
    assert reward.score([PROBLEM] * 7, [*values, "kept", "kept", "kept"]).values == [1.0] * 4 + [0.0] * 3


def test_a_reward_has_a_range_of_its_own_and_may_say_more_than_a_score() -> None:
    reward = ProcessReward(FUNCTION, LIMIT, between=(-1.0, 3.0))
    said = ["value -1", "value 1", "value 3.5", "value {'score': 2, 'length': 8, 'why': 'long'}", "value {'length': 4}"]
    scores = reward.score([PROBLEM] * 5, said)
    reward.close()
    assert scores.values == [0.0, 0.5, 1.0, 0.75, 0.0]
    assert scores.failures == {"out-of-range": 1, "not-finite": 1}
    assert summed(scores.metrics) == {"reward/length": 6.0}
    with pytest.raises(ValidationError, match="reward_range"):
        chosen("exact", reward_range=[1.0, 0.0])


def test_the_limit_is_that_of_each_response_and_not_of_all(reward: ProcessReward) -> None:
    scores = reward.score([PROBLEM] * 10, ["sleep 0.05"] * 10)
    assert scores.values == [1.0] * 10


def test_what_a_function_prints_is_no_answer(reward: ProcessReward, capfd: pytest.CaptureFixture[str]) -> None:
    reward.close()  # the next process writes to what is captured
    assert reward.score([PROBLEM] * 2, ["shout", "equal 4"]).values == [0.5, 1.0]
    written = capfd.readouterr()
    assert written.out == ""
    assert written.err.count("[1.0, null, null]") == 1002


def test_long_responses_and_many_of_them(reward: ProcessReward) -> None:
    long = "equal " + "x" * 300_000
    assert reward.score([PROBLEM] * 200, [long, "equal 4"] * 100).values == [0.0, 1.0] * 100
    assert reward.score([PROBLEM], ["modules"]).values == [0.0]  # nothing heavy is loaded beside the function


def chosen(reward: str, **values: object) -> TaskChoice:
    return TaskChoice.model_validate({"name": "p.jsonl", "reward": reward, **values})


BROKEN = {
    "missing.py": "import no_such_module\nf = 1",
    "leaves.py": "import sys; sys.exit('bye')",
    "dies.py": "import os; os._exit(4)",
    "constant.py": "f = 3",
}


@pytest.mark.parametrize(
    ("reward", "says"),
    [
        ("maths", "unknown reward 'maths': did you mean 'math'"),
        (":f", "unknown reward"),
        ("package.module:f()", r"'f\(\)' after the colon is no name"),
        ("gone.py:f", "there is no file"),
        ("no_such_package.module:f", "No module named 'no_such_package'"),
        ("json:no_such_function", "has no attribute 'no_such_function'"),
        ("missing.py:f", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("leaves.py:f", "SystemExit: bye"),
        ("dies.py:f", "ended with exit code 4"),
        ("constant.py:f", "'f' in .*constant.py is a int, not a function"),
    ],
)
def test_a_reward_that_cannot_be_loaded_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reward: str, says: str
) -> None:
    for name, content in BROKEN.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=says):
        make_reward(chosen(reward))


def test_functions_are_found_by_file_and_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside.py").write_text("ONE = 1")
    (tmp_path / "own_rewards.py").write_text(
        "import beside\nclass Judge:\n    @staticmethod\n    def of(problem, response): return beside.ONE"
    )
    monkeypatch.chdir(tmp_path)
    for reference in ("own_rewards.py:Judge.of", "own_rewards:Judge.of", f"{tmp_path}/own_rewards.py:Judge.of"):
        reward = make_reward(chosen(reference))
        assert reward.score([PROBLEM], ["x"]).values == [1.0]
        reward.close()


@pytest.mark.parametrize("score", [-1.0, 2.0, float("nan")])
def test_the_score_of_a_failure_is_a_score(score: float) -> None:
    with pytest.raises(ValidationError, match="failed_reward"):
        chosen("exact", failed_reward=score)
