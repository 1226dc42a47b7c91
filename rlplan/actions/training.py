"""What `rlplan train` does, callable from Python: open or resume a run, train it, and keep its files."""

import shlex
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from budgets.errors import CheckpointError, InputError, NotFoundError, TrainingError
from rlplan.actions.train_folder import RunFolder, stored_run
from rlplan.actions.train_request import TrainingRun, TrainRequest, new_run, resumed_run
from rlplan.actions.train_signals import Interrupts
from runner.backends.opening import open_backend
from runner.ports.backend import Point, TrainerBackend
from runner.training import checkpoints
from runner.training.trainer import FLAGS, MOST_TRUNCATION, NAN_LOSS, TRUNCATION
from runner.training.trial import METRICS, OpenTrial

REWARD_FAILURES = "reward-failures"

_MEANINGS = {
    NAN_LOSS: "loss or gradient is not finite, and the update was skipped",
    TRUNCATION: f"more than {MOST_TRUNCATION:.0%} of the responses are cut: raise --response-tokens",
    FLAGS["dead"]: "no group has rewards that differ, and hardly any is right: nothing is learnt",
    FLAGS["fall"]: "the validation fell further below its best than its errors explain; try a lower learning rate",
    FLAGS["hacking"]: "the validation fell and the training reward did not: look at the responses",
}


@dataclass(slots=True)
class RaisedFlag:
    """A health flag: the update that raised it first, and how many did."""

    first_step: int
    steps: int = 0


@dataclass(slots=True)
class History:
    """Grows by one point at a time."""

    scored: list[Point] = field(default_factory=list)
    flags: dict[str, RaisedFlag] = field(default_factory=dict)
    last: Point | None = None

    def add(self, point: Point) -> list[str]:
        """Take a point and return a line for everything that is wrong for the first time."""
        self.last = point
        if point.score is not None:
            self.scored.append(point)
        failures = point.metrics.get("reward_failures") or 0
        raised = [*point.flags, *([REWARD_FAILURES] if failures else [])]
        lines = []
        for name in raised:
            if name not in self.flags:
                self.flags[name] = RaisedFlag(point.optimizer_step)
                lines.append(f"step {point.optimizer_step}: {name}: {_meaning(name, failures)}")
            self.flags[name].steps += 1
        return lines


def _meaning(name: str, failures: float) -> str:
    if name == REWARD_FAILURES:
        count = f"{failures:,.0f} rewards" if failures != 1 else "1 reward"
        return f"{count} could not be had (raised, hung or no number) and count as failed answers"
    return _MEANINGS.get(name, "see docs/training.md")


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """A run as far as it went."""

    run: TrainingRun
    folder: Path
    history: History
    interrupted: bool = False


class TrainDisplay:
    """Follows a run; this one shows nothing."""

    def opening(self, run: TrainingRun, folder: Path) -> None:
        """Show that the run is being made ready."""

    def began(self, run: TrainingRun, history: History) -> None:
        """Show what is known before the first new point."""

    def point(self, point: Point) -> None:
        """Show a new point."""

    def note(self, text: str) -> None:
        """Show a line that is to stay."""

    def stopping(self) -> None:
        """Show that an interrupt was heard; called from a signal handler."""

    def close(self) -> None:
        """Leave the terminal as it was."""


def train(
    request: TrainRequest,
    *,
    backend: TrainerBackend | None = None,
    display: TrainDisplay | None = None,
    interrupts: Interrupts | None = None,
) -> TrainedRun:
    """Train the run that is asked for, or go on with it; TrainingError when it cannot go on."""
    shown = display or TrainDisplay()
    if request.resume and request.from_pilot is not None:
        raise InputError("--from-pilot begins a run, and --resume goes on with one: leave one of them out")
    run, path = _resumed(request) if request.resume else new_run(request)
    with RunFolder(path) as folder:
        if not request.resume:
            folder.require_free()
        shown.opening(run, path)
        with closing(backend or open_backend(run.trial)) as trainer:
            step = _opened(trainer, run, folder, shown, request)
            with closing(OpenTrial(trainer, path, step)) as trial:
                folder.begin(run, trial.earlier)
                history = History()
                for point in trial.earlier:
                    history.add(point)
                if interrupts is not None:
                    interrupts.announce = shown.stopping
                    interrupts.patient = True
                shown.began(run, history)
                interrupted = _advance(trial, run, folder, history, shown, interrupts)
    return TrainedRun(run, path, history, interrupted)


def _resumed(request: TrainRequest) -> tuple[TrainingRun, Path]:
    path = request.out or new_run(request)[1]
    return resumed_run(request, stored_run(path), str(path)), path


def _opened(
    backend: TrainerBackend, run: TrainingRun, folder: RunFolder, display: TrainDisplay, request: TrainRequest
) -> int | None:
    """Start or restore the trial and return its step; None when not even step 0 has been scored."""
    if request.from_pilot is not None:
        with folder.adopted(request.from_pilot, run):
            return _restored(backend, run, folder.path, display)
    if request.resume:
        return _restored(backend, run, folder.path, display)
    backend.start(run.trial, folder.path)
    return None


def _restored(backend: TrainerBackend, run: TrainingRun, path: Path, display: TrainDisplay) -> int | None:
    if run.rlplan != version("rlplan"):
        display.note(f"the run was begun with rlplan {run.rlplan}; this is {version('rlplan')}")
    if not checkpoints.exists(path):
        backend.start(run.trial, path)
        display.note("the run had no checkpoint yet: it begins anew")
        return None
    step = backend.restore(run.trial, path)
    for note in getattr(backend, "notes", ()):
        display.note(note)
    if step >= run.update_steps:
        raise NotFoundError(
            f"the run in {path} has made all of its {run.update_steps:,} updates: nothing is left to do; --steps takes "
            "more"
        )
    display.note(f"going on after step {step:,} of {run.update_steps:,}")
    return step


def _advance(
    trial: OpenTrial,
    run: TrainingRun,
    folder: RunFolder,
    history: History,
    display: TrainDisplay,
    interrupts: Interrupts | None,
) -> bool:
    """Train to the end; return whether an interrupt came before it."""
    saved = False
    try:
        for point in trial.train(run.update_steps):
            folder.add(point)
            for line in history.add(point):
                display.note(line)
            display.point(point)
            stops = interrupts is not None and interrupts.requested and point.optimizer_step < run.update_steps
            saved = stops or _due(run, point)
            if saved:
                trial.save()
            if stops:
                return True
        if not saved:
            trial.save()
    except KeyboardInterrupt:
        if checkpoints.exists(folder.path):
            display.note(f"stopped at once; go on from the last checkpoint with `{resuming(folder.path)}`")
        raise
    except CheckpointError as error:
        raise CheckpointError(f"{error}: make room and go on with `{resuming(folder.path)}`") from error
    except TrainingError as error:
        step = history.last.optimizer_step if history.last else 0
        raise TrainingError(
            error.kind,
            f"the trial failed after step {step:,} ({error.kind}): {error}. What it did is in {folder.path / METRICS}",
        ) from error
    return False


def resuming(folder: Path) -> str:
    """Return the command that goes on with a run."""
    return f"rlplan train --resume --out {shlex.quote(str(folder))}"


def _due(run: TrainingRun, point: Point) -> bool:
    if run.checkpoint_every is None:
        return point.score is not None
    return point.optimizer_step % run.checkpoint_every == 0
