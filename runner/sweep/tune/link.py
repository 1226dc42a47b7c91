"""The driver's end of its Ray process: starts it, speaks with it, ends it with all it started, and starts another."""

import os
import pickle
import queue
import secrets
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

from budgets.errors import ClusterLostError, InputError, RlplanError
from runner.processes import DRIVER_TAG, SWEEP_TAG, end_session, search_path, sweep_orphans
from runner.sweep.tune.cluster import CLIENT, ENVIRONMENT
from runner.sweep.tune.messages import Message, RayStart, write
from runner.trainers.in_own_ray import private_folder

LOGS = "logs"
MOST_RESTARTS = 5  # in a row without a segment that ended
MOST_JOINS = 3  # of a cluster that answers, but is too busy to start what it needs for a client
_TOO_BUSY = "Starting Ray client server failed"  # Ray's own words for that, after half a minute
_CLIENT_GRACE = 12.0  # seconds: a cluster keeps what a client has started for 10 s after the client has died


class Link:
    """One Ray process, from its start to its end."""

    def __init__(self, start: RayStart) -> None:
        self._start = start
        self._temporary, lock = private_folder()
        logs = Path(start.folder) / LOGS
        logs.mkdir(parents=True, exist_ok=True)
        self.log = next(path for number in count(1) if not (path := logs / f"ray-{number}.log").exists())
        reading, writing = os.pipe()
        try:
            with self.log.open("wb") as log:
                self._process: subprocess.Popen[bytes] = subprocess.Popen(
                    [sys.executable, "-m", "runner.sweep.tune.child", str(writing)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    pass_fds=[writing, lock],
                    env=_environment(start),
                    start_new_session=True,  # Ctrl-C at the terminal is the driver's alone
                )
        finally:
            os.close(writing)
            os.close(lock)  # the process holds it, and with it the folder
        self.send(replace(start, temporary=self._temporary))
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(reading,), name="ray messages", daemon=True).start()

    def send(self, command: object) -> None:
        """Write a command; what a dead process does not read is lost with it."""
        assert self._process.stdin is not None
        with suppress(OSError):
            write(self._process.stdin, command)

    def receive(self, seconds: float) -> Message | None:
        """Return the next message, or None after the time; `{"event": "end"}` is the last one, and comes once."""
        try:
            return self._messages.get(timeout=seconds) if seconds > 0 else self._messages.get_nowait()
        except queue.Empty:
            return None

    def end(self) -> int:
        """Kill the process and everything that it and its workers have started here; return its exit code.

        What another driver has started, which may have taken the sweep over, lives on.
        """
        self._process.kill()
        end_session(self._process.pid)  # before its number is free for another process
        code = self._process.wait()
        sweep_orphans(self._start.tag, driver=self._start.driver)
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        shutil.rmtree(self._temporary, ignore_errors=True)
        return code

    def wait_for_the_end(self, seconds: float) -> None:
        """Give the process time to end by itself."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as messages, suppress(OSError, EOFError, pickle.UnpicklingError):
            while True:  # one that is torn is the last
                self._messages.put(pickle.load(messages))
        self._messages.put({"event": "end"})


class Restarts:
    """Counts losses, and lets waits between restarts grow."""

    def __init__(self, address: str | None) -> None:
        """The address is that of the cluster to join, if it is not started here."""
        self._address = address
        self._grace = _CLIENT_GRACE if address is not None and address.startswith(CLIENT) else 0.0
        self._losses = 0
        self._was_ready = False
        self._due_at: float | None = None
        self._error: RlplanError | None = None

    @property
    def pending(self) -> bool:
        """Whether Ray is to be started again, now or later."""
        return self._due_at is not None

    def check(self) -> None:
        """Raise the error that keeps Ray from being started again, if there is one."""
        if self._error is not None:
            raise self._error

    def ready(self) -> None:
        """Note that Ray has been there."""
        self._was_ready = True

    def worked(self) -> None:
        """Note that a segment has ended: the losses before it count no longer."""
        self._losses = 0

    def lost(self, reason: str, now: float) -> None:
        """Note that Ray was lost."""
        self._losses += 1
        again = self._grace > 0 and _TOO_BUSY in reason and self._losses < MOST_JOINS
        if not self._was_ready and self._address is not None and not again:
            self._error = InputError(f"no cluster can be joined at '{self._address}': {reason}")
        elif self._losses > MOST_RESTARTS:
            self._error = ClusterLostError(
                f"Ray was lost {self._losses} times without a segment that ended in between, last because {reason}. "
                "What was trained is saved: repair what stops Ray, then go on with `rlplan resume`"
            )
        else:
            self._due_at = now + self._grace + (2.0 ** (self._losses - 2) if self._losses > 1 else 0.0)

    def due(self, now: float) -> bool:
        """Whether Ray is to be started again now; it is asked no more after it has said so."""
        if self._due_at is None or now < self._due_at:
            return False
        self._due_at = None
        return True


def _environment(start: RayStart) -> dict[str, str]:
    variables = {SWEEP_TAG: start.tag, DRIVER_TAG: start.driver, "PYTHONPATH": search_path()}
    if start.address is None and start.alone and "RAY_memory_monitor_refresh_ms" not in os.environ:
        variables["RAY_memory_monitor_refresh_ms"] = (
            "0"  # what fills the memory is no worker of Ray's, which it would kill
        )
    if start.address is None and "RAY_AUTH_MODE" not in os.environ:
        # A token of its own keeps others out, and Ray from writing one into the user's home.
        variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return {**ENVIRONMENT, **os.environ, **variables}
