"""One sweep that is looked at: read again when its rows have changed and not otherwise, and drawn once for all."""

import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from budgets.errors import RlplanError
from planner.store.curves import Memory
from planner.store.sweeps import sweep_named
from rlplan.reading.marking import mark
from rlplan.reading.story import Beliefs, Story, story
from rlplan.web.dashboard.source import Source
from rlplan.web.page import SECTIONS
from rlplan.wording.documents import plain

NOW = "now"  # the section that says how the sweep stands at this moment; only a live page has it
ALL = (NOW, *SECTIONS)
FRONT = "front"  # what the first page shows of a sweep
# Of a large sweep these come when the reader gets to them, so that the page itself is there at once.
LARGE = ("curves", "frontier", "budget", "decisions")

# Some of what is shown changes without a row, such as how long the driver has been silent.
OLDEST_SECONDS = 10.0

# A fit of a large sweep takes seconds: it is not to take more than a fifth of a core away from what shows it.
SHORTEST_PAUSE_SECONDS = 5.0
PAUSE_PER_SECOND_OF_WORK = 4.0

FEW_ROWS = 3000  # that are drawn at once, whoever looks


@dataclass(frozen=True, slots=True)
class Fitted:
    """What was believed of a sweep at a moment, or why that could not be worked out."""

    mark: str  # of the rows it rests on
    beliefs: Beliefs | None
    at: datetime
    problem: str | None = None


Render = Callable[[str, Story, Fitted | None], str]


@dataclass(frozen=True, slots=True)
class Part:
    """One section as HTML; the version is another whenever the HTML is."""

    html: str
    version: str


@dataclass(frozen=True)
class Snapshot:
    """What is shown of a sweep until its rows change.

    The large parts of a large sweep are drawn when somebody asks for them, once for all.
    """

    mark: str
    story: Story
    fitted: Fitted | None
    parts: dict[str, Part]
    draw: Callable[[str], Part]
    is_large: bool = False
    made_at: float = field(default_factory=time.monotonic)
    _drawing: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _made: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def beliefs(self) -> Beliefs | None:
        """What is believed of it, as far as that is fitted."""
        return self.fitted.beliefs if self.fitted else None

    def part(self, name: str) -> Part:
        """Return a part; a large one that nobody has asked for has to be drawn first."""
        if name not in self.parts:
            with self._drawing:
                if name not in self.parts:
                    self.parts[name] = self.draw(name)
        return self.parts[name]

    def kept(self, name: str, write: Callable[[], str]) -> bytes:
        """Return what is the same for all who look; it waits for no lock, and may at worst be written twice."""
        if name not in self._made:
            self._made[name] = write().encode()
        return self._made[name]

    def data(self) -> str:
        """Return what `rlplan status` has of it as JSON."""
        return json.dumps(plain(self.story.picture), allow_nan=False, separators=(",", ":"))

    def message(self) -> str:
        """Return what those who look on are told: which sections there are in which version.

        A large part that nobody has asked for is as new as the rows are.
        """
        late = dict.fromkeys(LARGE, self.mark)
        return json.dumps(
            {
                "versions": late | {name: part.version for name, part in list(self.parts.items())},
                "read_at": self.story.read_at.astimezone(UTC).isoformat(timespec="seconds"),
            }
        )


def part_of(html: str) -> Part:
    """Make a part of a section's HTML."""
    return Part(html, hashlib.sha256(html.encode("utf-8", "replace")).hexdigest()[:16])


def trouble_message(text: str) -> str:
    """Return what those who look on are told while the sweep cannot be read."""
    return json.dumps({"trouble": text})  # without the time, or the same trouble would be news twice a second


class SweepReader:
    """The newest snapshot of a sweep."""

    def __init__(self, sweep: str, source: Source, believe: Callable[[str], Beliefs], render: Render) -> None:
        self.sweep = sweep
        self._source, self._believe, self._render = source, believe, render
        self._mark: str | None = None
        self._fitted: Fitted | None = None
        self._fit_after = 0.0
        self._memory: Memory = {}
        self._generation = 0
        self._lock = threading.Lock()
        self.snapshot: Snapshot | None = None

    def look(self) -> bool:
        """Read the sweep anew if there is anything new, and say whether there was."""
        with self._lock, self._source.store() as store:
            generation = self._source.generation
            if generation != self._generation:
                self._memory, self._generation = {}, generation
            with store.read() as session:
                key = f"{generation}:{mark(session, sweep_named(session, self.sweep).id)}"
            self._mark, fitted = key, self._fitted
            if not self._is_stale(key, fitted):
                return False
            self._take(key, story(store, self.sweep, memory=self._memory), fitted)
            return True

    @property
    def fit_is_due(self) -> bool:
        """Whether there are rows that nothing was concluded from yet, and enough time has passed since the last fit."""
        is_new = self._mark is not None and (self._fitted is None or self._fitted.mark != self._mark)
        return is_new and time.monotonic() >= self._fit_after

    def fit(self) -> None:
        """Work out what is believed on the newest rows; what was believed before stays where that fails."""
        assert self._mark is not None
        mark, began = self._mark, time.monotonic()
        beliefs, problem = self._fitted.beliefs if self._fitted else None, None
        try:
            beliefs = self._believe(self.sweep)
        except RlplanError as error:
            problem = str(error)
        except Exception as error:  # whatever a damaged row makes of a fit: the page is to say so
            problem = f"what is stored could not be fitted ({type(error).__name__})"
        self._fitted = Fitted(mark, beliefs, datetime.now(UTC), problem)
        now = time.monotonic()
        self._fit_after = now + max(SHORTEST_PAUSE_SECONDS, (now - began) * PAUSE_PER_SECOND_OF_WORK)

    def _take(self, key: str, newest: Story, fitted: Fitted | None) -> None:
        def draw(name: str) -> Part:
            return part_of(self._render(name, newest, fitted))

        large = is_large(newest)
        parts = {name: draw(name) for name in (FRONT, *ALL) if not (large and name in LARGE)}
        self.snapshot = Snapshot(key, newest, fitted, parts, draw, is_large=large)

    def _is_stale(self, key: str, fitted: Fitted | None) -> bool:
        shown = self.snapshot
        if shown is None or shown.mark != key or shown.fitted is not fitted:
            return True
        return not shown.story.picture.at_rest and time.monotonic() - shown.made_at > OLDEST_SECONDS


def is_large(story: Story) -> bool:
    """Whether to draw all of it takes so long that each part waits until somebody looks at it."""
    points = sum(len(trial.scores) for trial in story.picture.trials)
    return points + len(story.segments) + len(story.decisions) > FEW_ROWS
