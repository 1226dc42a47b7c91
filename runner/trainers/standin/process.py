"""The process that stands in for a trainer: it needs the standard library alone, so that it starts in a moment.

What it will do is in the file that it is given: the seconds and the score of each step, when to save, what goes wrong
and where. It writes metrics and checkpoints, heeds the gate or SIGTERM, and ends when whoever started it is gone.
"""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

CHECKPOINT = "checkpoint-{step}"
STATE = "state.json"
_HALF_SECONDS = 0.15  # between the halves of a line
WAITING = Path("waiting.json")
_FALLEN = 0.1  # what is left of a score after the fault `fall`
_LOOK = 0.02  # seconds between two looks at the gate, the parent and the clock
_CUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has 1.07 GiB free."


class TornError(Exception):
    """A checkpoint cannot be read."""


@dataclass(frozen=True)
class StepReport:
    """What a trainer logs of a step; step 0 has no update."""

    step: int
    at: float
    loss: float
    score: float | None
    error: float | None


class StandinFiles:
    """A line of JSON for each update and each score; a checkpoint is a folder that gets its name once it is whole.

    Tests of drivers override its short methods, to write as their trainers do.
    """

    pattern = CHECKPOINT

    def __init__(self, run: Mapping[str, Any]) -> None:
        """Take what the process was given."""
        self._run = run
        self._tokens = float(run["response_tokens"])

    @cached_property
    def _log(self) -> TextIO:
        """Return the log, which exists once something is written."""
        return Path(self._run["metrics"]).open("a", encoding="utf-8", buffering=1)

    def begin(self, step: int, at: float) -> None:
        """Log that start-up is over, and from which step it goes on."""
        self.log({"step": step, "at_seconds": at})

    def report(self, report: StepReport, *, in_two: bool = False) -> None:
        """Log a step; its first line in two pieces, as a buffer that was full would."""
        where = {"step": report.step, "at_seconds": report.at}
        if report.step:
            self.log({**where, "loss": report.loss, "response_tokens": self._tokens}, in_two=in_two)
        if report.score is not None:
            self.log({**where, "score": report.score, "score_standard_error": report.error})

    def save(self, step: int, *, torn: bool) -> None:
        """Write a checkpoint, and remove all but the newest two."""
        path = Path(self.pattern.replace("{step}", self.number(step)))
        aside = Path(f"{path}.writing")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        text = json.dumps({"step": step, "weights": "0" * 40})
        (aside / STATE).write_text(text[: len(text) // 2] if torn else text, encoding="utf-8")
        if size := int(self._run["checkpoint_bytes"]):
            (aside / "weights.bin").write_bytes(bytes(size))
        shutil.rmtree(path, ignore_errors=True)
        aside.replace(path)
        self.mark(step, path)
        before, _, after = self.pattern.partition("{step}")
        paths = {str(path)[len(before) :].removesuffix(after): path for path in Path().glob(f"{before}*{after}")}
        earlier = [name for name in paths if name.isdigit() and int(name) < int(self.number(step))]
        for name in sorted(earlier, key=int)[:-1]:
            shutil.rmtree(paths[name], ignore_errors=True)

    def load(self, step: int) -> None:
        """Go on from a checkpoint."""
        path = Path(self.pattern.replace("{step}", self.number(step))) / STATE
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise TornError(f"checkpoint {path} is torn: unexpected end ({error})") from error

    def number(self, step: int) -> str:
        """Return the number of a step as it is in the name of its checkpoint."""
        return str(step)

    def mark(self, step: int, path: Path) -> None:
        """Write what shows that a checkpoint is whole; its name does here."""

    def log(self, values: Mapping[str, Any], *, in_two: bool = False) -> None:
        """Write a line."""
        self.write(json.dumps(values) + "\n", in_two)

    def write(self, text: str, in_two: bool = False) -> None:
        """Write to the log, in two pieces where that is asked for."""
        if in_two:
            self._log.write(text[: len(text) // 2])
            self._log.flush()
            time.sleep(_HALF_SECONDS)
            text = text[len(text) // 2 :]
        self._log.write(text)
        self._log.flush()


class Standin:
    """One attempt."""

    def __init__(self, run: dict[str, Any], files: StandinFiles) -> None:
        self._run, self._files = run, files
        self._scale = float(run["time_scale"])
        self._rows: list[list[Any]] = run["rows"]  # [seconds, score, its error, what breaks down] of each step
        self._faults: set[tuple[str, int]] = {(kind, at) for kind, at in run["faults"]}
        self._parent = os.getppid()
        self._to_step = int(run["to_step"])
        self._deaf = any(kind == "deaf" for kind, _ in self._faults)
        self._asked: list[int] = []  # signals
        self._shift = 0.0  # seconds that its clock is ahead of its life's: what it has waited and saved
        signal.signal(signal.SIGTERM, lambda number, _: self._asked.append(number))

    def live(self) -> None:
        """Train until it is told to stop."""
        step = int(self._run["from_step"])
        if step:
            self._files.load(step)
        slow = float(self._run["slow_seconds"]) if any(kind == "slow-start" for kind, _ in self._faults) else 0.0
        self._pass(self._run["start_up_seconds"] / self._scale + slow)
        before = self._life(step) if step else 0.0
        self._began = time.monotonic() - before
        self._files.begin(step, before)
        if not step:
            self._until(0)
            self._report(0)
        while True:
            while step >= self._goal():
                self._save(step)
                if not self._run["gated"]:
                    return
                self._wait(step)
            step += 1
            self._until(step)
            self._break(step)
            self._report(step)
            request = self._run["save_now"]  # the file by which somebody asks for a save
            requested = request is not None and not self._deaf and Path(request).exists()
            if (requested or step % self._run["save_every_steps"] == 0) and step < self._goal():
                self._save(step)

    def _goal(self) -> int:
        """Return the step at which it is to save and wait, or end; 0 for the one under way."""
        if self._deaf:
            return sys.maxsize
        return self._gate() if self._run["gated"] else 0 if self._asked else self._to_step

    def _gate(self) -> int:
        return int(json.loads(Path("gate.json").read_text(encoding="utf-8"))["to_step"])

    def _wait(self, step: int) -> None:
        began = time.monotonic()
        self._write_waiting(step)
        while (gate := self._gate()) <= step:
            if gate == 0 and not WAITING.exists():  # asked to stop before it had gone on
                self._write_waiting(step)
            self._pass(_LOOK)
        self._shift += time.monotonic() - began

    def _write_waiting(self, step: int) -> None:
        aside = Path(f"{WAITING}.writing")
        aside.write_text(json.dumps({"step": step}), encoding="utf-8")
        aside.replace(WAITING)

    def _save(self, step: int) -> None:
        began = time.monotonic()
        self._pass(self._run["save_seconds"] / self._scale)
        self._files.save(step, torn=("torn-checkpoint", step) in self._faults)
        self._shift += time.monotonic() - began

    def _report(self, step: int) -> None:
        _, score, error, _ = self._row(step)
        if score is not None and any(kind == "fall" and step >= at for kind, at in self._faults):
            score = _FALLEN * score
        in_two = ("cut-line", step) in self._faults
        loss = float("nan") if any(kind == "nan" and step >= at for kind, at in self._faults) else 1 / (1 + step)
        self._files.report(StepReport(step, self._life(step) + self._shift, loss, score, error), in_two=in_two)

    def _row(self, step: int) -> list[Any]:
        if step >= len(self._rows):  # the gate was opened further than was computed
            from runner.trainers.standin.driver import rows_of  # noqa: PLC0415  (takes a second; seldom)

            self._rows += rows_of(self._run["config"], len(self._rows), 2 * step)
        return self._rows[step]

    def _life(self, step: int) -> float:
        return float(self._row(step)[0]) / self._scale

    def _until(self, step: int) -> None:
        self._pass(self._began + self._life(step) + self._shift - time.monotonic())

    def _pass(self, seconds: float) -> None:
        """Let real time pass, and end when nobody is there to train for."""
        end = time.monotonic() + seconds
        while True:
            if os.getppid() != self._parent:
                sys.exit("whoever started this trainer is gone")
            rest = end - time.monotonic()
            if rest <= 0:
                return
            time.sleep(min(rest, _LOOK))

    def _break(self, step: int) -> None:
        """Do what goes wrong in an update."""
        faults = {kind for kind, at in self._faults if at == step}
        faults |= {self._row(step)[3]} - {None}
        while "hang" in faults:
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


def main(arguments: Sequence[str], files: Callable[[dict[str, Any]], StandinFiles] = StandinFiles) -> None:
    """Run one attempt: the file that says what to do, and the rank of this machine; further ones stand by."""
    name, rank = arguments
    parent = os.getppid()
    while rank != "0":
        if os.getppid() != parent:
            return
        time.sleep(_LOOK)
    run = json.loads(Path(name).read_text(encoding="utf-8"))
    try:
        Standin(run, files(run)).live()
    except TornError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
