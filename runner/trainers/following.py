"""Files that grow while they are read, line by line."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from runner.trainers.driver import Reading


class Lines:
    """The lines that a file has gained since it was last looked at; it may not be there yet, or begin anew."""

    def __init__(self, path: Path, begin: int = 0) -> None:
        """Pass over the first `begin` bytes."""
        self._path = path
        self._read_bytes = begin
        self._half = b""

    def new(self) -> list[str]:
        """Return whole lines only: what is being written waits for its end."""
        with suppress(OSError), self._path.open("rb") as file:
            if self._path.stat().st_size < self._read_bytes:  # opened anew by the trainer
                self._read_bytes, self._half = 0, b""
            file.seek(self._read_bytes)
            added = file.read()
            self._read_bytes += len(added)
            *whole, self._half = (self._half + added).split(b"\n")
            return [line.decode("utf-8", errors="replace") for line in whole]
        return []


class LineSource:
    """Metrics in the lines of a file, by a function that knows what one means."""

    def __init__(self, path: Path, meaning: Callable[[str], Sequence[Reading]]) -> None:
        self._lines = Lines(path)
        self._meaning = meaning

    def read(self) -> list[Reading]:
        """Return what new lines say; one that says nothing is passed over."""
        return [reading for line in self._lines.new() for reading in self._meaning(line)]
