"""What `rlplan train` does, callable from Python: open or resume a run, train it, and keep its files."""

import shlex
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from budgets.errors import InputError, NotFoundError, TrainingError
from rlplan.actions.train_adopting import Adopted
from rlplan.actions.train_folder import METRICS, RunFolder, stored_run
from rlplan.actions.train_history import History
from rlplan.actions.train_request import Run, TrainRequest, new_run
from rlplan.actions.train_resuming import resumed_run
from rlplan.actions.train_signals import Interrupts
from runner.backends.opening import open_backend
from runner.ports.backend import Point, Segment, TrainerBackend
from runner.training import checkpoints


@dataclass(frozen=True, slots=True)
class Trained:
    """A run as far as it went."""

    run: Run
    folder: Path
    history: History
    interrupted: bool = False


class Display(Protocol):
    """Follows a run."""

    def opening(self, run: Run, folder: Path) -> None:
        """Show that the run is being made ready."""
        ...

    def began(self, run: Run, history: History) -> None:
        """Show what is known before the first new point."""
        ...

    def point(self, point: Point) -> None:
        """Show a new point."""
        ...

    def note(self, text: str) -> None:
        """Show a line that is to stay."""
        ...

    def stopping(self) -> None:
        """Show that an interrupt was heard; called from a signal handler."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


class Silent:
    """Shows nothing."""

    def opening(self, run: Run, folder: Path) -> None:
        """Do nothing."""

    def began(self, run: Run, history: History) -> None:
        """Do nothing."""

    def point(self, point: Point) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def stopping(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def train(
    request: TrainRequest,
    *,
    backend: TrainerBackend | None = None,
    display: Display | None = None,
    interrupts: Interrupts | None = None,
) -> Trained:
    """Train the run that is asked for, or go on with it; TrainingError when it cannot go on."""
    shown = display or Silent()
    if request.resume and request.from_pilot is not None:
        raise InputError("--from-pilot begins a run, and --resume goes on with one: leave one of them out")
    run, path = _resumed(request) if request.resume else new_run(request)
    with RunFolder(path) as folder:
        if not request.resume:
            folder.require_free()
        shown.opening(run, path)
        trainer = backend or open_backend(run.trial)
        try:
            if request.from_pilot is not None:
                step = _adopt(trainer, run, folder, shown, request.from_pilot)
            else:
                step = _open(trainer, run, path, shown, resume=request.resume)
            history = _recall(folder, run, step)
            if interrupts is not None:
                interrupts.announce = shown.stopping
                interrupts.patient = True
            shown.began(run, history)
            interrupted = _advance(trainer, run, folder, history, shown, interrupts)
        finally:
            trainer.close()
    return Trained(run, path, history, interrupted)


def _resumed(request: TrainRequest) -> tuple[Run, Path]:
    path = request.out or new_run(request)[1]
    return resumed_run(request, stored_run(path), str(path)), path


def _adopt(backend: TrainerBackend, run: Run, folder: RunFolder, display: Display, pilot: Path) -> int:
    """Go on from a sweep's trial; when that cannot be, the folder is left as it was found."""
    adopted = Adopted(folder)
    adopted.copy(pilot, run)
    try:
        return _open(backend, run, folder.path, display, resume=True)
    except BaseException:
        adopted.forget()
        raise


def _open(backend: TrainerBackend, run: Run, path: Path, display: Display, *, resume: bool) -> int:
    """Start or restore the trial and return its step; −1 when not even step 0 has been scored."""
    if not resume:
        backend.start(run.trial, path)
        return -1
    if run.rlplan != version("rlplan"):
        display.note(f"the run was begun with rlplan {run.rlplan}; this is {version('rlplan')}")
    if not checkpoints.exists(path):
        backend.start(run.trial, path)
        display.note("the run had no checkpoint yet: it begins anew")
        return -1
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


def _recall(folder: RunFolder, run: Run, step: int) -> History:
    history = History()
    for point in folder.begin(run, step):
        history.add(point)
    return history


def _advance(
    backend: TrainerBackend,
    run: Run,
    folder: RunFolder,
    history: History,
    display: Display,
    interrupts: Interrupts | None,
) -> bool:
    """Train to the end; return whether an interrupt came before it."""
    saved = False

    def save() -> None:
        folder.sync()
        backend.checkpoint()

    try:
        for point in backend.advance(Segment(run.update_steps)):
            folder.add(point)
            for line in history.add(point):
                display.note(line)
            display.point(point)
            saved = _due(run, point.optimizer_step, scored=point.score is not None)
            if saved:
                save()
            if interrupts is not None and interrupts.requested and point.optimizer_step < run.update_steps:
                if not saved:
                    save()
                return True
    except KeyboardInterrupt:
        if checkpoints.exists(folder.path):
            display.note(f"stopped at once; go on from the last checkpoint with `{resuming(folder.path)}`")
        raise
    except TrainingError as error:
        step = history.last.optimizer_step if history.last else 0
        raise TrainingError(
            error.kind,
            f"the trial failed after step {step:,} ({error.kind}): {error}. What it did is in {folder.path / METRICS}",
        ) from error
    if not saved:
        save()
    return False


def resuming(folder: Path) -> str:
    """Return the command that goes on with a run."""
    return f"rlplan train --resume --out {shlex.quote(str(folder))}"


def _due(run: Run, step: int, *, scored: bool) -> bool:
    return scored if run.checkpoint_every is None else step % run.checkpoint_every == 0
