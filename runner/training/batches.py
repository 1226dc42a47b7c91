"""What an update trains on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.policy.scoring import MicroBatch, Rows, split
from runner.ports.task import Ids

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True, eq=False)
class Batch:
    """The rollouts of one update; everything in it can be saved, because a batch may wait for its update."""

    prompts: list[Ids]  # of the groups that are trained on
    per_prompt: int
    tokens: "Tensor"  # (rows, T) int64
    mask: "Tensor"  # (rows, T) bool: tokens that were written
    loss_mask: "Tensor"  # (rows, T) bool: tokens that are trained on, a closing phrase not among them
    sampler: "Tensor"  # (rows, T) the sampler's log-probabilities
    versions: "Tensor"  # (rows, T) int32
    advantages: "Tensor"  # (rows,)
    generated: int  # rollouts generated for this update, filtered ones included
    generated_tokens: int
    measured: dict[str, float]  # metrics of the rollouts, before any filter
    notes: list[str]  # what went wrong with rewards, in words
    old: "Tensor | None" = None  # the trainer's log-probabilities when the batch was new
    reference: "Tensor | None" = None  # the base model's

    @property
    def rows(self) -> int:
        """Rollouts that are trained on."""
        return int(self.tokens.shape[0])

    def parts(self, most_tokens: int, only: Sequence[int] | None = None) -> Iterator[MicroBatch]:
        """Yield micro-batches of at most so many tokens, of all groups or of some alone."""
        lengths: list[int] = self.mask.sum(dim=1).tolist()
        return split([len(prompt) for prompt in self.prompts], self.per_prompt, lengths, most_tokens, only)

    def part(self, part: MicroBatch) -> Rows:
        """Return some of the rows for the scorer."""
        prompts = [self.prompts[index] for index in part.prompts]
        tokens, mask = (table[part.rows, : part.longest] for table in (self.tokens, self.mask))
        return Rows(prompts, part.per_prompt, tokens, mask)

    def state(self) -> dict[str, Any]:
        """Return the batch as tensors and plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


Prepare = Callable[[Sequence[Batch]], None]  # is called once on each batch while it is new
