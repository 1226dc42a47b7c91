"""What a worker does with a segment: open its trial, train, report points as they are made, save."""

import io
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from pydantic import ValidationError

from budgets.errors import CheckpointError, InputError, NotFoundError, TrainingError
from planner.percent import percent
from runner.backends import open_backend
from runner.ports.backend import Point, TrainerBackend, UnreadableError
from runner.ports.executor import OF_FOLDER, Began, Ended, Event, Failed, Progress, Work
from runner.ports.task import CHARGED, FAILED_SHARE, SPENT
from runner.ports.trial import TrialConfig
from runner.storage.mirror import Mirror
from runner.tasks.rewards import NOTED
from runner.trainers.launch import masked
from runner.training.trial import OpenTrial, remove_aside_files

SECONDS_BETWEEN_REPORTS = 1.0
SECONDS_BETWEEN_CHECKPOINTS = 600.0
LOG = "worker.log"
TAIL_CHARACTERS = 2000


class _Trial(OpenTrial):
    """The trial that is in memory, and whose it is."""

    def __init__(
        self, backend: TrainerBackend, work: Work, config: TrialConfig, step: int | None, mirror: Mirror | None
    ) -> None:
        super().__init__(backend, Path(work.folder), step)
        self._of = (work.trial, config, work.folder)
        self._mirror = mirror
        self._warned, self._spent = False, dict.fromkeys((*SPENT, *CHARGED), 0.0)
        self.notes: list[str] = []
        if step is None and work.from_step:
            self.notes.append(f"begins anew instead of going on from step {work.from_step}: no checkpoint can be read")
        elif step is not None and step < work.from_step:
            self.notes.append(f"goes on from step {step} instead of {work.from_step}: no newer checkpoint is sound")

    def can_take(self, work: Work, config: TrialConfig) -> bool:
        return (*self._of, self.step) == (work.trial, config, work.folder, work.from_step)

    def watch_rewards(self, point: Point) -> None:
        """Add up what judge and service charge, and note once where too many rewards failed to trust the scores."""
        for name in self._spent:
            self._spent[name] += point.metrics.get(name, 0.0)
        share = max(point.metrics.get(name, 0.0) for name in (FAILED_SHARE, f"validation_{FAILED_SHARE}"))
        if share > NOTED and not self._warned:
            self._warned = True
            why = ": ".join(["", *point.metrics.get("notes", [])[:1]])
            self.notes.append(f"{percent(share, 1)} of the rewards of step {point.optimizer_step} failed{why}")

    def drain_notes(self) -> tuple[str, ...]:
        """Return what is to be noted of a segment, once."""
        calls, dollars, read, sampled, trained, charged = self._spent.values()
        judge = [f"a judge was called {calls:,.0f} times" + (f", for ${dollars:,.2f}" if dollars else "")]
        used = f"the service read {read:,.0f} tokens, sampled {sampled:,.0f} and trained on {trained:,.0f}"
        service = [used + (f", for ${charged:,.2f}" if charged else "")]
        backend: Any = self._backend
        notes_of_backend, backend.notes = getattr(backend, "notes", ()), ()
        notes, self.notes, self._spent = self.notes, [], dict.fromkeys((*SPENT, *CHARGED), 0.0)
        return (*notes_of_backend, *notes, *(judge if calls else ()), *(service if read else ()))

    def store(self, segment: int) -> str | None:
        """Store a copy of what is saved, where there is a place for it."""
        if self._mirror is None:
            return None
        url, notes = self._mirror.store(segment)
        self.notes += notes
        return url


