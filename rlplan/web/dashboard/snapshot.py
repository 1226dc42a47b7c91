"""A sweep at one moment, rendered once for all who look."""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC

from rlplan.reading.story import Beliefs, Story
from rlplan.reading.story_data import story_data
from rlplan.web.dashboard.believer import Known


@dataclass(frozen=True, slots=True)
class Part:
    """One section as HTML; the version is another whenever the HTML is."""

    html: str
    version: str


@dataclass(frozen=True)
class Snapshot:
    """What is shown of a sweep until its rows change.

    The parts of a large sweep come `later`: they are drawn when somebody asks for them, once for all. Until they are
    drawn anew, those of the snapshot before stand in for them.
    """

    mark: str
    story: Story
    known: Known | None
    parts: Mapping[str, Part]
    draw: Callable[[str], Part]
    later: frozenset[str] = frozenset()  # not drawn yet from these rows
    is_large: bool = False
    made_at: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _made: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def age_seconds(self) -> float:
        """How long ago it was read."""
        return time.monotonic() - self.made_at

    @property
    def beliefs(self) -> Beliefs | None:
        """What is believed of it, as far as that is known."""
        return self.known.beliefs if self.known else None

    def data(self) -> bytes:
        """Return all of it as one JSON document, which is made when it is first asked for."""
        with self._lock:
            if "data" not in self._made:
                document = story_data(self.story, self.beliefs)
                self._made["data"] = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
            return self._made["data"]

    def page(self, write: Callable[[], str]) -> bytes:
        """Return the page, which is the same for all; it waits for no lock, and may at worst be written twice."""
        if "page" not in self._made:
            self._made["page"] = write().encode()
        return self._made["page"]

    def message(self) -> str:
        """Return what those who look on are told: which sections there are in which version."""
        return json.dumps(
            {
                "versions": {name: part.version for name, part in self.parts.items()},
                "read_at": self.story.read_at.astimezone(UTC).isoformat(timespec="seconds"),
            }
        )


def part_of(html: str) -> Part:
    """Make a part of a section's HTML."""
    return Part(html, _digest(html))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def trouble_message(text: str) -> str:
    """Return what those who look on are told while the sweep cannot be read."""
    return json.dumps({"trouble": text})  # without the time, or the same trouble would be news twice a second
