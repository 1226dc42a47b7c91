"""Batches that grow during a run: few prompts at first, more later, by what is done and never by what is to come.

A gradient's noise grows, against its size, as a run gets better, and with it the batch that is worth its rollouts
(McCandlish et al., arXiv 1812.06162); a batch may grow where one would otherwise lower the rate (Smith et al., arXiv
1711.00489). Here the batch follows the square root of the rollouts done, in doublings. Because it depends on nothing
else, one run still yields every shorter one.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from budgets.errors import InputError

NONE: Final = "none"
FIRST_UPDATES: Final = 32
_NAME: Final = re.compile(r"(?P<factor>\d+(?:\.\d+)?)x(?:@(?P<updates>\d+))?")


class Stage(NamedTuple):
    """A stretch of updates with the same batch; the last one has no end."""

    first_update: int
    prompts_per_batch: int


@dataclass(frozen=True, slots=True)
class Growth:
    """A batch from 1/`factor` of its final size B to B itself.

    It doubles after `first_updates` updates, and again whenever the rollouts done have quadrupled since. Counted are
    the rollouts that n and B ask for; what a recipe with refills generates beyond them does not hasten it.
    """

    factor: float
    first_updates: int = FIRST_UPDATES

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and self.factor > 1 and self.first_updates >= 1):
            raise InputError(
                f"growth by a factor of {self.factor:g} with the first doubling after {self.first_updates} updates: "
                "the factor must be above 1, and the updates at least 1"
            )

    @classmethod
    def named(cls, name: str) -> "Growth | None":
        """Return the growth of a name: `4x`, `4x@64` where the first doubling comes after 64 updates, or `none`."""
        if name == NONE:
            return None
        read = _NAME.fullmatch(name)
        if read is None:
            raise InputError(
                f"growth '{name}' cannot be read: give the last batch over the first, such as 4x, or none for a "
                f"constant batch; 4x@64 doubles first after 64 updates instead of {FIRST_UPDATES}"
            )
        return cls(float(read["factor"]), int(read["updates"] or FIRST_UPDATES))

    @property
    def name(self) -> str:
        """The name that `named` reads; two growths are the same when their names are."""
        return f"{self.factor:.12g}x" + ("" if self.first_updates == FIRST_UPDATES else f"@{self.first_updates}")

    def stages(self, prompts_per_batch: int) -> tuple[Stage, ...]:
        """Return the batches on the way to B, in order."""
        return _stages(self.factor, self.first_updates, prompts_per_batch)

    def prompts(self, prompts_per_batch: int, update: int) -> int:
        """Return the prompts of an update, counted from 0, where the batch grows to B."""
        if update < 0:
            raise InputError(f"update {update} is asked for: updates are counted from 0")
        return next(stage for stage in reversed(self.stages(prompts_per_batch)) if stage.first_update <= update)[1]

    def rollouts(self, rollouts_per_prompt: int, prompts_per_batch: int, updates: int) -> int:
        """Return the rollouts of the first updates together."""
        return rollouts_per_prompt * sum(size * count for size, count in self.spans(prompts_per_batch, updates))

    def learning_rate(self, rate: float, prompts_per_batch: int, update: int) -> float:
        """Return the rate of an update, given that of the full batch: it follows √(n·B), as it does between cells."""
        return rate * math.sqrt(self.prompts(prompts_per_batch, update) / prompts_per_batch)

    def spans(self, prompts_per_batch: int, updates: int) -> Iterator[tuple[int, int]]:
        """Yield each batch size that the first updates reach, with how many of them have it."""
        stages = self.stages(prompts_per_batch)
        ends = [*(stage.first_update for stage in stages[1:]), updates]
        for stage, end in zip(stages, ends, strict=True):
            if stage.first_update < updates:
                yield stage.prompts_per_batch, min(end, updates) - stage.first_update


@lru_cache(maxsize=1024)
def _stages(factor: float, first_updates: int, largest: int) -> tuple[Stage, ...]:
    if largest < 1:
        raise InputError(f"prompts per batch is {largest}: it must be at least 1")
    size = max(1, math.ceil(largest / factor))
    first, done, doubling_at = 0, 0, size * first_updates  # the latter two in prompts: n cancels
    stages = [Stage(first, size)]
    while size < largest:
        updates = -(-(doubling_at - done) // size)
        first, done, size = first + updates, done + updates * size, min(2 * size, largest)
        doubling_at *= 4
        stages.append(Stage(first, size))
    return tuple(stages)
