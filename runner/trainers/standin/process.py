"""The process that stands in for a trainer: it needs the standard library alone, so that it starts in a moment.

What it will do lies in the file that it is given: the seconds and the score of each step, when to save, what goes wrong
and where. It writes metrics and checkpoints as the trainer does for which it stands, heeds the gate or SIGTERM, and
ends when whoever started it is gone.
"""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner.trainers.standin.forms import writer
from runner.trainers.standin.writing import StepReport, TornError

WAITING = Path("waiting.json")
_FALLEN = 0.1  # what is left of a score after the fault `fall`
_LOOK = 0.02  # seconds between two looks at the gate, the parent and the clock
_CUDA = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 79.11 GiB "
    "of which 1.07 GiB is free."
)


class Standin:
    """One attempt."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._scale = float(given["time_scale"])
        self._rows: list[list[Any]] = given["rows"]  # [seconds, score, its error, what breaks down] of each step
        self._format = writer(given)
        self._faults = {(fault["kind"], fault["at_step"]) for fault in given["faults"]}
        self._parent = os.getppid()
        self._to_step = int(given["to_step"])
        self._deaf = any(kind == "deaf" for kind, _ in self._faults)
        self._asked = False
        self._shift = 0.0  # seconds that its clock is ahead of its life's: what it has waited and saved
        signal.signal(signal.SIGTERM, self._on_term)

    def live(self) -> None:
        """Train until it is told to stop."""
        step = int(self._given["from_step"])
        if step:
            self._format.load(step)
        slow = float(self._given["slow_seconds"]) if any(kind == "slow-start" for kind, _ in self._faults) else 0.0
        self._pass(self._given["start_up_seconds"] / self._scale + slow)
        self._began = time.monotonic() - self._life(step)
        if step:
            self._format.stands(step, self._life(step))
        else:
            self._began = time.monotonic()
            self._format.stands(0, 0.0)
            self._until(0)
            self._say(0)
        while True:
            while step >= self._goal():
                self._save(step)
                if not self._given["gated"]:
                    return
                self._wait(step)
            step += 1
            self._until(step)
            self._break(step)
            self._say(step)
            asked = self._given["save_now"]  # the file by which somebody asks for a save
            wanted = asked is not None and not self._deaf and Path(asked).exists()
            due = step % self._given["save_every_steps"] == 0 or wanted
            if due and step < self._goal():
                self._save(step)

    def _goal(self) -> int:
        """Return the step at which it is to save and wait, or end; 0 for the one under way."""
        if self._deaf:
            return sys.maxsize
        return self._gate() if self._given["gated"] else 0 if self._asked else self._to_step

    def _gate(self) -> int:
        return int(json.loads(Path("gate.json").read_text(encoding="utf-8"))["to_step"])

    def _wait(self, step: int) -> None:
        began = time.monotonic()
        self._tell_waiting(step)
        while (gate := self._gate()) <= step:
            if gate == 0 and not WAITING.exists():  # asked to stop before it had gone on
                self._tell_waiting(step)
            self._pass(_LOOK)
        self._shift += time.monotonic() - began

    def _tell_waiting(self, step: int) -> None:
        aside = Path(f"{WAITING}.writing")
        aside.write_text(json.dumps({"step": step}), encoding="utf-8")
        aside.replace(WAITING)

    def _save(self, step: int) -> None:
        began = time.monotonic()
        self._pass(self._given["save_seconds"] / self._scale)
        self._format.save(step, torn=("torn-checkpoint", step) in self._faults)
        self._shift += time.monotonic() - began

    def _say(self, step: int) -> None:
        _, score, error, _ = self._row(step)
        if score is not None and any(kind == "fall" and step >= at for kind, at in self._faults):
            score = _FALLEN * score
        in_two = ("cut-line", step) in self._faults
        loss = float("nan") if any(kind == "nan" and step >= at for kind, at in self._faults) else 1 / (1 + step)
        self._format.say(StepReport(step, self._at(step), loss, score, error), in_two=in_two)

    def _row(self, step: int) -> list[Any]:
        if step >= len(self._rows):  # the gate was opened further than was reckoned with
            from runner.trainers.standin.life import rows_of  # noqa: PLC0415  (takes a second; seldom)

            self._rows += rows_of(self._given["config"], len(self._rows), 2 * step)
        return self._rows[step]

    def _life(self, step: int) -> float:
        return float(self._row(step)[0]) / self._scale

    def _at(self, step: int) -> float:
        return self._life(step) + self._shift

    def _until(self, step: int) -> None:
        self._pass(self._began + self._at(step) - time.monotonic())

    def _pass(self, seconds: float) -> None:
        """Let real time pass, and end when nobody is there to train for."""
        end = time.monotonic() + seconds
        while True:
            if os.getppid() != self._parent:
                sys.exit("whoever started this trainer is gone")
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _LOOK))

    def _break(self, step: int) -> None:
        """Do what goes wrong in an update."""
        faults = {kind for kind, at in self._faults if at == step}
        faults |= {self._row(step)[3]} - {None}
        if "hang" in faults:
            while True:
                time.sleep(3600)
        if "killed" in faults:
            os.kill(os.getpid(), signal.SIGKILL)
        if "out-of-memory" in faults:
            sys.exit(_CUDA)
        if "refused" in faults:
            sys.stderr.write("train.py: error: unrecognized arguments: --rollouts\n")
            sys.exit(2)
        if "nan" in faults:
            self._faults.add(("nan", step))
        elif faults & {"error", "lost"}:
            sys.exit(f"RuntimeError: update {step} has failed, as its world has it")

    def _on_term(self, _number: int, _frame: object) -> None:
        self._asked = True


def _stand_by(rank: int) -> None:
    """Be there on a further machine for as long as whoever started it is."""
    parent = os.getppid()
    Path(f"rank-{rank}.json").write_text(
        json.dumps({"host": socket.gethostname(), "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", "")})
    )
    while os.getppid() == parent:
        time.sleep(_LOOK)


def main(arguments: Sequence[str]) -> None:
    """Run one attempt: the file that says what to do, and the rank of this machine."""
    given, rank = json.loads(Path(arguments[0]).read_text(encoding="utf-8")), int(arguments[1])
    if rank:
        _stand_by(rank)
        return
    try:
        Standin(given).live()
    except TornError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
