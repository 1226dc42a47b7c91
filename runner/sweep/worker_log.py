"""What a trial prints: a worker keeps it beside the trial's checkpoints."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

LOG = "worker.log"
TAIL_CHARACTERS = 2000


class TrialLog:
    """What Python code prints and warns while a trial runs goes into the trial's folder.

    The streams outlive a trial, because loggers keep the one that they found when they were made.
    """

    def __init__(self) -> None:
        self._stream = _Redirected()
        self._path: Path | None = None

    @contextmanager
    def of(self, folder: Path) -> Iterator[None]:
        """Send stdout and stderr of this process to a trial's log."""
        self._path = folder / LOG
        before = sys.stdout, sys.stderr
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            self._stream.target = self._path.open("a", encoding="utf-8", errors="replace", buffering=1)
        sys.stdout = sys.stderr = self._stream
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
            target, self._stream.target = self._stream.target, None
            if target is not None:
                with suppress(OSError):
                    target.close()

    def tail(self) -> str:
        """Return the end of the newest trial's log."""
        if self._path is None:
            return ""
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4 * TAIL_CHARACTERS))  # a character is 4 bytes at most
            return file.read().decode("utf-8", errors="replace")[-TAIL_CHARACTERS:]
        return ""


class _Redirected(io.TextIOBase):
    """A stream whose target comes and goes."""

    def __init__(self) -> None:
        self.target: TextIO | None = None

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # a log that cannot be written must not end a trial
            (self.target or sys.__stderr__ or io.StringIO()).write(text)
        return len(text)
