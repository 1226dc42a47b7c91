"""Writes CSV that reads back as what was written, whatever a cell holds."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

_END = "\r\n"


class _Lines:
    """A file whose lines end in a line feed, although the writer is told that they end in both signs.

    It quotes a cell that holds a sign of its line's end: of the feed alone, a log with a carriage return would be read
    back as two rows.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> int:
        """Write one row."""
        return self._file.write(line.removesuffix(_END) + "\n")


def write_csv(file: TextIO, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows under a heading, which is there without any row too."""
    writer = csv.DictWriter(_Lines(file), fieldnames=list(columns), lineterminator=_END)
    writer.writeheader()
    writer.writerows(rows)
