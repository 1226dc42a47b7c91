"""`rlplan launch --print`: an allocation in the keys of a trainer, to be pasted, or as the file of a cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from planner.axes import format_axes
from rlplan.reading.starting import ByHand
from rlplan.wording.answers import Answer
from rlplan.wording.draw import Canvas, Invocation, Part, Unbroken
from rlplan.wording.frames import columns
from rlplan.wording.numbers import rate


@dataclass(frozen=True, repr=False)
class Line(Answer):
    """Arguments under a comment that says what they are; JSON has all of the row."""

    COLUMNS = columns("text trainer, text argument")

    found: ByHand

    @property
    def document(self) -> ByHand:
        """All of the row."""
        return self.found

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each argument."""
        return [{"trainer": self.found.trainer, "argument": each} for each in self.found.arguments]

    def parts(self, _: Invocation, __: Canvas) -> Iterator[Part]:
        """Return the lines as they are, however long: they are to be pasted."""
        found, row = self.found, self.found.row
        of = f", {format_axes(row.axes)}" if row.axes else ""
        yield Unbroken(
            [
                f"# {found.of}, row {row.rank}: n = {row.rollouts_per_prompt}, B = {row.prompts_per_batch}{of}",
                f"# {row.update_steps:,} steps at learning rate {rate(row.learning_rate)}, recipe {row.recipe}",
                *([f"# {found.note}"] if found.note else []),
                *(f"{each} \\" for each in found.arguments[:-1]),
                found.arguments[-1],
            ]
        )


@dataclass(frozen=True, repr=False)
class ClusterFile(Answer):
    """The file by which a cluster runs it."""

    COLUMNS = columns("text cluster, text file")

    cluster: str
    file: str

    def parts(self, _: Invocation, __: Canvas) -> Iterator[Part]:
        """Return the file as it is."""
        yield Unbroken(self.file.splitlines())
