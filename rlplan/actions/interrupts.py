"""Ctrl-C and SIGTERM: the first lets the update under way finish, the second stops at once."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Handles the signals while it is entered; before `patient` is set every one of them stops at once."""

    def __init__(self) -> None:
        self.patient = False
        self.requested = False
        self.announce: Callable[[], None] = lambda: None  # called from the handler when an update is left to finish
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        # Python lets the main thread alone set handlers. What a shell started in the background is told to ignore
        # stays ignored.
        here = threading.current_thread() is threading.main_thread()
        signals = [each for each in SIGNALS if here and signal.getsignal(each) is not signal.SIG_IGN]
        self._before = {each: signal.signal(each, self._handle) for each in signals}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.patient and not self.requested:
            self.requested = True
            self.announce()
            return
        raise KeyboardInterrupt
