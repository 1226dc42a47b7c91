"""One start of a trainer: its processes, what they say, how long they may be silent, and what their end means."""

import json
import os
import re
import shlex
import signal
import socket
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from budgets.errors import CheckpointError, InputError, TrainingError
from planner.config.trainer import Patience
from planner.disk import has_no_room, room
from runner.ports.trial import TrialConfig
from runner.trainers.checkpoints import PRIVATE
from runner.trainers.driver import GATE, WAITING, Attempt, Reading, TrainerDriver
from runner.trainers.hosts import Handle, Host
from runner.trainers.job import validation_steps
from runner.trainers.launch import masked
from runner.trainers.trainer_process import SAVE_NOW
from runner.training.trial import replace_file

_TAIL_BYTES = 20_000
_STACK_SECONDS = 3.0  # that a Python trainer is given to write its stacks into the log
_REMEMBERED = 50  # steps of which the median is taken
_UPDATES_OF_A_STOP = 2.0  # the one under way, with its save
OUT_OF_MEMORY = re.compile(
    r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|"
    r"No available memory for the cache blocks|KV cache is needed, which is larger than the available|"
    r"DefaultCPUAllocator: can't allocate memory|\bMemoryError\b|HIP out of memory"
)
_NAN = re.compile(r"\b(loss|grad(?:ient)?[ _]norm)\b.{0,40}\b(nan|inf)\b|\b(nan|inf)\b.{0,20}\bloss\b", re.IGNORECASE)
_CHECKPOINT = re.compile(
    r"(checkpoint|state_dict|safetensors|global_step).{0,200}(corrupt|torn|incomplete|truncated|not found|missing|"
    r"HeaderTooSmall|PytorchStreamReader|unexpected end|invalid header)|PytorchStreamReader failed|"
    r"SafetensorError|HeaderTooSmall|InvalidHeaderDeserialization",
    re.IGNORECASE,
)
_OWN_RAY = "the trial's own Ray"  # begins what in_own_ray.py says of its failure
_USAGE_EXIT = 2  # of argparse, click, tyro and pydantic's command lines
LAST_LINES = 40


class Silence:
    """Says when a trainer has been silent for too long."""

    def __init__(self, patience: Patience, began: float) -> None:
        self._patience = patience
        self._heard_at = began
        self._heard = False
        self._steps: deque[float] = deque(maxlen=_REMEMBERED)

    def heard(self, now: float, steps: int) -> None:
        """Note that so many new steps were read."""
        if self._heard:
            self._steps.extend([(now - self._heard_at) / steps] * min(steps, _REMEMBERED))
        self._heard, self._heard_at = True, now

    @property
    def broken(self) -> bool:
        """Whether anything was heard at all."""
        return self._heard

    @property
    def median(self) -> float:
        """The median seconds of a step, 0 before the second."""
        return statistics.median(self._steps) if self._steps else 0.0

    def awake(self, now: float) -> None:
        """Count from now on: it was its turn to wait."""
        self._heard_at = now

    def excess(self, now: float, *, pausing: bool) -> str | None:
        """Say how long it has been silent and how long it may be, when that is less."""
        patience, silent, median = self._patience, now - self._heard_at, self.median
        if not self._heard:
            most, purpose = patience.start_up_seconds, "from its start to its first word (start_up_seconds)"
        elif pausing:
            most, purpose = patience.pause_seconds, "for a validation or a save (pause_seconds)"
        else:
            most, purpose = 0.0, f"for a step of {median:,.1f} s (least_seconds and median_steps)"
        if self._heard:
            most = max(most, patience.least_seconds, patience.median_steps * median)
        if silent <= most:
            return None
        return f"nothing was heard of the trainer for {silent:,.0f} s, and it has {most:,.0f} s {purpose}"


