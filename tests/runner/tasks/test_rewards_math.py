from collections.abc import Iterator

import pytest
from antlr4.atn.ParserATNSimulator import ParserATNSimulator
from latex2sympy2_extended import latex2sympy2
from math_verify import verify
from sympy import srepr

from runner.ports.task import Problem
from runner.ports.trial import TaskChoice
from runner.tasks import math_answers
from runner.tasks.rewards import ProcessReward, make_reward


@pytest.fixture(scope="module")
def reward() -> Iterator[ProcessReward]:
    made = make_reward(TaskChoice(name="p.jsonl", reward="math", reward_seconds=30.0))
    assert isinstance(made, ProcessReward)
    yield made
    made.close()


RIGHT = [
    (r"\frac{1}{2}", r"so it is \boxed{0.5}"),
    ("0.5", r"The answer is $\frac12$."),
    ("42", r"First 3 and 4, but $a = 7$. \boxed{42}"),
    ("5", r"\boxed{5\text{ cm}}"),
    (r"10\text{ m/s}", r"\boxed{10}"),
    ("1,000", r"\boxed{1000}"),
    ("50%", r"\boxed{\frac12}"),
    (r"\sqrt{8}", r"\boxed{2\sqrt{2}}"),
    ("x^2+1", r"$$\boxed{1+x^2}$$"),
    ("x = 3", r"\boxed{3}"),
    (r"\boxed{7}", "It must be 7"),
    ("$7$", "It must be 7"),
    ("1e-3", r"\boxed{0.001}"),
    ("1e20", r"\boxed{10^{20}}"),
    (r"\text{Friday}", r"\boxed{\text{Friday}}"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\boxed{\begin{pmatrix}1\\2\end{pmatrix}}"),
    ("4", r"<think>\boxed{5}? no</think> \boxed{4}"),
]
WRONG = [
    (r"\frac{1}{2}", r"\boxed{\frac{1}{3}}"),
    ("42", ""),
    ("42", r"\boxed{}"),
    ("2x+3", r"\boxed{3}"),
    ("(1, 2)", r"\boxed{[1,2]}"),
    ("5", r"<think>\boxed{5}</think> I give up."),
    ("3", r"\boxed{4} or perhaps \boxed{3}"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\boxed{\begin{pmatrix}1\\3\end{pmatrix}}"),
    ("2", r"\boxed{\frac{1}{0}}"),
    ("2", "\\boxed{\x00\ufffd}"),
]


@pytest.mark.parametrize(("answer", "response", "score"), [(*c, 1.0) for c in RIGHT] + [(*c, 0.0) for c in WRONG])
def test_mathematical_answers(reward: ProcessReward, answer: str, response: str, score: float) -> None:
    problem = Problem("p", "?", answer)
    scores = reward.score([problem, problem], [response, response])  # the second from memory
    assert scores.values == [score, score]
    assert scores.failures == {}


CONSTANTS = (
    *("3", "0", "-3", "300", "0.03", r"3\%", r"300\%", "3.0000001", "3.1", r"\frac{6}{2}", r"\sqrt{9}", "x=3", "3i"),
    *(r"\sqrt{8}", "2.828427", r"2\sqrt{2}", r"1+\sqrt{2}", r"\frac{\pi}{3}", "1.0471976", r"\text{three}", "(3, 3)"),
    *(r"\infty", "10^{20}"),
)


@pytest.mark.parametrize("answer", CONSTANTS)
def test_constants_are_as_equal_as_math_verify_has_them(answer: str) -> None:
    for other in CONSTANTS:
        gold, found = math_answers._gold(answer), math_answers._gold(other)
        assert math_answers._verified(answer, found) == float(verify(gold, found, timeout_seconds=None)), other


VARIABLES = (
    *("x^2+3x", "x(x+3)", "x^2+3y", "y = x^2+3x", "y = x^2+4x", "f(x) = x(x+3)", "x^2+3x = y", r"2x\%", "0.02x", "2x"),
    *(r"\sqrt{x^2}", "x", r"\frac{n(n+1)}{2}", r"\sum_{k=1}^{n} k", r"\{x, 2\}", r"\{2, x\}", r"\{1, 2\}", "(2, 1)"),
)


@pytest.mark.parametrize("answer", VARIABLES)
def test_what_has_variables_is_as_equal_as_math_verify_has_it(answer: str) -> None:
    for other in VARIABLES:
        gold, found = math_answers._gold(answer), math_answers._gold(other)
        assert math_answers._verified(answer, found) == float(verify(gold, found, timeout_seconds=None)), other


def test_expressions_that_differ_by_far_are_not_simplified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math_answers, "verify", None)
    for answer, found in (("x^2+3x", "x^2+4x"), ("y = 3x", "y = 4x"), ("3x", "y = 4x"), (r"\{1, 2\}", r"\{1, 3\}")):
        assert math_answers._verified(answer, math_answers._gold(found)) == 0.0


ALIKE = (  # each with one of the same kinds of tokens
    *(("(3, 7)", "(12, 5)"), (r"\{1, x\}", r"\{2, y\}"), ("x = 3, y = 7", "a = 31, b = 0"), ("[1, 2)", "[8, 9)")),
    *((r"\frac{x+1}{x-1}", r"\frac{n+7}{n-7}"), ("3x^2+2x", "44y^7+9y"), (r"\sqrt[3]{8} < x", r"\sqrt[5]{9} < y")),
)


@pytest.mark.parametrize(("first", "second"), ALIKE)
def test_what_was_parsed_once_helps_to_parse_its_like_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    usual = latex2sympy2.PSParser.__mro__[1]
    with monkeypatch.context() as patched:
        patched.setattr(latex2sympy2, "PSParser", usual)
        as_usual = latex2sympy2.latex2sympy(second)
    latex2sympy2.latex2sympy(first)
    monkeypatch.setattr(ParserATNSimulator, "adaptivePredict", None)  # what chooses is not asked again
    assert srepr(latex2sympy2.latex2sympy(second)) == srepr(as_usual)


def test_what_cannot_be_parsed_is_refused_each_time() -> None:
    for text in (r"\frac{1}{", r"\frac{2}{", "x^"):
        with pytest.raises(Exception, match="I "):  # it raises Exception itself: "I expected something else here"
            latex2sympy2.latex2sympy(text)


def test_an_answer_without_mathematics_is_named_and_not_just_scored_wrong(reward: ProcessReward) -> None:
    scores = reward.score([Problem("p9", "?", r"\boxed{}")], [r"\boxed{1}"])
    assert scores.failures == {"raised": 1}
    assert "finds no mathematics in the answer '\\\\boxed{}' of problem 'p9'" in scores.notes[0]


def test_a_number_too_large_to_compute_costs_its_own_score_only() -> None:
    reward = make_reward(TaskChoice(name="p.jsonl", reward="math", reward_seconds=2.0))
    problem = Problem("p", "?", "4")
    scores = reward.score([problem] * 3, [r"\boxed{4}", r"\boxed{9^{9^{9^9}}}", r"\boxed{4}"])
    assert scores.values == [1.0, 0.0, 1.0]
    assert scores.failures == {"timed-out": 1}
    reward.close()
