"""What `status` and the end of a sweep have in common: the document of a sweep, and what failed in it."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from planner.store import Store
from planner.store.sweeps import sweep_named
from rlplan.reading.approximating import approximated
from rlplan.reading.finals import FinalStanding, final_data, final_standing
from rlplan.reading.storage_taken import Taken, taken_by
from rlplan.reading.sweep_data import sweep_data
from rlplan.reading.sweep_picture import Picture
from rlplan.reading.sweep_words import last_line
from rlplan.wording.console import Part
from rlplan.wording.numbers import some_of
from rlplan.wording.terminal import Canvas

NAMED_FAILURES = 3  # trials of a class that are named


def final_of_sweep(store: Store, sweep: str) -> FinalStanding | None:
    """Return how a sweep's final run stands; None where none was launched."""
    with store.read() as session:
        return final_standing(session, sweep_named(session, sweep))


def sweep_document(seen: Picture, final: FinalStanding | None) -> dict[str, Any]:
    """Return the document that `status` and the end of `sweep` print."""
    space = taken(seen)
    stored, ended = None if space is None else asdict(space), None if final is None else final_data(final)
    return sweep_data(seen) | {"approximated": approximated(seen.config), "storage": stored, "final": ended}


def taken(seen: Picture) -> Taken | None:
    """Return what the sweep's folder takes; None where that is not known."""
    return taken_by(str(seen.config.get("folder", "")))


def failure_lines(seen: Picture, canvas: Canvas) -> Iterator[Part]:
    """Name what failed, by class, with the last line of one log each."""
    for kind, trials in seen.failures.items():
        names = some_of([trial.name for trial in trials], NAMED_FAILURES)
        log = last_line(trials[0].failure_tail or "")
        yield from canvas.lines(f"Failed, {kind}: {names}{f' ({log})' if log else ''}", "red")
