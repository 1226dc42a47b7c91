"""Requests split into waves: the rows that are decoded at the same time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.ports.rollouts import Rollouts

if TYPE_CHECKING:
    from torch import Tensor

Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Wave:
    """Some rows of a request, and the distinct prompts that they begin with."""

    rows: list[int]  # rising
    prompts: list[tuple[int, ...]]  # distinct
    source: list[int]  # for each row, which of `prompts`

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return max(map(len, self.prompts))

    def padded(self, pad_id: int) -> tuple["Tensor", "Tensor"]:
        """Return the prompts padded on the left, and a mask that is True where there is a token."""
        import torch

        width = self.longest
        tokens = torch.tensor([[pad_id] * (width - len(prompt)) + list(prompt) for prompt in self.prompts])
        lengths = torch.tensor([len(prompt) for prompt in self.prompts])
        return tokens, torch.arange(width) >= (width - lengths).unsqueeze(1)


@dataclass(frozen=True, slots=True)
class Written:
    """What a wave wrote at each step; after a row's end token follows anything."""

    rows: list[int]
    tokens: "Tensor"  # (rows, steps)
    forced: "Tensor"
    logprobs: "Tensor"


def waves(prompts: Prompts, per_prompt: int, max_rows: int) -> Iterator[Wave]:
    """Split a request into waves of at most `max_rows`, the longest prompts first: memory runs out at once or never."""
    order = sorted(range(len(prompts)), key=lambda number: -len(prompts[number]))
    rows = [number * per_prompt + sample for number in order for sample in range(per_prompt)]
    for begin in range(0, len(rows), max_rows):
        chosen = sorted(rows[begin : begin + max_rows])
        known: dict[tuple[int, ...], int] = {}
        source = [known.setdefault(tuple(prompts[row // per_prompt]), len(known)) for row in chosen]
        yield Wave(chosen, list(known), source)


def gathered(prompts: Prompts, per_prompt: int, written: Sequence[Written], end_id: int, pad_id: int) -> Rollouts:
    """Put the waves' rows in the request's order, and blank what follows an end token."""
    import torch

    count, steps = len(prompts) * per_prompt, max((wave.tokens.shape[1] for wave in written), default=0)
    tokens = torch.full((count, steps), pad_id)
    mask = torch.zeros((count, steps), dtype=torch.bool)
    forced = torch.zeros((count, steps), dtype=torch.bool)
    logprobs = torch.zeros((count, steps))
    truncated = torch.zeros(count, dtype=torch.bool)
    for wave in written:
        rows, length = torch.tensor(wave.rows), wave.tokens.shape[1]
        ended = wave.tokens == end_id
        present = ended.cumsum(dim=1) - ended.long() == 0
        mask[rows, :length] = present
        tokens[rows, :length] = wave.tokens.where(present, pad_id)
        forced[rows, :length] = wave.forced & present
        logprobs[rows, :length] = wave.logprobs.where(present, 0.0)
        truncated[rows] = ~ended.any(dim=1)
    longest = int(mask.sum(dim=1).max()) if count else 0
    tokens, mask, forced, logprobs = (table[:, :longest] for table in (tokens, mask, forced, logprobs))
    return Rollouts(prompts, per_prompt, tokens, mask, forced, logprobs, truncated)
