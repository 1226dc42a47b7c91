"""Waiting for what other processes do, and looking whether they live."""

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_SECONDS = 60.0  # for processes to come and go on a loaded machine


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
