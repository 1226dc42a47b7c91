"""What is left behind: by another driver, whose workers are charged for, and by pruned trials, whose saves go."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy.orm import Session

from budgets.errors import RlplanError
from planner.store import results, sweeps
from planner.store.read_model import SweepSnapshot, sweep_snapshot
from planner.store.schema import Charge, Segment, SegmentOutcome, Trial
from planner.view import TrialState
from runner.ports.executor import Clock
from runner.ports.trial import TrialConfig
from runner.storage.place import Place
from runner.sweep.spec import SweepSpec
from runner.sweep.state import SweepState
from runner.sweep.worker_records import CLOCK_MARGIN_SECONDS, WorkerRecord, refused, worker_records
from runner.trainers.catalogue import remove_checkpoints
from runner.training import checkpoints


def recover(
    session: Session, sweep: str, spec: SweepSpec, clock: Clock, silent_since: datetime | None = None
) -> list[str]:
    """Settle what a former driver left open, charge what its workers used, and return what was found.

    `silent_since` is when that driver was last heard of. A trial whose worker has not said its last word stays lost: it
    may still write into the trial's folder.
    """
    before = sweep_snapshot(session, sweep)
    records = worker_records(Path(spec.folder))
    age = max(clock.now(), silent_since or clock.now()) - before.sweep.created_at
    most = spec.resources.gpu_hours(age.total_seconds() + CLOCK_MARGIN_SECONDS)
    doubted = {name: record for name, record in records.items() if record.gpu_hours > most}
    by_segment = {record.segment: record for record in records.values() if record.segment is not None}
    charged = dict(before.charged_to_workers)
    notes = [refused(name, record.gpu_hours, most) for name, record in doubted.items()]
    for trial in before.trials:
        writing = False
        for segment in before.segments.get(trial.id, []):
            if segment.outcome is SegmentOutcome.RESERVED:
                record = by_segment.get(segment.id) or records.get(segment.worker or "")
                word = None if record is None or record.worker in doubted else record
                gpu_hours = _used(segment, word, charged, spec, silent_since)
                writing |= record is not None and not record.over
                worker = record.worker if record else None
                if worker is not None:
                    charged[worker] = charged.get(worker, 0.0) + gpu_hours
                now = clock.now()
                results.settle_segment(session, segment.id, SegmentOutcome.LOST, gpu_hours, now, worker=worker)
                notes.append(
                    f"{trial.name}: its segment from step {segment.from_step} was lost ({gpu_hours:.4g} GPU-hours)"
                )
        _set_up_again(session, trial, before, clock, writing=writing)
    for record in [record for name, record in records.items() if name not in doubted]:
        rest = record.gpu_hours - charged.get(record.worker, 0.0)
        if rest > 0:
            of = {"sweep_id": before.sweep.id, "worker": record.worker}
            session.add(Charge(**of, at=clock.now(), kind="lost", gpu_hours=rest))
    return notes


def _used(
    segment: Segment,
    record: WorkerRecord | None,
    charged: dict[str, float],
    spec: SweepSpec,
    silent_since: datetime | None,
) -> float:
    """Return what a lost segment used: by its worker's own word, or else the time until its driver fell silent.

    One that no worker has taken used nothing; only where machines have folders of their own may its record be missing.
    """
    if record is not None:
        return max(0.0, record.gpu_hours - charged.get(record.worker, 0.0))
    if segment.worker is None and spec.storage is None:
        return 0.0
    seconds = max(0.0, ((silent_since or segment.started_at) - segment.started_at).total_seconds())
    return min(segment.reserved_gpu_hours, spec.resources.gpu_hours(seconds))


def _set_up_again(session: Session, trial: Trial, before: SweepSnapshot, clock: Clock, *, writing: bool) -> None:
    """Move a trial that was running, or that waited to be tried again, to where it can be advanced."""
    if trial.state is TrialState.RUNNING:
        sweeps.move_trial(session, trial.id, TrialState.LOST, clock.now(), "its driver was interrupted", "lost", None)
        session.flush()
    if not writing and session.get_one(Trial, trial.id).state is TrialState.LOST:
        saved = before.committed_step(trial.id) > 0
        state = TrialState.PAUSED if saved else TrialState.PLANNED
        sweeps.move_trial(session, trial.id, state, clock.now(), "taken up again")


class Tidying:
    """Works beside the sweep, since what lies on shared storage takes a while to remove."""

    def __init__(self, board: SweepState) -> None:
        """Trials that were pruned before are looked at once more: a driver may have died in between."""
        self._board = board
        self._done: set[int] = set()
        self._thread = ThreadPoolExecutor(1, "tidying")

    def after_commit(self) -> None:
        """Have the files of what is newly pruned removed."""
        under_way = {segment.trial for segment in self._board.running.values()}
        for trial, view in self._board.trials.items():
            if view.state is TrialState.PRUNED and trial not in self._done | under_way:
                self._done.add(trial)
                facts = self._board.facts[trial]
                self._thread.submit(remove_saved, Path(facts.folder), facts.config, facts.storage)

    def end(self) -> None:
        """Wait for what is under way."""
        self._thread.shutdown()


def remove_saved(folder: Path, values: dict[str, Any], storage: str | None = None) -> None:
    """Remove all that a trial can be gone on from, here and where copies of it lie; its points and logs stay."""
    checkpoints.remove(folder)
    with suppress(RlplanError, ValidationError):  # a trial that nobody can open any more
        remove_checkpoints(TrialConfig.model_validate(values), folder)
    if storage is not None:
        with suppress(RlplanError):  # it does not answer now; the next driver tries again
            place = Place(storage)
            place.remove(place.names())
