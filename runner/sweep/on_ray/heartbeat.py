"""How long this process has lived, and a file that says so while it does."""

import json
import os
import secrets
import socket
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SECONDS_BETWEEN_BEATS = 1.0


def process_seconds() -> float:
    """Return the seconds since this process was started, by the kernel's clock where it tells."""
    if sys.platform == "linux":
        fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22 of proc(5), the first two lie before the ")"
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    import psutil  # noqa: PLC0415

    return max(0.0, time.time() - float(psutil.Process().create_time()))


class Life:
    """A name that no other process has, and a clock that started with the process and never jumps."""

    def __init__(self) -> None:
        self.host = socket.gethostname()
        self.name = f"{self.host}-{os.getpid()}-{secrets.token_hex(3)}"
        self._born = time.monotonic() - process_seconds()

    def seconds(self) -> float:
        """Return how long the process has lived."""
        return time.monotonic() - self._born


class Heartbeat:
    """Writes a worker's file every second from a thread of its own, so that no second of its life is lost."""

    def __init__(self, life: Life, folder: Path) -> None:
        """The folder is that of all workers of the sweep."""
        self._life = life
        self._path = folder / f"{life.name}.json"
        self._lock = threading.Lock()
        self._slots = 1
        self._segment: int | None = None
        self._over = False
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        self._beat()
        threading.Thread(target=self._go_on, name="heartbeat", daemon=True).start()

    def holds(self, segment: int | None, slots: int) -> None:
        """Say which segment the worker has, and for how many slots its seconds count."""
        self._segment, self._slots = segment, slots
        self._beat()

    def end(self) -> None:
        """Write the last beat."""
        self._over = True
        self._beat()

    def _go_on(self) -> None:
        while not self._over:
            time.sleep(SECONDS_BETWEEN_BEATS)
            self._beat()

    def _beat(self) -> None:
        values: dict[str, Any] = {
            "worker": self._life.name,
            "host": self._life.host,
            "pid": os.getpid(),
            "slots": self._slots,
            "segment": self._segment,
            "over": self._over,
            "at": datetime.now(UTC).isoformat(),
        }
        # A full disk or a storage that is away for a moment must not end the training.
        with self._lock, suppress(OSError):
            values["seconds"] = self._life.seconds()
            aside = self._path.with_suffix(".writing")
            aside.write_text(json.dumps(values), encoding="utf-8")
            aside.replace(self._path)
