"""Heeds what people ask of a running sweep: each request is taken in the transaction that logs it."""

from contextlib import suppress
from functools import partial

from budgets.errors import StoreUnavailableError
from planner.store import driving
from planner.store.schema import RequestKind
from runner.sweep.journal import Journal

SECONDS_BETWEEN_LOOKS = 0.5

_MEANS = {
    RequestKind.PAUSE: "no new segment starts; those under way end, and workers without one are ended",
    RequestKind.RESUME: "goes on",
    RequestKind.STOP: "each trial ends the update under way and is saved",
}


class Requests:
    """What a driver was asked for, of the sweep whose lease it holds."""

    def __init__(self, journal: Journal) -> None:
        """Begin without a pause: whatever a former driver was asked for ended with it."""
        self._journal, self._clock = journal, journal.clock
        self._looked_at = -SECONDS_BETWEEN_LOOKS
        self.paused = False
        self.stopping = False

    def poll(self) -> None:
        """Take what is new; the journal stores it with what follows, at the latest when the sweep is let go."""
        now = self._clock.seconds()
        if self.stopping or now - self._looked_at < SECONDS_BETWEEN_LOOKS:
            return
        self._looked_at = now
        with suppress(StoreUnavailableError), self._journal.store.read() as session:  # the next look may find it back
            for request in driving.waiting(session, self._journal.sweep_id):
                self.paused = request.kind is RequestKind.PAUSE
                self.stopping = request.kind is RequestKind.STOP
                self._journal.add(partial(driving.take, taken=request, now=self._clock.now()))
                reason = f"on request of {request.by}: {_MEANS[request.kind]}"
                self._journal.note(str(request.kind), None, reason, request=request.id)
