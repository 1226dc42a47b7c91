"""What a sweep has learnt from: its sources as they were frozen, and what each weighed when it ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from planner.store.schema import Decision
from runner.sweep.spec import LEARNT

ABOUT_KEYS: Final = ("task", "model")  # of what a source was, as far as it is known


@dataclass(frozen=True, slots=True)
class LearntFrom:
    """The sources, each with what it was; their weights beside that of none once the sweep has ended."""

    sources: Mapping[str, Mapping[str, str]]
    weights: Mapping[str, float] | None
    weighed: str | None  # the same in words

    def describe(self) -> str:
        """Return it in a sentence."""
        named = ", ".join(f"{name}{_known(about)}" for name, about in self.sources.items())
        return f"learnt from {named}; {self.weighed or 'the weight of each comes when the sweep has ended'}"


def learnt_from_of(session: Session, sweep_id: int, config: Mapping[str, Any]) -> LearntFrom | None:
    """Return what a sweep has learnt from; None where that is nothing."""
    learnt: Mapping[str, Any] | None = config.get("learnt")
    if not learnt:
        return None
    wanted = (
        select(Decision.seen, Decision.reason)
        .where(Decision.sweep_id == sweep_id, Decision.action == LEARNT)
        .order_by(Decision.number.desc())
        .limit(1)
    )
    row = session.execute(wanted).first()
    sources: Sequence[Mapping[str, Any]] = learnt["sources"]
    return LearntFrom(
        sources={each["name"]: dict(each.get("about", {})) for each in sources},
        weights=None if row is None else dict(row.seen["weights"]),
        weighed=None if row is None else row.reason,
    )


def _known(about: Mapping[str, str]) -> str:
    known = [f"{name} {about[name]}" for name in ABOUT_KEYS if name in about]
    return f" ({', '.join(known)})" if known else ""
