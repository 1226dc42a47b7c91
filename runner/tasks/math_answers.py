"""Whether a response ends in the right mathematical answer, by math-verify; only the rewards' own process imports this.

math-verify's own time limits rest on signals, which neither interrupt C code nor work outside the main thread. They
are off here: whoever calls this holds the limit from outside.

What its LaTeX parser chose before is chosen again for text of the same kinds of tokens. Which rules fit is nearly all
that it takes to parse "(3, 7)". They follow from the kinds of the tokens alone: "(12, 5)" has the same.
"""

import logging
import math
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any
from zlib import crc32

from latex2sympy2_extended import latex2sympy2  # type: ignore[import-untyped]
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from sympy import Derivative, Eq, Expr, FiniteSet, Float, Limit, Subs, Symbol, Tuple, UnevaluatedExpr
from sympy.concrete.expr_with_limits import ExprWithLimits
from sympy.core.function import AppliedUndef

_REMEMBERED_KINDS = 16_384
_DEFAULT_CHANNEL = 0
_END_OF_THOUGHT = "</think>"
_MOST_EXPONENT = 30  # numbers beyond are not written out as digits
_EXTRACTION = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
_REMEMBERED = 65_536
_DIGITS = 15  # with which math-verify compares
_FAR = 0.01
logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that its time limits are off


@lru_cache(_REMEMBERED_KINDS)
def _choices(kinds: tuple[int, ...]) -> list[int]:
    """Return the list of what was chosen for these kinds of tokens, which is filled by whoever parses them first."""
    del kinds
    return []


def remember_choices() -> None:
    """Have math-verify parse by a parser that remembers; nothing changes where its version has another one."""
    usual: Any = getattr(latex2sympy2, "PSParser", None)
    if usual is None or not hasattr(usual, "math"):
        return

    class RememberingParser(usual):  # type: ignore[misc]
        def math(self) -> Any:
            """Parse all of the text, the grammar's first rule."""
            self._input.fill()
            kinds = tuple(token.type for token in self._input.tokens if token.channel == _DEFAULT_CHANNEL)
            choices, predict = _choices(kinds), self._interp.adaptivePredict
            if choices:
                again = iter(choices)
                self._interp.adaptivePredict = lambda *_: next(again)
                return super().math()
            chosen: list[int] = []

            def predicted(*arguments: Any) -> int:
                chosen.append(predict(*arguments))
                return chosen[-1]

            self._interp.adaptivePredict = predicted
            tree = super().math()  # raises where the text is no mathematics: then nothing is remembered
            choices.extend(chosen)
            return tree

    latex2sympy2.PSParser = RememberingParser


def score(problem: dict[str, Any], response: str) -> float:
    """Return 1 when the response's answer equals the problem's, else 0.

    What stands in a box (LaTeX's boxed) counts before an announced answer ("the answer is …"), and that before the
    last expression or number. Only what follows a closed block of thought is read.
    """
    answer = problem["answer"]
    if not _gold(answer):
        raise ValueError(f"math-verify finds no mathematics in the answer {answer!r} of problem '{problem['id']}'")
    parsed = parse(response.rpartition(_END_OF_THOUGHT)[2], _EXTRACTION, parsing_timeout=None)
    try:
        return _compared(answer, tuple(parsed))
    except TypeError:  # a matrix has no hash
        return _verified(answer, parsed)


@lru_cache(_REMEMBERED)
def _compared(answer: str, parsed: tuple[Any, ...]) -> float:
    """Compare, and remember: the responses to a prompt mostly give one of a few answers."""
    return _verified(answer, list(parsed))


def _verified(answer: str, parsed: list[Any]) -> float:
    gold = _gold(answer)
    # Where their values differ by far, math-verify would simplify for long to find the same.
    if len(gold) == len(parsed) == 2 and gold[1] != parsed[1] and _differ(*_sides(gold[0], parsed[0])):
        return 0.0
    return float(verify(gold, parsed, timeout_seconds=None))


def _differ(one: Any, other: Any) -> bool:
    """Whether values differ by far, of sets and tuples those of a member and all members of the other.

    math-verify takes 9 and 9 % for equal, and rounds; nothing near to that is decided here.
    """
    if isinstance(one, FiniteSet | Tuple) and isinstance(other, FiniteSet | Tuple):
        return any(all(_differ(member, counterpart) for counterpart in other.args) for member in one.args)
    if not (isinstance(one, Expr) and isinstance(other, Expr)):
        return False
    first, second = _value(one), _value(other)
    if first is None or second is None:
        return False
    return not any(math.isclose(first * times, second, rel_tol=_FAR, abs_tol=_FAR) for times in (0.01, 1, 100))


def _sides(gold: Any, answer: Any) -> tuple[Any, Any]:
    """Return what math-verify compares: of y = 3x its right side, unless the other is an equation of something else."""
    if isinstance(gold, Eq) and isinstance(answer, Eq):
        name = gold.lhs
        alone = isinstance(name, Symbol | AppliedUndef) and not (gold.rhs.has(name) or answer.rhs.has(name))
        return (gold.rhs, answer.rhs) if alone and answer.lhs == name else (None, None)
    one, other = (side.rhs if isinstance(side, Eq) else side for side in (gold, answer))
    return one, other


@lru_cache(_REMEMBERED)
def _value(side: Expr) -> float | None:
    """Return the number that an expression is where each variable has a value by its name; None where it is none.

    What is one variable alone may be a word for math-verify. Sums and integrals up to a variable have no value there.
    """
    variables = side.free_symbols
    if isinstance(side, Symbol) or (variables and side.has(ExprWithLimits, Derivative, Limit, Subs)):
        return None
    try:
        value = side.doit() if side.has(UnevaluatedExpr) else side  # as 9 % has one
        value = value.evalf(_DIGITS, subs={symbol: 1 + crc32(str(symbol).encode()) / 2**32 for symbol in variables})
    except Exception:  # sympy raises whatever it likes, which math-verify takes for a difference
        return None
    number = float(value) if isinstance(value, Float) else math.inf
    return number if math.isfinite(number) else None


@lru_cache(_REMEMBERED)
def _gold(answer: str) -> list[Any]:
    """Return the right answer parsed: boxed, because bare LaTeX is read as text."""
    text = answer
    with suppress(InvalidOperation):  # of 1e-7, LaTeX would read the exponent as Euler's number
        number = Decimal(answer.strip())
        if number.is_finite() and abs(number.adjusted()) <= _MOST_EXPONENT:
            text = f"{number:f}"
    parsed: list[Any] = parse(text if "\\boxed" in text else f"\\boxed{{{text}}}", parsing_timeout=None)
    return parsed


remember_choices()
