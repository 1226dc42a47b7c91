"""A page of the list of sweeps."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from rlplan.reading.sweeps import ListedSweep, listed_sweeps

MOST = 50  # on one page


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of the list, the newest first."""

    sweeps: tuple[ListedSweep, ...]
    older_than: int | None  # id from which the next page goes on; None when this is the last

    @property
    def featured(self) -> str | None:
        """The sweep that the first page shows: the newest that is under way, or else the newest."""
        going = (each.sweep for each in self.sweeps if each.state in ("running", "paused"))
        return next(going, self.sweeps[0].sweep if self.sweeps else None)


def listing(session: Session, before: int | None = None, *, now: datetime | None = None) -> Listing:
    """Read a page of the list: the newest sweeps, or those before an id."""
    found = listed_sweeps(session, now or datetime.now(UTC), before=before, most=MOST + 1)
    shown = tuple(found[:MOST])
    return Listing(shown, shown[-1].id if len(found) > MOST else None)
