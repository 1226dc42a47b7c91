"""What holds a sweep up: what people ask of it, a folder that is away for a moment, and workers without a segment."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from budgets.errors import CheckpointError, NotFoundError, StoreUnavailableError
from planner.disk import AILING, DISK_IS_FULL, has_no_room
from planner.store import control
from planner.store.schema import RequestKind
from runner.ports.executor import OF_FOLDER, Clock, Event, Executor, Failed
from runner.sweep.intake import Intake
from runner.sweep.journal import Journal
from runner.sweep.state import SweepState

SECONDS_BETWEEN_LOOKS = 0.5

_MEANS = {
    RequestKind.PAUSE: "no new segment starts; those under way end, and workers without one are ended",
    RequestKind.RESUME: "goes on",
    RequestKind.STOP: "each trial ends the update under way and is saved",
}
MISSING_SECONDS = 60.0  # that the folder may be gone: an automount, or a file server that is replaced
WAITING_SECONDS = 60.0  # for a worker, before it is noted


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
            for request in control.waiting(session, self._journal.sweep_id):
                self.paused = request.kind is RequestKind.PAUSE
                self.stopping = request.kind is RequestKind.STOP
                self._journal.add(partial(control.take, taken=request, now=self._clock.now()))
                reason = f"on request of {request.by}: {_MEANS[request.kind]}"
                self._journal.note(str(request.kind), None, reason, request=request.id)


class FolderWatch:
    """Looks for the folder as events come in, and holds failures back while it is away."""

    def __init__(self, require: Callable[[], None], board: SweepState, intake: Intake, clock: Clock) -> None:
        """`require` raises NotFoundError when the folder is not there."""
        self._require, self._board, self._intake, self._clock = require, board, intake, clock
        self._missing_since: float | None = None
        self._held_back: list[Failed] = []

    @property
    def is_missing(self) -> bool:
        """Whether the folder was away at the last look."""
        return self._missing_since is not None

    def take(self, events: Sequence[Event]) -> None:
        """Have what happened taken in; NotFoundError once the folder is gone for longer than a mount may be."""
        events = [_passing(event) if isinstance(event, Failed) else event for event in events]
        failed = [event for event in events if isinstance(event, Failed)]
        others = [event for event in events if event not in failed]
        try:
            self._look()
            self._require_room(failed)
        except (NotFoundError, CheckpointError):
            self._take(others)
            raise
        if self.is_missing:
            self._held_back += failed
            self._take(others)
            return
        held_back, self._held_back = self._held_back, []
        self._take([replace(event, kind="lost") if event.kind in OF_FOLDER else event for event in held_back])
        self._take(events)

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            self._intake.take(event)

    def _look(self) -> None:
        try:
            self._require()
        except NotFoundError:
            now = self._clock.seconds()
            if self._missing_since is None:
                self._missing_since = now
            if now - self._missing_since >= MISSING_SECONDS:
                raise
        else:
            self._missing_since = None

    def _require_room(self, failed: Sequence[Failed]) -> None:
        """Raise CheckpointError when a trial finds the disk full twice in a row, or it is: all would fail alike."""
        for event in failed:
            segment = self._board.running.get(event.segment)
            if segment is None or DISK_IS_FULL not in event.message:
                continue
            facts = self._board.facts[segment.trial]
            if facts.failures or has_no_room(facts.folder):
                raise CheckpointError(f"{event.message}. The sweep was stopped; go on with `rlplan resume` then")


def _passing(event: Failed) -> Failed:
    """Return a failure as one that may pass where its words are of a storage that ails, which all trials share."""
    words = f"{event.message}\n{event.tail}"
    ails = event.kind in OF_FOLDER and any(word in words for word in AILING)
    return replace(event, kind="lost") if ails else event


class Idleness:
    """Notes when nothing has run for a while, and ends workers for which nothing is found."""

    def __init__(self, board: SweepState, journal: Journal, executor: Executor, tick_seconds: float) -> None:
        """Look once a tick."""
        self._board, self._journal, self._executor, self._tick = board, journal, executor, tick_seconds
        self._all_busy_at = self._running_at = executor.clock.seconds()
        self._released_beside: int | None = None  # so many segments under way, while paused

    def say_waiting(self, *, held: bool) -> None:
        """Note it once when nothing has run for a while though something is wanted, and nobody holds it back."""
        now, running, need = self._executor.clock.seconds(), self._board.running, self._board.spec.resources
        if held or any(segment.worker is not None for segment in running.values()):
            self._running_at = now
        if now - self._running_at < WAITING_SECONDS:
            return
        self._running_at = math.inf  # said once, until something has run
        waits = f"{len(running)} segments wait for a worker" if running else "no worker is free"
        self._journal.note(
            "waiting",
            None,
            f"nothing has run for {WAITING_SECONDS:g} s: {waits}. A worker needs {need.gpus:g} GPUs and "
            f"{need.cpus:g} CPUs; the sweep waits until there is room for one",
        )

    def release(self, *, paused: bool) -> None:
        """End workers for which nothing was found for as long as a new one would take to start; in a pause, at once."""
        now, running = self._executor.clock.seconds(), len(self._board.running)
        if not paused:
            self._released_beside = None
        elif running != self._released_beside:
            self._executor.release()
            self._released_beside = running
        if running >= self._executor.workers:
            self._all_busy_at = now
        elif now - self._all_busy_at > max(self._tick, self._board.patience_seconds):
            self._executor.release()
            self._all_busy_at = now