class Worker:
    """Executes one segment after the other; between two of the same trial the model stays in memory."""

    def __init__(
        self,
        name: str,
        seconds: Callable[[], float],
        report: Callable[[Event], None],
        opening: Callable[[TrialConfig], TrainerBackend] = open_backend,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds` is how long the worker has lived."""
        self._name = name
        self._seconds = seconds
        self._post = report
        self._secrets: Sequence[str] = ()  # names of those that the trainer of the segment has
        self._opening = opening
        self._clock = clock
        self._log = TrialLog()
        self._trial: _Trial | None = None
        self._accounted = 0.0  # of its life, in segments that are over

    def run(self, work: Work, stopping: Callable[[], bool]) -> bool:
        """Execute a segment and report everything of it; False when it failed, and its trial is no longer open."""
        self._secrets = (work.config.get("trainer") or {}).get("secrets", ())
        self._report(Began(work.segment, self._name, self._seconds()))
        with self._log.of(Path(work.folder)):
            try:
                over: Ended | Failed = self._executed(work, stopping)
            except BaseException as error:  # sys.exit() of a user's module must not take the worker along
                traceback.print_exc()
                self.close()
                remove_aside_files(Path(work.folder))
                kind, message = _classified(error)
                if kind in OF_FOLDER and _is_away(work):
                    kind = "lost"
                # Where somebody else's trainer broke down, what that has printed says more.
                tail = error.tail[-TAIL_CHARACTERS:] if isinstance(error, TrainingError) else ""
                over = Failed(work.segment, self._name, self._seconds(), kind, message, tail or self._log.tail())
        self._accounted = over.worker_seconds
        self._report(over)
        return isinstance(over, Ended)

    def close(self) -> None:
        """Free the trial that is open, saving nothing."""
        trial, self._trial = self._trial, None
        if trial is not None:
            try:
                trial.close()
            except Exception:  # a user's model or reward may raise anything; what led here is still to be reported
                traceback.print_exc()

    def _report(self, event: Event) -> None:
        self._post(without_secrets(event, self._secrets))

    def _executed(self, work: Work, stopping: Callable[[], bool]) -> Ended:
        def report(points: tuple[Point, ...]) -> None:
            self._report(Progress(work.segment, self._name, self._seconds(), points))

        batch = _Batch(work, report, self._clock)
        trial = self._opened(work, batch)
        saved_at = self._clock()

        def ends() -> bool:
            made = (trial.step or 0) > work.from_step  # before that it may still be starting
            out_of_time = made and self._seconds() - self._accounted >= work.most_seconds
            return out_of_time or stopping()

        try:
            # Told to stop before it has begun, it trains nothing; a base model is scored all the same.
            to_step = (trial.step or 0) if stopping() else work.to_step
            for point in trial.train(to_step, ends, work.update_seconds, work.reach):
                batch.add(point)
                trial.watch_rewards(point)
                if self._clock() - saved_at >= SECONDS_BETWEEN_CHECKPOINTS:
                    if not trial.saves_itself:
                        trial.save()
                    trial.store(work.segment)
                    saved_at = self._clock()
        finally:
            batch.send()
        saved = trial.save()
        checkpoint = trial.store(work.segment) or str(saved)
        return Ended(work.segment, self._name, self._seconds(), trial.step or 0, checkpoint, trial.drain_notes())

    def _opened(self, work: Work, batch: "_Batch") -> _Trial:
        config = TrialConfig.model_validate_json(json.dumps(work.config))
        if self._trial is not None and self._trial.can_take(work, config):
            return self._trial
        self.close()
        folder = Path(work.folder)
        if work.storage:
            folder.mkdir(parents=True, exist_ok=True)  # a machine may have folders of its own
        elif _is_away(work):
            raise CheckpointError(f"the sweep's folder {folder.parent} is not there")
        remove_aside_files(folder)
        mirror = Mirror(work.storage, folder, config) if work.storage else None
        fetched = mirror.fetch(work.from_step) if mirror else []
        backend = self._opening(config)
        try:
            step = _start_or_restore(backend, config, folder, work.from_step)
            trial = self._trial = _Trial(backend, work, config, step, mirror)
            trial.notes += fetched
        except BaseException:
            with suppress(Exception):  # the first error is the one that counts
                backend.close()
            raise
        batch.add(*trial.earlier)
        return trial


def without_secrets(event: Event, secrets: Sequence[str]) -> Event:
    """Return an event as it may be stored: the values of a trainer's secrets masked, wherever it has words."""

    def hidden(point: Point) -> Point:
        notes = [masked(note, secrets) for note in point.metrics.get("notes", ())]
        return replace(point, metrics={**point.metrics, "notes": notes}) if notes else point

    match event:
        case Failed():
            return replace(event, message=masked(event.message, secrets), tail=masked(event.tail, secrets))
        case Ended():
            return replace(event, notes=tuple(masked(note, secrets) for note in event.notes))
        case Progress():
            return replace(event, points=tuple(map(hidden, event.points)))
    return event


class _Batch:
    """New points of a segment, which are reported with the next score, or with the next one after a second."""

    def __init__(self, work: Work, report: Callable[[tuple[Point, ...]], None], clock: Callable[[], float]) -> None:
        self._work, self._report, self._clock = work, report, clock
        self._points: list[Point] = []
        self._sent_at = clock()

    def add(self, *points: Point) -> None:
        """Take points; what was committed before the segment is passed over when it is trained again."""
        # A trial that stands at step 0 may never have run, so the base model's score is reported (again).
        first = self._work.from_step
        self._points += [
            point for point in points if point.optimizer_step > first or point.optimizer_step == first == 0
        ]
        scored = any(point.score is not None for point in points)
        if scored or self._clock() - self._sent_at >= SECONDS_BETWEEN_REPORTS:
            self.send()

    def send(self) -> None:
        """Report what waits."""
        if self._points:
            points, self._points = tuple(self._points), []
            self._report(points)
        self._sent_at = self._clock()


def _is_away(work: Work) -> bool:
    """Whether the folder that all workers share is not there now; whoever makes one anew writes into nowhere."""
    return not work.storage and not Path(work.folder).parent.is_dir()


def _start_or_restore(backend: TrainerBackend, config: TrialConfig, folder: Path, from_step: int) -> int | None:
    try:
        return backend.restore(config, folder)
    except NotFoundError as error:
        if from_step > 0 and not isinstance(error, UnreadableError):
            raise CheckpointError(f"the trial stands at step {from_step}, but there is {error}") from error
    backend.start(config, folder)
    return None


def _classified(error: BaseException) -> tuple[str, str]:
    """Return the kind of a failure, and what happened in one sentence."""
    if isinstance(error, TrainingError):
        return error.kind, str(error)
    if isinstance(error, CheckpointError):
        return "checkpoint", str(error)
    if isinstance(error, ValidationError):
        mistakes = (f"{'.'.join(map(str, one['loc']))} = {one['input']!r}: {one['msg']}" for one in error.errors())
        return "input", f"the trial's configuration cannot be used: {'; '.join(mistakes)}"
    if isinstance(error, InputError | NotFoundError):
        return "input", str(error)
    if isinstance(error, MemoryError):
        return "out-of-memory", f"out of memory ({error}): use fewer rollouts per step or a larger machine"
    return "error", f"{type(error).__name__}: {error}"


class TrialLog:
    """What Python code prints and warns while a trial runs goes into the trial's folder.

    The streams outlive a trial, because loggers keep the one that they found when they were made.
    """

    def __init__(self) -> None:
        self._stream = _Redirected()
        self._path: Path | None = None

    @contextmanager
    def of(self, folder: Path) -> Iterator[None]:
        """Send stdout and stderr of this process to a trial's log."""
        self._path = folder / LOG
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
            self._stream.target = self._path.open("a", encoding="utf-8", errors="replace", buffering=1)
        try:
            with redirect_stdout(self._stream), redirect_stderr(self._stream):
                yield
        finally:
            target, self._stream.target = self._stream.target, None
            if target is not None:
                with suppress(OSError):
                    target.close()

    def tail(self) -> str:
        """Return the end of the newest trial's log."""
        if self._path is None:
            return ""
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4 * TAIL_CHARACTERS))  # a character is 4 bytes at most
            return file.read().decode("utf-8", errors="replace")[-TAIL_CHARACTERS:]
        return ""


class _Redirected(io.TextIOBase):
    """A stream whose target comes and goes."""

    def __init__(self) -> None:
        self.target: TextIO | None = None

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # a log that cannot be written must not end a trial
            (self.target or sys.__stderr__ or io.StringIO()).write(text)
        return len(text)
