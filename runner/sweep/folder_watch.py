"""A sweep's folder that is away for a moment: a trial that fails for want of it, or of room in it, has not failed."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from budgets.errors import CheckpointError, NotFoundError
from planner.disk import DISK_IS_FULL
from runner.ports.executor import OF_FOLDER, Clock, Event, Failed
from runner.sweep.board import Board
from runner.sweep.intake import Intake

MISSING_SECONDS = 60.0  # that the folder may be gone: an automount, or a file server that is replaced


class FolderWatch:
    """Looks for the folder as events come in, and holds failures back while it is away."""

    def __init__(self, require: Callable[[], None], board: Board, intake: Intake, clock: Clock) -> None:
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
        """Raise CheckpointError when a trial has found the disk full twice in a row: nothing else would fare better."""
        for event in failed:
            segment = self._board.running.get(event.segment)
            if segment is None or DISK_IS_FULL not in event.message:
                continue
            if self._board.facts[segment.trial].failures:
                raise CheckpointError(
                    f"{event.message}. The sweep was stopped and its state is saved; go on with `rlplan resume` then"
                )
