"""What `status` and the end of a sweep have in common: its final run, and what failed in it."""

from collections.abc import Iterator

from planner.store import Store
from planner.store.sweeps import sweep_named
from rlplan.reading.finals import FinalStanding, final_standing
from rlplan.reading.sweep_picture import Picture
from rlplan.reading.sweep_words import last_line
from rlplan.wording.draw import Canvas, Part
from rlplan.wording.numbers import some_of

NAMED_FAILURES = 3  # trials of a class that are named


def final_of_sweep(store: Store, sweep: str) -> FinalStanding | None:
    """Return how a sweep's final run stands; None where none was launched."""
    with store.read() as session:
        return final_standing(session, sweep_named(session, sweep))


def failure_lines(picture: Picture, canvas: Canvas) -> Iterator[Part]:
    """Name what failed, by class, with the last line of one log each."""
    for kind, trials in picture.failures.items():
        names = some_of([trial.name for trial in trials], NAMED_FAILURES)
        log = last_line(trials[0].failure_tail or "")
        yield from canvas.lines(f"Failed, {kind}: {names}{f' ({log})' if log else ''}", "red")
