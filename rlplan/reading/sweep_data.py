"""The document of a sweep: what `status` and the dashboard have of it beside its picture."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rlplan.reading.approximating import approximated
from rlplan.reading.finals import FinalStanding
from rlplan.reading.storage_taken import Taken, taken_by
from rlplan.reading.sweep_picture import Picture
from rlplan.wording.documents import Key, View


@dataclass(frozen=True)
class StatusData(View[Picture]):
    """How a sweep stands, with its final run and what its folder takes."""

    WHOLE = Picture
    run: FinalStanding | None = field(repr=False)

    approximated = Key[Sequence[str]](lambda each: approximated(each.of.config))
    storage = Key[Taken | None](lambda each: taken(each.of))
    final = Key[FinalStanding | None]("run")


def taken(picture: Picture) -> Taken | None:
    """Return what the sweep's folder takes; None where that is not known."""
    return taken_by(str(picture.config.get("folder", "")))
