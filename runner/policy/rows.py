"""Responses as the trainer takes them: whole groups, or equal parts of them, cut into micro-batches by token count."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from runner.ports.task import Ids


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Responses to some prompts, equally many each: rows i·n … i·n + n − 1 answer prompt i."""

    prompts: Sequence["Ids"]
    per_prompt: int
    tokens: "Tensor"  # (rows, T) int64, padded on the right
    mask: "Tensor"  # (rows, T) bool


@dataclass(frozen=True, slots=True)
class Part:
    """One micro-batch of an update: which rows, of which prompts, cut to which length."""

    rows: "Tensor"  # int64 indices
    prompts: Sequence[int]
    per_prompt: int
    longest: int


def split(
    prompt_lengths: Sequence[int],
    per_prompt: int,
    lengths: Sequence[int],
    most_tokens: int,
    only: Sequence[int] | None = None,
) -> Iterator[Part]:
    """Yield micro-batches of at most `most_tokens` padded tokens, never less than one row; each row comes once.

    With `only`, the rows of those groups alone.
    Groups of similar length lie together, so that little is padding; a group that is too large is cut into equal
    parts. A prompt is counted once for its group, because its rows share its keys and values.
    """
    import torch  # noqa: PLC0415

    groups = range(len(prompt_lengths)) if only is None else only
    longest = {group: max(lengths[group * per_prompt : (group + 1) * per_prompt]) for group in groups}
    order = sorted(groups, key=lambda group: (longest[group], group))
    taken: list[int] = []

    def part(members: Sequence[int], first: int, count: int) -> Part:
        rows = [group * per_prompt + row for group in members for row in range(first, first + count)]
        return Part(torch.tensor(rows), list(members), count, max(1, *(lengths[row] for row in rows)))

    def padded(members: Sequence[int], rows: int) -> int:
        prompt = max(prompt_lengths[group] for group in members)
        return len(members) * (prompt + rows * max(longest[group] for group in members))

    for group in order:
        if taken and padded([*taken, group], per_prompt) > most_tokens:
            yield part(taken, 0, per_prompt)
            taken = []
        if padded([group], per_prompt) <= most_tokens:
            taken.append(group)
            continue
        size = max(1, (most_tokens - prompt_lengths[group]) // max(1, longest[group]))
        for first in range(0, per_prompt, size):
            yield part([group], first, min(size, per_prompt - first))
    if taken:
        yield part(taken, 0, per_prompt)
