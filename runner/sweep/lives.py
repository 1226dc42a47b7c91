"""What workers wrote of their own lives, so that a driver that was killed can later charge what they used."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = "workers"


@dataclass(frozen=True, slots=True)
class Life:
    """How long a worker has lived, by its own clock, and which segment it had when it last wrote."""

    worker: str
    seconds: float
    slots: int
    segment: int | None

    @property
    def gpu_hours(self) -> float:
        """What its whole life counts for."""
        return self.seconds * self.slots / 3600


def lives(sweep_folder: Path) -> dict[str, Life]:
    """Return the lives of all workers that a sweep ever had; a file that cannot be read tells nothing."""
    found = {}
    for path in (sweep_folder / FOLDER).glob("*.json"):
        life = _life(path)
        if life is not None:
            found[life.worker] = life
    return found


def _life(path: Path) -> Life | None:
    try:
        values: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        segment = values["segment"]
        return Life(
            str(values["worker"]),
            float(values["seconds"]),
            int(values["slots"]),
            None if segment is None else int(segment),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
