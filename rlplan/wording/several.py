"""An answer about several things, of which some may have failed, as Python's sequences are."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import ClassVar, TypeVar, overload

from budgets.errors import UnknownNameError
from rlplan.exits import ExitCode
from rlplan.wording.answers import Answer
from rlplan.wording.arguments import ArgumentLines

Member = TypeVar("Member")


@dataclass(frozen=True, repr=False)
class Several(Answer, Sequence[Member]):
    """The members, by place or by name; what could not be read is in `failures`."""

    MEMBERS: ClassVar[str]  # the path to them
    NAMED: ClassVar[str] = "name"  # what each is known by

    failed: tuple[str, ...] = field(default=(), kw_only=True, repr=False)
    drawn: tuple[str, ...] = field(default=(), kw_only=True, repr=False)  # what was drawn, in a sentence

    failures = ArgumentLines("failed", "A line for each file or curve that could not be read.")

    @property
    def code(self) -> ExitCode:
        """That of bad input where something failed."""
        return ExitCode.BAD_INPUT if self.failed else ExitCode.DONE

    @property
    def stderr(self) -> Sequence[str]:
        """What failed, and where it was drawn."""
        return [*(f"rlplan: {each}" for each in self.failed), *self.drawn]

    @property
    def _members(self) -> Sequence[Member]:
        members: Sequence[Member] = attrgetter(self.MEMBERS)(self)
        return members

    def __len__(self) -> int:
        return len(self._members)

    @overload
    def __getitem__(self, which: int | str) -> Member: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[Member]: ...
    def __getitem__(self, which: int | str | slice) -> Member | Sequence[Member]:
        if not isinstance(which, str):
            return self._members[which]
        by_name: dict[str, Member] = {str(getattr(each, self.NAMED)): each for each in self}
        if which not in by_name:
            raise UnknownNameError(self.NAMED, which, by_name)
        return by_name[which]
