"""What math-verify's LaTeX parser chose before is chosen again for text of the same kinds of tokens.

Which rules fit is nearly all that it takes to parse "(3, 7)". They follow from the kinds of the tokens alone: "(12, 5)"
has the same. Only the rewards' own process imports this.
"""

from functools import lru_cache
from typing import Any

from latex2sympy2_extended import latex2sympy2  # type: ignore[import-untyped]

_REMEMBERED = 16_384
_DEFAULT_CHANNEL = 0


@lru_cache(_REMEMBERED)
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

            def predicted(*given: Any) -> int:
                chosen.append(predict(*given))
                return chosen[-1]

            self._interp.adaptivePredict = predicted
            tree = super().math()  # raises where the text is no mathematics: then nothing is remembered
            choices.extend(chosen)
            return tree

    latex2sympy2.PSParser = RememberingParser
