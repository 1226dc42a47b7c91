"""Ctrl-C, SIGTERM and a closed terminal: the first lets the update under way finish, the second stops at once."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OUTPUTS = (1, 2)


class Interrupts:
    """Handles the signals while it is entered; before `patient` is set every one of them stops at once."""

    def __init__(self) -> None:
        self.patient = False
        self.requested = False
        self.announce: Callable[[], None] = lambda: None  # called from the handler when an update is left to finish
        self._before: dict[signal.Signals, Any] = {}
        self._terminals: list[int] = []

    def __enter__(self) -> Self:
        # Python lets the main thread alone set handlers. What a shell started in the background is told to ignore
        # stays ignored.
        self._terminals = [output for output in OUTPUTS if os.isatty(output)]
        here = threading.current_thread() is threading.main_thread()
        signals = [number for number in SIGNALS if here and signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._handle) for number in signals}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._leave_closed_terminals()
            if self.requested:  # the shell and the system both send it
                return
        if self.patient and not self.requested:
            self.requested = True
            self.announce()
            return
        raise KeyboardInterrupt

    def _leave_closed_terminals(self) -> None:
        """Write to nowhere what would be printed on a terminal that is closed: each word there is an error."""
        for output in self._terminals:
            if not os.isatty(output):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, output)
                os.close(nowhere)
