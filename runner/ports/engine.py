"""The port behind which responses are generated; tests/conformance holds every engine to this text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from budgets.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

_PLACES = 2**64 - 1  # the noise of tokens is drawn by seed and block of steps, and no response has so many
Weights = Iterable[tuple[str, "Tensor"]]


@dataclass(frozen=True, slots=True)
class Interruption:
    """A closing phrase that is forced on responses which have not ended by a length, drawn for each anew."""

    phrase: tuple[int, ...]
    earliest: int  # tokens before the phrase, at the fewest
    latest: int
    closed_by: tuple[int, ...] = ()  # a response that has these tokens in a row has closed by itself: it is let be

    def places(self, seed: int, rows: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
        """Return for each row after how many tokens it is interrupted; the same for the same seed."""
        key = np.array([seed % 2**64, _PLACES], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key)).integers(self.earliest, self.latest + 1, rows)

    def forces(self, place: int, written: Sequence[int]) -> int | None:
        """Return the token that has to follow those written of a row that is interrupted at a place; None: any may."""
        within, closing = len(written) - place, len(self.closed_by)
        if not 0 <= within < len(self.phrase):
            return None
        starts = range(place - closing + 1) if closing else ()
        closed = any(tuple(written[start : start + closing]) == self.closed_by for start in starts)
        return None if closed else self.phrase[within]

    def forced(self, place: int, written: Sequence[int]) -> list[bool]:
        """Return for each token of a row that is interrupted at a place whether it had to be that one."""
        flags = [False] * len(written)
        for count in range(place, min(place + len(self.phrase), len(written))):
            flags[count] = self.forces(place, written[:count]) is not None
        return flags


@dataclass(frozen=True, slots=True)
class Sampling:
    """How responses are drawn: from the whole distribution at a temperature, up to a length."""

    max_tokens: int
    temperature: float = 1.0  # 0 takes the likeliest token; its log-probability is then the one at temperature 1
    interruption: Interruption | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Rollouts:
    """Responses to B prompts, n each: row i·n + j is response j to prompt i. Padding is on the right."""

    prompts: Sequence[Sequence[int]]  # B lists of token ids
    per_prompt: int  # n
    tokens: "Tensor"  # (B·n, T) int64 on the CPU; the end token is part of a response
    mask: "Tensor"  # (B·n, T) bool: True where there is a token
    forced: "Tensor"  # (B·n, T) bool: True where the token is an interruption's and was not drawn
    logprobs: "Tensor"  # (B·n, T) float32: the sampler's, at the sampling temperature; 0 where forced and at padding
    truncated: "Tensor"  # (B·n,) bool: cut at the longest length without an end token

    @property
    def count(self) -> int:
        """Number of responses."""
        return len(self.prompts) * self.per_prompt


def require_sound(prompts: Sequence[Sequence[int]], max_tokens: int, longest: int | None) -> None:
    """Refuse a request that cannot be decoded, with the numbers."""
    for number, prompt in enumerate(prompts):
        if not len(prompt):
            raise InputError(f"prompt {number} is empty: at least one token is needed, such as the beginning of text")
        if longest is not None and len(prompt) + max_tokens > longest:
            raise InputError(
                f"prompt {number} of {len(prompt)} tokens and a response of up to {max_tokens} need "
                f"{len(prompt) + max_tokens} positions, and the engine has {longest}: shorten the prompt or allow at "
                f"most {max(0, longest - len(prompt))} response tokens"
            )


class RolloutEngine(Protocol):
    """Generates responses with weights that can be replaced."""

    def generate(self, prompts: Sequence[Sequence[int]], per_prompt: int, sampling: Sampling, seed: int) -> Rollouts:
        """Return `per_prompt` responses to each prompt; the same seed, prompts and weights give the same rollouts.

        With an interruption, each row that has neither ended nor closed by itself after its place takes the closing
        phrase, token by token, and goes on from there; `Rollouts.forced` says where.
        """

    def load_weights(self, weights: Weights) -> None:
        """Use these weights, named as in the model's state dictionary, from now on."""

    def close(self) -> None:
        """Free what the engine holds; it cannot be used any more. Closing twice is allowed."""
