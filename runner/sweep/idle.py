"""Workers that have nothing to do, and segments that have no worker: others may hold the cluster, or want it."""

import math

from runner.ports.executor import Executor
from runner.sweep.board import Board
from runner.sweep.journal import Journal

WAITING_SECONDS = 60.0  # for a worker, before it is noted


class Idleness:
    """Notes when nothing has run for a while, and ends workers for which nothing is found."""

    def __init__(self, board: Board, journal: Journal, executor: Executor, tick_seconds: float) -> None:
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
