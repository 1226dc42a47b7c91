"""Runs a sweep with its screen and its interrupts, whichever command began it."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from planner.store import Store, open_store
from planner.store.read_model import Memory
from planner.store.sweeps import sweep_named
from rlplan.actions.interrupts import Interrupts
from rlplan.live.sweep_display import Lines, Position, choose_display, news, position
from rlplan.reading.sweep_picture import Picture
from rlplan.reading.sweep_rows import read_picture
from rlplan.wording.command_lines import command
from rlplan.wording.screen import tell

if TYPE_CHECKING:
    from rlplan.actions.sweeping import Finished

Began = Callable[[str], None]
WATCH_SECONDS = 0.2


def stopped(sweep: str, database: str) -> str:
    """Say how to go on with a sweep that was stopped."""
    return f"{sweep} was stopped and its state is saved; go on with `{command('resume', sweep, database)}`"


def followed(drive: "Callable[..., Finished]", database: str) -> "Finished":
    """Drive a sweep while its screen follows it, and return how far it went.

    Until the sweep is stored an interrupt ends everything at once; from then on the first lets what runs be saved.
    """
    names: list[str] = []
    display = choose_display()
    try:
        with Interrupts() as interrupts, Follower(database, display) as follower:

            def began(sweep: str) -> None:
                names.append(sweep)
                interrupts.announce = display.stopping
                interrupts.patient = True
                follower.begin(sweep)

            return drive(interrupts=interrupts, began=began)
    except KeyboardInterrupt:
        if names:
            tell(stopped(names[-1], database))
        raise


def watch(database: str, sweep: str) -> None:
    """Follow a sweep that another process drives, until it rests or the user has seen enough."""
    try:
        with Follower(database, choose_display()) as follower:
            follower.begin(sweep)
            while not follower.at_rest.wait(WATCH_SECONDS):
                pass
    except KeyboardInterrupt:
        return


REFRESH_SECONDS = 0.5
MOST_SHARE = 0.05  # of its time that the thread spends on reading: the sweep itself needs the processor
LOCK_TIMEOUT_SECONDS = 2.0
LONGEST_END_SECONDS = 5.0


class Follower:
    """Shows a sweep from a thread of its own; nothing that goes wrong in it reaches the sweep."""

    def __init__(self, database: str, display: Lines) -> None:
        """Follow a sweep of this database once `begin` names it."""
        self._database = database
        self._display = display
        self._sweep = ""
        self._store: Store | None = None
        self._position: Position | None = None
        self._memory: Memory = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="sweep display", daemon=True)
        self.at_rest = threading.Event()  # nothing more will happen in the sweep

    def __enter__(self) -> Self:
        with suppress(Exception):  # a terminal that cannot be drawn on is no reason not to run
            self._display.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(LONGEST_END_SECONDS)
        if self._sweep and not self._thread.is_alive():
            self.look()
        if self._store is not None:
            self._store.close()
        with suppress(Exception):
            self._display.close()

    def begin(self, sweep: str) -> None:
        """Follow the sweep of that name from now on; its thread starts with the first call."""
        self._sweep = sweep
        self.look()
        self._thread.start()

    def look(self) -> None:
        """Read and show the picture once; when that fails, what was shown before stays."""
        try:
            picture, lines = self._read()
            if picture.at_rest:
                self.at_rest.set()
            self._display.show(picture, lines)
        except Exception as error:  # whatever it is: a screen must not end a sweep
            with suppress(Exception):
                self._display.trouble(str(error).partition("\n")[0])

    def _read(self) -> tuple[Picture, list[str]]:
        if self._store is None:
            self._store = open_store(self._database, read_only=True, lock_timeout_seconds=LOCK_TIMEOUT_SECONDS)
        with self._store.read() as session:
            sweep = sweep_named(session, self._sweep)
            picture = read_picture(session, sweep, datetime.now(UTC), self._memory)
            now = position(session, sweep.id)
            # What happened before the first look is no news.
            lines = news(session, sweep.id, picture, self._position) if self._position else []
            self._position = now
        return picture, lines

    def _follow(self) -> None:
        pause = REFRESH_SECONDS
        while not self._ended.wait(pause):
            before = time.monotonic()
            self.look()
            pause = max(REFRESH_SECONDS, (time.monotonic() - before) / MOST_SHARE)
