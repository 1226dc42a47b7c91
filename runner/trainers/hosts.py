"""Where a trainer's processes run: on this machine, or on the others of its trial, behind the same few words."""

import os
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from runner.processes import adopted, end_all, in_session, tagged

ATTEMPT_TAG = "RLPLAN_ATTEMPT"  # in the environment of all that one start of a trainer starts
_PATIENCE = 10.0  # seconds after which what cannot be killed is left

_roots: set[int] = set()  # the processes that were started here, and of which leave was not taken


class Handle(Protocol):
    """A process that was started on a host, with all that it starts itself."""

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""

    def signal(self, number: int) -> None:
        """Send a signal to the process itself; one that is gone is passed over."""

    def kill(self) -> None:
        """End it and everything that it started, at once; afterwards nothing of it is left on the host."""


class Host(Protocol):
    """One machine of a trial."""

    @property
    def address(self) -> str:
        """By which the others reach it."""

    @property
    def gpus(self) -> str:
        """CUDA_VISIBLE_DEVICES there; empty where it has none."""

    def start(self, argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> Handle:
        """Start a process in a folder, with these variables besides those of the host; what it prints goes to a log."""


class LocalHost:
    """This machine."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.address = address
        self.gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")

    def start(self, argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> "LocalProcess":
        """Start a process in a session of its own, so that no signal of ours hits it by accident."""
        return LocalProcess(argv, environment, folder, log)


class LocalProcess:
    """A process on this machine."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> None:
        self._tag = uuid.uuid4().hex
        with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:  # it may print secrets
            self._process = subprocess.Popen(
                argv,
                cwd=folder,
                env={**os.environ, **environment, ATTEMPT_TAG: self._tag},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _roots.add(self._process.pid)

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        """Send a signal to the process itself."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill all that it has started: its session, what carries its tag, their kin, and orphans that it left."""
        end_all(self._left, 0.0)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        _roots.discard(self._process.pid)
        adopted(_roots)  # takes leave of those that have just been killed

    def _left(self) -> set[int]:
        root = self._process.pid
        in_its_session = in_session(root)
        if self._process.returncode is not None and root in in_its_session:
            in_its_session = set()  # its number is another's by now
        return in_its_session | tagged({f"{ATTEMPT_TAG}={self._tag}"}) | adopted(_roots)
