"""What a sweep's folder takes on its disk, and what is left there."""

import os
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

LONGEST = 3.0  # seconds: storage that does not answer must not hold up who asks how a sweep stands
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_CHECKPOINT = ("checkpoint", "global_step", "step_")  # how the names of trainers' checkpoints begin


@dataclass(frozen=True, slots=True)
class Taken:
    """Bytes."""

    folder: str
    checkpoints: int  # of them, in files or folders that are named as checkpoints are
    everything: int
    free: int

    def describe(self) -> str:
        """Return a sentence."""
        others = self.everything - self.checkpoints
        rest = f", {_size(others)} other files" if others else ""
        return f"{_size(self.checkpoints)} checkpoints{rest} in {self.folder}; {_size(self.free)} are free there"


def taken_by(folder: str, seconds: float = LONGEST) -> Taken | None:
    """Return what lies in a sweep's folder; None where it cannot be looked into from here, or takes too long."""
    found: list[Taken | None] = []
    thread = threading.Thread(target=lambda: found.append(_looked(Path(folder))), daemon=True)
    if folder:
        thread.start()
        thread.join(seconds)
    return found[0] if found else None


def _looked(folder: Path) -> Taken | None:
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return None
    checkpoints = everything = 0
    for above, _, names in os.walk(folder):
        below = Path(above).relative_to(folder).parts
        within = any(part.startswith(_CHECKPOINT) for part in below)
        for name in names:
            try:
                size = os.lstat(os.path.join(above, name)).st_size
            except OSError:  # it was removed meanwhile
                continue
            everything += size
            checkpoints += size if within or name.startswith(_CHECKPOINT) else 0
    return Taken(str(folder), checkpoints, everything, free)


def _size(amount: int) -> str:
    unit, name = next(((unit, name) for unit, name in _UNITS if amount >= unit), (1, "B"))
    return f"{amount / unit:,.3g} {name}"
