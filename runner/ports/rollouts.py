"""What a rollout engine is asked for and what it returns; tensors only, no text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgets.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Sampling:
    """How responses are drawn: from the whole distribution at a temperature, up to a length."""

    max_tokens: int
    temperature: float = 1.0  # 0 takes the likeliest token; its log-probability is then the one at temperature 1

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or not self.temperature >= 0:
            raise InputError(
                f"sampling of {self.max_tokens} tokens at temperature {self.temperature:g}: at least 1 token and a "
                "temperature of 0 or more are needed"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Rollouts:
    """Responses to B prompts, n each: row i·n + j is response j to prompt i. Padding is on the right."""

    prompts: Sequence[Sequence[int]]  # B lists of token ids
    per_prompt: int  # n
    tokens: "Tensor"  # (B·n, T) int64 on the CPU; the end token is part of a response
    mask: "Tensor"  # (B·n, T) bool: True where there is a token
    logprobs: "Tensor"  # (B·n, T) float32: the sampler's, at the sampling temperature; 0 at padding
    versions: "Tensor"  # (B·n, T) int32: version of the weights that wrote each token; −1 at padding
    truncated: "Tensor"  # (B·n,) bool: cut at the longest length without an end token

    @property
    def count(self) -> int:
        """Number of responses."""
        return len(self.prompts) * self.per_prompt


def require_sound(prompts: Sequence[Sequence[int]], per_prompt: int, max_tokens: int, longest: int | None) -> None:
    """Refuse a request that cannot be decoded, with the numbers."""
    if per_prompt < 1:
        raise InputError(f"{per_prompt} responses to each prompt were asked for: at least 1 is needed")
    for number, prompt in enumerate(prompts):
        if not len(prompt):
            raise InputError(f"prompt {number} is empty: at least one token is needed, such as the beginning of text")
        if longest is not None and len(prompt) + max_tokens > longest:
            raise InputError(
                f"prompt {number} of {len(prompt)} tokens and a response of up to {max_tokens} need "
                f"{len(prompt) + max_tokens} positions, and the engine has {longest}: shorten the prompt or allow at "
                f"most {max(0, longest - len(prompt))} response tokens"
            )
