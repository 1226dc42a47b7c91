"""The parent's end of the process in which rewards run: no call on it waits longer than its limit."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Literal

from budgets.errors import InputError

_PROGRAM = Path(__file__).with_name("reward_process.py")
_START_SECONDS = 60.0
_CHUNK_BYTES = 1 << 16
_REAP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Order:
    """What a child is to serve, and within what."""

    function: str  # package.module:name, or the absolute path of a file and :name
    seed: int
    memory_bytes: int | None  # most address space; None: no limit
    path: Sequence[str]  # where modules are looked for
    between: tuple[float, float] = (0.0, 1.0)  # the numbers that mean a score of 0 and of 1
    seconds: float = 5.0  # that the answer to a response may take


@dataclass(frozen=True, slots=True)
class JudgedResponse:
    """What a child said of one response; no score when there is none to be had."""

    score: float | None
    failure: str | None = None
    message: str | None = None
    metrics: dict[str, float] = field(default_factory=dict)  # what else a reward has said of it


class ChildLost(Exception):  # noqa: N818 — it is an event that is answered, not an error that is shown
    """The child hung or died while it worked on a response."""

    def __init__(self, kind: Literal["timed-out", "died"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


class RewardChild:
    """One running child, in a process group of its own."""

    def __init__(self, order: Order) -> None:
        """Start it and load the function; InputError says what is wrong with it, OSError that there is no process."""
        self._closed = False
        self._connection, channel = socket.socketpair()
        self._answers = self._connection.makefile("rb", buffering=_CHUNK_BYTES)
        watched, self._keepalive = os.pipe()
        safe = ["-P"] if hasattr(sys.flags, "safe_path") else []  # Python 3.10, as some trainers have, knows none
        command = [sys.executable, *safe, str(_PROGRAM), str(watched)]
        try:
            self._process = subprocess.Popen(
                command, stdin=channel.fileno(), pass_fds=(watched,), start_new_session=True
            )
        except BaseException:
            self._let_go()
            raise
        finally:
            channel.close()
            os.close(watched)
        try:
            self._open(order)
        except BaseException:
            self.close()
            raise
        self._limit(order.seconds)

    @property
    def idle(self) -> bool:
        """Whether it lives and waits for work: then there is nothing to read from it."""
        return not self._closed and not wait([self._connection], 0)

    def send(self, value: object) -> None:
        """Hand over an order, or responses with their problems, whose answers are then received one by one."""
        try:
            self._connection.sendall(json.dumps(value).encode("ascii") + b"\n")
        except TimeoutError:
            raise ChildLost("timed-out", f"the reward's process took no work for {self._seconds:g} s") from None
        except OSError:
            raise ChildLost("died", self._death()) from None

    def receive(self) -> JudgedResponse:
        """Return the answer to the next response, or raise ChildLost when it does not come in time or at all."""
        line = self._line()
        try:
            return JudgedResponse(*json.loads(line))
        except (ValueError, TypeError):
            raise ChildLost("died", f"the reward's process answered {line[:80]!r}") from None

    def kill(self) -> None:
        """Kill it and all that it started; whoever waits for it learns that it is lost."""
        if not self._closed:  # before it is reaped: until then the number is its own
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill it and let go of it. Closing twice is allowed."""
        if self._closed:
            return
        self.kill()
        self._closed = True
        with suppress(subprocess.TimeoutExpired):  # the system may keep a process that waits for a dead disk
            self._process.wait(_REAP_SECONDS)
        self._let_go()

    def _let_go(self) -> None:
        os.close(self._keepalive)
        self._answers.close()
        self._connection.close()

    def _open(self, order: Order) -> None:
        try:
            self._limit(_START_SECONDS)
            self.send(asdict(order))
            reply = json.loads(self._line())
        except ChildLost as lost:
            if lost.kind == "timed-out":
                raise TimeoutError(f"reward '{order.function}' took longer than {_START_SECONDS:g} s to load") from None
            reply = {"refused": str(lost)}
        if "refused" in reply:
            raise InputError(
                f"reward '{order.function}' cannot be loaded: {reply['refused']}. Give exact, math, or a Python "
                "function as package.module:name or path/to/file.py:name"
            )

    def _limit(self, seconds: float) -> None:
        self._seconds = seconds
        self._connection.settimeout(seconds)

    def _line(self) -> bytes:
        line = b""
        try:
            line = self._answers.readline()
        except TimeoutError:
            raise ChildLost("timed-out", f"the reward took longer than {self._seconds:g} s") from None
        except OSError:  # a connection that it has reset
            pass
        if not line.endswith(b"\n"):
            raise ChildLost("died", self._death())
        return line

    def _death(self) -> str:
        """Say how it ended. It has closed its end, so that it is dead or dying: to be killed changes nothing then."""
        self.close()
        code = self._process.returncode
        if code is None:
            return "the reward's process closed its channel"
        ended = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"the reward's process ended {ended}"