class TrainerProcesses:
    """The processes of an attempt."""

    def __init__(
        self,
        driver: TrainerDriver,
        config: TrialConfig,
        attempt: Attempt,
        hosts: Sequence[Host],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Write the files and start a process on each host that is to have one."""
        self._driver, self._config, self.attempt, self._clock = driver, config, attempt, clock
        self._sources = driver.sources(config, attempt)
        self._silence = Silence(config.driven_by.patience, clock())
        self._handles: list[Handle] = []
        self._began = clock()
        self._newest, self._to_step = attempt.from_step, attempt.to_step
        (attempt.folder / SAVE_NOW).unlink(missing_ok=True)  # of an earlier attempt
        if driver.gated:
            self.open_gate(attempt.to_step)
        try:
            for rank, host in enumerate(hosts):
                self._start(rank, host)
        except BaseException:
            self.kill()
            raise

    def seconds(self) -> float:
        """Return how long it has been running."""
        return self._clock() - self._began

    def readings(self) -> list[Reading]:
        """Return what it has said since the last call; TrainingError when it has been silent for too long."""
        new = [reading for source in self._sources for reading in source.read()]
        now = self._clock()
        if new:
            newest = max(self._newest, *(reading.step for reading in new))
            self._silence.heard(now, max(1, newest - self._newest))
            self._newest = newest
            return new
        no_room = has_no_room(self.attempt.folder)  # for what a pause is made for, nor for the words after it
        pausing = self._newest % validation_steps(self._config) == 0 or self._newest >= self._to_step
        excess = self._silence.excess(now, pausing=pausing and not no_room)
        if excess and self.exit_code() is None and self.waits_at() is None:
            for handle in self._handles:  # Python writes the stacks of all threads, under PYTHONFAULTHANDLER
                handle.signal(signal.SIGABRT)
            end = time.monotonic() + _STACK_SECONDS
            while any(handle.poll() is None for handle in self._handles) and time.monotonic() < end:
                time.sleep(0.02)
            self.kill()
            why = room(self.attempt.folder) if no_room else f"its stacks are at the end of {self.attempt.log}"
            raise TrainingError("hang", f"{excess}; {why}", self.tail())
        return new

    def exit_code(self) -> int | None:
        """Return how it ended, None while it runs: the head's word, or that of the first which failed."""
        codes = [handle.poll() for handle in self._handles]
        failed = next((code for code in codes if code), None)
        return failed if failed is not None else codes[0]

    @property
    def has_spoken(self) -> bool:
        """Whether it has said anything yet; before that it is starting, and holds nothing that could be lost."""
        return self._silence.broken

    def failure(self, code: int) -> TrainingError:
        """Return what an exit means."""
        tail = self.tail()
        if has_no_room(self.attempt.folder):  # not even for its own words
            full = f"the trainer in {self.attempt.folder} ended with exit code {code}; {room(self.attempt.folder)}"
            return TrainingError("checkpoint", full, tail)
        classified = self._driver.classify(code, tail)
        kind, message = classified or classify(code, tail, self.attempt.checkpoint is not None)
        return TrainingError(kind, f"{message} (attempt {self.attempt.number}; {self.attempt.log})", tail)

    def tail(self) -> str:
        """Return the end of what the head has printed, its secrets masked."""
        with suppress(OSError), self.attempt.log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return masked(file.read().decode("utf-8", errors="replace"), self._config.driven_by.secrets)
        return ""

    def waits_at(self) -> int | None:
        """Return the step at which it has saved and waits at the gate; None while it trains."""
        if not self._driver.gated:
            return None
        with suppress(OSError, ValueError, KeyError):
            return int(json.loads((self.attempt.folder / WAITING).read_text(encoding="utf-8"))["step"])
        return None

    def listen(self) -> None:
        """Count its silence from now on: until then nobody has read what it said."""
        self._silence.awake(self._clock())

    def open_gate(self, to_step: int) -> None:
        """Let it train up to a step; 0 has it save and wait after the update under way."""
        (self.attempt.folder / WAITING).unlink(missing_ok=True)
        self.listen()
        self._to_step = to_step or self._to_step
        replace_file(self.attempt.folder / GATE, json.dumps({"to_step": to_step}))

    @property
    def ends_by_itself(self) -> bool:
        """Whether it ends, or waits, when it is asked to stop; of any other the next save is all that can be had."""
        return self._driver.gated or self._driver.stop_signal is not None

    @property
    def stop_seconds(self) -> float:
        """How long it has from being asked to stop: an update under way is waited for, however long it takes."""
        return max(self._patience.stop_seconds, _UPDATES_OF_A_STOP * self._silence.median)

    def ask_to_stop(self) -> None:
        """Have it save and end, or wait, soon; one that knows no way is left to its next save."""
        if self._driver.gated:
            self.open_gate(0)
        elif self._driver.stop_signal is not None:
            for handle in self._handles:
                handle.signal(self._driver.stop_signal)
        elif self._driver.saves_on_request:
            replace_file(self.attempt.folder / SAVE_NOW, json.dumps({"attempt": self.attempt.number}))

    def kill(self) -> None:
        """End all of it at once."""
        for handle in self._handles:
            handle.kill()

    @property
    def _patience(self) -> Patience:
        return self._config.driven_by.patience

    def _start(self, rank: int, host: Host) -> None:
        attempt, choice = self.attempt, self._config.driven_by
        launch = self._driver.launch(self._config, attempt, rank)
        if launch is None:
            return
        if not attempt.folder.is_dir():  # made anew, it would be nobody's
            raise CheckpointError(f"the trial's folder {attempt.folder} is not there")
        for name, text in launch.files.items():
            path = attempt.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, text)
        argv = (*(shlex.split(choice.launcher) if choice.launcher else ()), *launch.argv)
        variables = {**choice.environment, **launch.environment}
        if python_path := choice.environment.get("PYTHONPATH"):
            variables["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([variables["PYTHONPATH"], python_path]))
        environment = {"PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1", **variables, **_secrets(choice.secrets)}
        log = attempt.log if rank == 0 else attempt.log.with_suffix(f".rank-{rank}.log")
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        script = f"# As rlplan starts it.\ncd {shlex.quote(str(attempt.folder))}\n{exports}exec {shlex.join(argv)}\n"
        replace_file(attempt.folder / f"command-{rank}.sh", f"#!/bin/sh\n{script}", PRIVATE)
        try:
            self._handles.append(host.start(argv, environment, attempt.folder, log))
        except OSError as error:
            raise InputError(
                f"the trainer cannot be started: {argv[0]}: {error.strerror or error}. Name its interpreter with "
                "[trainer] python, or what stands before it with [trainer] launcher"
            ) from error


def _secrets(names: Sequence[str]) -> dict[str, str]:
    """Return the values that this machine has; they go to the processes and nowhere else."""
    try:
        return {name: os.environ[name] for name in names}
    except KeyError as missing:
        where = f"{socket.gethostname()}: set it where rlplan, or with a cluster where `ray start`, is run"
        raise InputError(f"[trainer] secrets: {missing.args[0]} is not set on {where}") from None


def classify(code: int, tail: str, resumed: bool) -> tuple[str, str]:
    """Return the kind of a failure and a sentence; only the last lines count, and the last cause that is named."""
    lines = [line for line in tail.splitlines() if line.strip()][-LAST_LINES:]
    text = "\n".join(lines)
    last = lines[-1].strip()[:300] if lines else "it printed nothing"
    if OUT_OF_MEMORY.search(text):
        return "out-of-memory", f"the trainer ran out of memory: {_line(lines, OUT_OF_MEMORY)}"
    if _NAN.search(last):
        return "nan", f"the trainer's loss is not a number: {last}"
    if resumed and _CHECKPOINT.search(text):
        return "checkpoint", f"the trainer could not go on from its checkpoint: {_line(lines, _CHECKPOINT)}"
    if code < 0 or _OWN_RAY in last:  # for want of a node, or of the way between two: others may do better
        return "lost", last if code > 0 else f"the trainer was killed by {_signal(-code)}: {last}"
    if code == _USAGE_EXIT:
        return "input", f"the trainer refused its command or configuration: {last}"
    return "error", f"the trainer ended with exit code {code}: {last}"


def _line(lines: list[str], pattern: re.Pattern[str]) -> str:
    return next((line.strip()[:300] for line in reversed(lines) if pattern.search(line)), lines[-1].strip()[:300])


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
