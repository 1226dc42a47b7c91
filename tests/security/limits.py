"""The time and the memory that a file may take to be read, however it was made."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 20.0  # of the processor
GIB = 2**30


class TooLongError(BaseException):
    """What runs longer than it may."""


@contextmanager
def limited() -> Iterator[None]:
    """Allow so many seconds of the processor, and a gibibyte beside what is there."""

    def end(*_: object) -> None:
        raise TooLongError

    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGPROF, end)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + GIB, before[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
