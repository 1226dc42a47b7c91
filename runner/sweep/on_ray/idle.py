"""Notices the end of workers without a segment, of which Ray says nothing, by the file that each keeps."""

import json
import os
import socket
from collections.abc import Iterable
from pathlib import Path

from runner.sweep import lives
from runner.sweep.on_ray.leases import KnownWorker

_SECONDS_BETWEEN_LOOKS = 0.5
_SILENT_HERE = 3.0  # seconds without a sign of life after which a process that is not there has ended
_SILENT_ELSEWHERE = 60.0


class Idle:
    """Looks at the files of workers that have no lease."""

    def __init__(self, folder: Path) -> None:
        """The folder is the sweep's."""
        self._folder = folder / lives.FOLDER
        self._looked_at = 0.0

    def ended(self, workers: Iterable[KnownWorker], now: float) -> list[KnownWorker]:
        """Return those whose life is over, with the seconds that they last wrote."""
        if now - self._looked_at < _SECONDS_BETWEEN_LOOKS:
            return []
        self._looked_at = now
        return [worker for worker in workers if worker.lease is None and self._has_ended(worker, now)]

    def _has_ended(self, worker: KnownWorker, now: float) -> bool:
        try:
            values = json.loads((self._folder / f"{worker.name}.json").read_text(encoding="utf-8"))
            seconds, over = float(values["seconds"]), bool(values["over"])
        except (OSError, ValueError, KeyError):
            seconds, over = 0.0, False
        if seconds > worker.seconds:
            worker.seconds, worker.heard_at = seconds, now
        here = worker.host == socket.gethostname() and not _lives(worker.pid)
        silent = now - worker.heard_at
        return over or silent > (_SILENT_HERE if here else _SILENT_ELSEWHERE)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
