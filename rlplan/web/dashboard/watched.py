"""One sweep that is looked at: reads it again when its rows have changed, and not otherwise."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from planner.store.sweeps import sweep_named
from rlplan.reading.marking import mark
from rlplan.reading.story import Story
from rlplan.reading.story_reading import story
from rlplan.reading.sweep_trials import Memory
from rlplan.web.dashboard.believer import Believer, Known
from rlplan.web.dashboard.drawing import Drawn, drawable, is_large
from rlplan.web.dashboard.pages import ALL, LARGE
from rlplan.web.dashboard.snapshot import Part, Snapshot, part_of
from rlplan.web.dashboard.source import Source

# Some of what is shown changes without a row, such as how long the driver has been silent.
OLDEST_SECONDS = 10.0
# A large part is kept up to date for so long after it was asked for; pages that show it ask whenever it changes.
ASKED_SECONDS = 60.0

Render = Callable[[str, Story, Known | None], str]


class Watched:
    """The newest snapshot of a sweep."""

    def __init__(self, sweep: str, source: Source, believer: Believer, render: Render) -> None:
        self.sweep = sweep
        self._source, self._believer, self._render = source, believer, render
        self._memory: Memory = {}
        self._drawn: Drawn = {}
        self._generation = 0
        self._asked: dict[str, float] = {}
        self._lock, self._drawing, self._taking = threading.Lock(), threading.Lock(), threading.Lock()
        self._touched = time.monotonic()
        self.snapshot: Snapshot | None = None

    def touch(self) -> None:
        """Note that somebody looks."""
        self._touched = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """How long nobody has looked."""
        return time.monotonic() - self._touched

    def look(self) -> bool:
        """Read the sweep anew if there is anything new, and say whether there was."""
        with self._lock, self._source.store() as store:
            generation = self._source.generation
            if generation != self._generation:
                self._memory, self._drawn, self._generation = {}, {}, generation
            with store.read() as session:
                key = f"{generation}:{mark(session, sweep_named(session, self.sweep).id)}"
            self._believer.ask(self.sweep, key)
            known = self._believer.known(self.sweep)
            if not self._is_stale(key, known):
                return False
            self._take(key, story(store, self.sweep, memory=self._memory), known)
            return True

    def has(self, name: str) -> bool:
        """Whether a part is there at once."""
        return self.snapshot is not None and name in self.snapshot.parts

    def part(self, name: str) -> Part:
        """Return a part; one of a large sweep that nobody has asked for lately has to be drawn first."""
        self._asked[name] = time.monotonic()
        assert self.snapshot is not None
        ready = self.snapshot.parts.get(name)
        if ready is not None:
            return ready
        with self._drawing:
            return self.snapshot.parts.get(name) or self._draw(name)

    def renew(self) -> bool:
        """Draw one part anew that was asked for lately and is of older rows, and say whether there was one."""
        with self._drawing:
            for name in LARGE:
                if self.snapshot is not None and name in self.snapshot.later and name in self.snapshot.parts:
                    self._draw(name)
                    return True
        return False

    def _draw(self, name: str) -> Part:
        assert self.snapshot is not None
        drawn_from = self.snapshot
        part = drawn_from.draw(name)
        with self._taking:
            later = self.snapshot.later - {name} if self.snapshot.mark == drawn_from.mark else self.snapshot.later
            self.snapshot = replace(self.snapshot, parts={**self.snapshot.parts, name: part}, later=later)
        return part

    def _take(self, key: str, told: Story, known: Known | None) -> None:
        shown = drawable(told, self._drawn)

        def draw(name: str) -> Part:
            return part_of(self._render(name, shown, known))

        later = frozenset(LARGE) if is_large(told) else frozenset()
        parts = {name: draw(name) for name in ALL if name not in later}
        with self._taking:
            before = self.snapshot.parts if self.snapshot else {}
            parts |= {name: before[name] for name in later & before.keys() if self._is_asked(name)}
            self.snapshot = Snapshot(key, told, known, parts, draw, later, is_large=bool(later))

    def _is_asked(self, name: str) -> bool:
        return time.monotonic() - self._asked.get(name, -ASKED_SECONDS) < ASKED_SECONDS

    def _is_stale(self, key: str, known: Known | None) -> bool:
        shown = self.snapshot
        if shown is None or shown.mark != key or shown.known is not known:
            return True
        return not shown.story.picture.at_rest and shown.age_seconds > OLDEST_SECONDS
