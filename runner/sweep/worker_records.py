"""The file in which each worker records how long it has lived, by which it is charged when no more is heard of it."""

import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from pydantic import TypeAdapter

from budgets.hardware import SECONDS_PER_HOUR

FOLDER = "workers"
SECONDS_BETWEEN_BEATS = 1.0
# After so long a worker that has not said its last word has ended: its host may be cut off from Ray alone, and it then
# writes on until it ends itself. Storage that is shared shows what was written a few seconds late.
SECONDS_OF_SILENCE = 15.0
CLOCK_MARGIN_SECONDS = 60.0  # by which two machines may measure the life of a worker differently


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """How long a worker has lived, by its own clock, and which segment it had when it last wrote."""

    worker: str
    seconds: float
    slots: int
    segment: int | None
    over: bool = False  # it wrote this as its last word
    host: str = ""
    pid: int = 0

    @property
    def gpu_hours(self) -> float:
        """What its whole life counts for."""
        return self.seconds * self.slots / SECONDS_PER_HOUR


_RECORD = TypeAdapter(WorkerRecord)


def worker_records(sweep_folder: Path) -> dict[str, WorkerRecord]:
    """Return the records of all workers that a sweep ever had; a file that cannot be read tells nothing."""
    records = (_record(path) for path in (sweep_folder / FOLDER).glob("*.json"))
    return {record.worker: record for record in records if record is not None}


def record_of(sweep_folder: Path, worker: str) -> WorkerRecord | None:
    """Return the record of one worker, None when it cannot be read."""
    return _record(sweep_folder / FOLDER / f"{worker}.json")


def _record(path: Path) -> WorkerRecord | None:
    with suppress(OSError, ValueError):
        return _RECORD.validate_json(path.read_bytes())
    return None


def refused(worker: str, said_gpu_hours: float, most_gpu_hours: float) -> str:
    """Say why a worker is not charged by its own word."""
    return (
        f"worker {worker} says that it lived {said_gpu_hours:.4g} GPU-hours, and it was asked for {most_gpu_hours:.4g} "
        "ago: a clock is wrong there, and its word is not charged"
    )


class FormerWorkers:
    """Those of segments that were given up: one that is cut off may still write in its trial's folder."""

    def __init__(self, sweep_folder: Path, seconds: Callable[[], float]) -> None:
        """Measure silence by a clock that never jumps."""
        self._folder, self._seconds = sweep_folder, seconds
        self._heard: dict[str, tuple[float, float]] = {}  # how long a worker had lived, and when that was first read

    def have_ended(self, segments: Collection[int]) -> bool:
        """Whether no worker of these segments writes any more: its record says so, or has not grown for a while."""
        now, ended = self._seconds(), True
        for record in worker_records(self._folder).values() if segments else ():
            if record.segment not in segments or record.over:
                continue
            if record.host == socket.gethostname() and not psutil.pid_exists(record.pid):
                continue
            lived, heard_at = self._heard.get(record.worker, (-1.0, now))
            if record.seconds > lived:
                lived, heard_at = self._heard[record.worker] = record.seconds, now
            ended &= now - heard_at > SECONDS_OF_SILENCE
        return ended


def process_seconds() -> float:
    """Return the seconds since this process was started, by the kernel's clock where it tells.

    It tells in two ways, and the shorter life counts: a container may have an uptime of its own, a program a clock.
    """
    if sys.platform == "linux":
        fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22 of proc(5), the first two lie before the ")"
        uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        ages = (time.clock_gettime(time.CLOCK_BOOTTIME) - started, uptime - started)
        return min((age for age in ages if age >= 0), default=0.0)
    return max(0.0, time.time() - float(psutil.Process().create_time()))


class WorkerLife:
    """A name that no other process has, and a clock that started with the process and never jumps."""

    def __init__(self) -> None:
        self.host = socket.gethostname()
        self.name = f"{self.host}-{os.getpid()}-{secrets.token_hex(3)}"
        self._born = time.monotonic() - process_seconds()

    def seconds(self) -> float:
        """Return how long the process has lived."""
        return time.monotonic() - self._born


class Heartbeat:
    """Writes a worker's record every second from a thread of its own, so that no second of its life is lost."""

    def __init__(self, life: WorkerLife, sweep_folder: Path) -> None:
        """Write the first one."""
        self._life = life
        self._path = sweep_folder / FOLDER / f"{life.name}.json"
        self._lock = threading.Lock()
        self._slots = 1
        self._segment: int | None = None
        self._ended = threading.Event()
        self._beat()
        threading.Thread(target=self._go_on, name="heartbeat", daemon=True).start()

    def holds(self, segment: int | None, slots: int) -> None:
        """Say which segment the worker has, and for how many slots its seconds count."""
        self._segment, self._slots = segment, slots
        self._beat()

    def end(self) -> None:
        """Write the last beat, which is the last word: who has read it may charge by it."""
        self._beat(over=True)

    def _go_on(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_BEATS):
            self._beat()

    def _beat(self, *, over: bool = False) -> None:
        values: dict[str, Any] = {
            "worker": self._life.name,
            "host": self._life.host,
            "pid": os.getpid(),
            "slots": self._slots,
            "segment": self._segment,
            "over": over,
            "at": datetime.now(UTC).isoformat(),
        }
        # A full disk or a storage that is away for a moment must not end the training.
        with self._lock, suppress(OSError):
            if self._ended.is_set():
                return
            if over:
                self._ended.set()
            values["seconds"] = self._life.seconds()
            self._path.parent.mkdir(exist_ok=True)  # not the sweep's folder, which may be away
            aside = self._path.with_suffix(".writing")
            aside.write_text(json.dumps(values), encoding="utf-8")
            aside.replace(self._path)
