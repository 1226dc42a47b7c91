"""Whether a response ends in the right mathematical answer, by math-verify; only the rewards' own process imports this.

math-verify's own time limits rest on signals, which neither interrupt C code nor work outside the main thread. They
are off here: whoever calls this holds the limit from outside.
"""

import logging
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that its time limits are off

_END_OF_THOUGHT = "</think>"
_MOST_EXPONENT = 30  # numbers beyond are not written out as digits
_EXTRACTION = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
_REMEMBERED = 65_536


def score(problem: dict[str, Any], response: str) -> float:
    """Return 1 when the response's answer equals the problem's, else 0.

    What stands in a box (LaTeX's boxed) counts before an announced answer ("the answer is …"), and that before the
    last expression or number. Only what follows a closed block of thought is read.
    """
    answer = problem["answer"]
    if not _gold(answer):
        raise ValueError(f"math-verify finds no mathematics in the answer {answer!r} of problem '{problem['id']}'")
    found = parse(response.rpartition(_END_OF_THOUGHT)[2], _EXTRACTION, parsing_timeout=None)
    try:
        return _compared(answer, tuple(found))
    except TypeError:  # a matrix has no hash
        return _verified(answer, found)


@lru_cache(_REMEMBERED)
def _compared(answer: str, found: tuple[Any, ...]) -> float:
    """Compare, and remember: the responses to a prompt mostly give one of a few answers."""
    return _verified(answer, list(found))


def _verified(answer: str, found: list[Any]) -> float:
    return float(verify(_gold(answer), found, timeout_seconds=None))


@lru_cache(_REMEMBERED)
def _gold(answer: str) -> list[Any]:
    """Return the right answer parsed: boxed, because bare LaTeX is read as text."""
    text = _digits(answer)
    parsed: list[Any] = parse(text if "\\boxed" in text else f"\\boxed{{{text}}}", parsing_timeout=None)
    return parsed


def _digits(answer: str) -> str:
    """Write a number such as 1e-7 without its exponent, which LaTeX would read as Euler's number."""
    try:
        number = Decimal(answer.strip())
    except InvalidOperation:
        return answer
    short = number.is_finite() and abs(number.adjusted()) <= _MOST_EXPONENT
    return f"{number:f}" if short else answer
