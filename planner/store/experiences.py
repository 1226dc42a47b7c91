"""What finished sweeps have left behind for later ones: a table, and how it is written and read."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from planner.store.base import Base, PrimaryKey, child_of
from planner.store.schema import Sweep, SweepStatus


class StoredExperience(Base):
    """The fit of a sweep's curves alone, as plain data; a sweep that ends a second time has a new one."""

    __tablename__ = "experiences"

    id: Mapped[PrimaryKey]
    sweep_id: Mapped[int] = mapped_column(child_of("sweeps"), unique=True)
    made_at: Mapped[datetime]
    configurations: Mapped[int]
    curves: Mapped[int]
    content: Mapped[dict[str, Any]]


def save_experience(session: Session, sweep: str, content: Mapping[str, Any], at: datetime) -> None:
    """Store what a sweep leaves behind, in place of what it left when it ended before."""
    sweep_id = session.scalars(select(Sweep.id).where(Sweep.name == sweep)).one()
    session.execute(delete(StoredExperience).where(StoredExperience.sweep_id == sweep_id))
    counts = {name: int(content[name]) for name in ("configurations", "curves")}
    session.add(StoredExperience(sweep_id=sweep_id, made_at=at, content=dict(content), **counts))


def stored_experiences(session: Session) -> dict[str, dict[str, Any]]:
    """Return what the finished sweeps of a database have left behind, by name, the newest first."""
    wanted = (
        select(Sweep.name, StoredExperience.content)
        .join(Sweep, Sweep.id == StoredExperience.sweep_id)
        .where(Sweep.status == SweepStatus.FINISHED)
        .order_by(Sweep.id.desc())
    )
    return {row.name: row.content for row in session.execute(wanted)}
