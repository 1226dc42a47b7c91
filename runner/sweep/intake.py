"""Takes in what the executor reports: points, ends, failures, and what each second of a worker is charged to."""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from sqlalchemy import update

from budgets.errors import RlplanError
from planner.policy.actions import Why
from planner.store import results, sweeps
from planner.store.read_model import RETRY
from planner.store.schema import Charge, SegmentOutcome
from planner.store.schema import Point as StoredPoint
from planner.store.schema import Segment as SegmentRow
from planner.store.sweeps import add_cost_records
from planner.view import TrialState
from runner.ports.backend import Point
from runner.ports.executor import Began, Ended, Event, Failed, Gone, Progress
from runner.ports.trial import TrialConfig
from runner.sweep.journal import Journal
from runner.sweep.measurements import ShortSegments, cost_record
from runner.sweep.state import OpenSegment, SweepState, TrialFacts
from runner.sweep.worker_records import CLOCK_MARGIN_SECONDS, FormerWorkers, WorkerRecord, refused
from runner.trainers.catalogue import newest_step
from runner.training.trial import COLUMNS

# What may go well on another worker or a moment later; anything else would fail again in the same way.
PREEMPTED = "preempted"  # by its cluster's word the machine was only lent: no sign that it will happen again
PASSING = frozenset({"lost", "checkpoint", "hang", PREEMPTED})
SECONDS_UNTIL_ROOM = 15.0  # until a segment for which there was no room is asked for again
TAIL_CHARACTERS = 4000
STOPPED = "stopped at once: what it had not saved is lost"
UNSAVED = "unsaved"  # the failure of a trial that never got to a save
SAVE_SOONER = (
    "have its trainer save more often ([trainer] save_seconds), or let it have longer for a save "
    "([trainer.patience] stop_seconds)"
)
LONGER = 2.0  # times the segment that ended before a save: all such of a trial take no more than the last one twice


class Intake:
    """Applies events to the board and has the journal store them."""

    def __init__(self, board: SweepState, journal: Journal) -> None:
        """Work for one sweep."""
        self._board, self._journal = board, journal
        self._clock = journal.clock
        self._short = ShortSegments()
        self._ignored: set[int] = set()
        self._began_at = self._clock.seconds()
        self._asked: dict[str, float] = {}  # when each worker was asked for, by the driver's clock
        self._refused: set[str] = set()  # workers whose word on their lives was not charged
        self._former = FormerWorkers(Path(board.spec.folder), self._clock.seconds)
        self._given_up: dict[int, set[int]] = {}  # segments by trial whose workers may not know of it
        self.failures: dict[str, int] = {}  # how often each kind ended a trial
        self.stopped = False  # at once, by the user: what is lost then is no trial's failure

    def take(self, event: Event) -> None:
        """Apply one event; one of a segment that is over already is noted and changes nothing."""
        if isinstance(event, Gone):
            self._board.holds(event.worker, None)
            self._idle(event.worker, self._lived(event.worker, event.worker_seconds))
        elif (segment := self._board.running.get(event.segment)) is None:
            self._late(event)
        elif isinstance(event, Began):
            self._began(segment, event)
        elif isinstance(event, Progress):
            self._progress(segment, event.points)
        elif isinstance(event, Ended):
            self._ended(segment, event)
        else:
            self._failed(segment, event)

    def forsake(self, segment: OpenSegment, reason: str) -> None:
        """Count a segment as lost of which the executor can report nothing more."""
        gpu_hours = self._board.spec.resources.gpu_hours(self._clock.seconds() - segment.started_seconds)
        self._close(segment, SegmentOutcome.LOST, min(gpu_hours, segment.reserved_gpu_hours))
        self._lose(segment, "lost", reason, "")

    def put_back(self, segment: OpenSegment, reason: str) -> None:
        """Take a segment back for which there is no room: it costs nothing, and counts as no failure of its trial."""
        self._close(segment, SegmentOutcome.LOST, 0.0)
        self._board.due[segment.trial] = self._clock.seconds() + SECONDS_UNTIL_ROOM
        self._move(segment.trial, TrialState.LOST, reason)
        self._journal.note("no-room", segment.trial, f"{reason}; asked again in {SECONDS_UNTIL_ROOM:g} s")

    def again(self, now: float) -> None:
        """Let lost trials be tried again that have waited long enough and into whose folders nobody writes."""
        for trial in [trial for trial, due in self._board.due.items() if due <= now]:
            if not self._former.have_ended(self._given_up.get(trial, ())):
                continue
            self._given_up.pop(trial, None)
            del self._board.due[trial]
            state = TrialState.PAUSED if self._board.trials[trial].step else TrialState.PLANNED
            self._move(trial, state, "tried again")

    def await_end(self, trial: int, segments: Iterable[int]) -> None:
        """Have a lost trial tried again once the workers of these segments have ended."""
        self._given_up[trial] = set(segments)
        self._board.move(trial, TrialState.LOST)
        self._board.due[trial] = self._clock.seconds()

    def _began(self, segment: OpenSegment, event: Began) -> None:
        self._asked.setdefault(event.worker, segment.started_seconds)
        lived = self._credible(event.worker, self._board.spec.resources.gpu_hours(event.worker_seconds))
        self._board.began(segment, event.worker, self._clock.seconds(), lived)
        start = {"worker": event.worker, "started_at": self._clock.now()}
        row = update(SegmentRow).where(SegmentRow.id == segment.id).values(**start)
        self._journal.add(lambda session: session.execute(row))

    def _progress(self, segment: OpenSegment, points: Sequence[Point]) -> None:
        self._journal.add_points([self._row(segment, point) for point in points])
        segment.points += points
        segment.heard_seconds = self._clock.seconds()

    def _ended(self, segment: OpenSegment, event: Ended) -> None:
        gpu_hours = self._lived(event.worker, event.worker_seconds)
        start_up = self._board.started(segment, gpu_hours)
        self._close(segment, SegmentOutcome.COMMITTED, gpu_hours, event.checkpoint, event.step, event.worker, start_up)
        self._board.scored(segment.trial, segment.points)
        self._board.committed(segment.trial, event.step, segment.points)
        if not self._unsaved(segment, event.step, gpu_hours):
            self._move(segment.trial, TrialState.PAUSED, f"saved at step {event.step}")
        with self._journal.going_on("a segment's cost and notes were"):
            self._learn(segment, event.notes)

    def _unsaved(self, segment: OpenSegment, step: int, gpu_hours: float) -> bool:
        """Note that a segment ended before a save; whether its trial fails, which never got to one."""
        board, trial, facts = self._board, self._board.trials[segment.trial], self._board.facts[segment.trial]
        made = max((point.optimizer_step for point in segment.points), default=segment.from_step) - segment.from_step
        by_itself = segment.asked_seconds is None
        if step > segment.from_step or not (segment.unpaid or (by_itself and made)):
            facts.least_updates = min(facts.least_updates, max(0, step - segment.from_step)) or facts.least_updates
            return False
        to_the_end = segment.from_step + made >= trial.most_steps
        facts.unsaved_gpu_hours = math.inf if to_the_end else gpu_hours
        facts.least_updates = max(1, math.ceil(LONGER * made))
        gpu_hours_left = min(board.ledger.left, board.account.share(len(board.trials)))
        lost = f"{made} updates after step {segment.from_step} ({gpu_hours:.3g} GPU-hours) were lost: no save came"
        if segment.unpaid or segment.from_step or LONGER * facts.unsaved_gpu_hours <= gpu_hours_left:
            self._journal.note(UNSAVED, segment.trial, f"{lost}; another segment has to be {LONGER:g} times as long")
            return False
        why = f"{lost}, and a longer segment may take {gpu_hours_left:.3g}: {SAVE_SOONER}"
        self._fail(segment.trial, UNSAVED, why, why)
        return True

    def _learn(self, segment: OpenSegment, notes: Sequence[str]) -> None:
        """Take in what an ended segment tells beside its trial's progress."""
        trial = self._board.trials[segment.trial]
        points = self._short.with_earlier(segment.trial, segment.points)
        record = cost_record(self._board.spec, self._board.plan.workload, trial, points, self._clock.now())
        if record is not None:
            self._journal.add(lambda session: add_cost_records(session, [record]))
        is_driven = self._board.spec.training.trainer is not None
        if is_driven and (news := self._board.start_ups.news()) is not None:
            self._journal.note("start-up", segment.trial, news)
        for note in notes:
            self._journal.note("note", segment.trial, note)

    def _failed(self, segment: OpenSegment, event: Failed) -> None:
        gpu_hours = 0.0 if event.worker is None else self._lived(event.worker, event.worker_seconds)
        outcome = SegmentOutcome.LOST if event.kind in ("lost", PREEMPTED) else SegmentOutcome.FAILED
        self._close(segment, outcome, gpu_hours, worker=event.worker)
        if event.worker is not None:
            self._board.holds(event.worker, None)
        elif outcome is SegmentOutcome.LOST:  # one may have taken it, and its word was lost on the way
            self._given_up.setdefault(segment.trial, set()).add(segment.id)
        self._lose(segment, event.kind, event.message, event.tail)

    def _lose(self, segment: OpenSegment, kind: str, message: str, tail: str) -> None:
        """Have the trial tried again after a while, if that may help and was not done too often; else it has failed."""
        # What stands is the score that the segment began with: it is stored, and read by who takes over.
        self._board.scored(
            segment.trial, [point for point in segment.points if point.optimizer_step <= segment.from_step]
        )
        spec, facts = self._board.spec, self._board.facts[segment.trial]
        counts = kind != PREEMPTED and not self.stopped
        facts.failed(_saved_step(facts), counts=counts)
        shown = tail[-TAIL_CHARACTERS:] or message
        if kind in PASSING and facts.failures <= spec.retries:
            wait = spec.backoff_seconds * 2 ** max(0, facts.failures - 1)
            self._board.due[segment.trial] = self._clock.seconds() + wait
            times = f"{facts.failures} of {spec.retries} times" if counts else "which does not count"
            reason = STOPPED if self.stopped else f"{kind}: {message}; tried again in {wait:g} s ({times})"
            self._move(segment.trial, TrialState.LOST, reason, kind, shown)
            self._journal.note(RETRY, segment.trial, reason, kind=kind, failures=facts.failures, wait_seconds=wait)
            return
        tried = f" after {facts.failures} failures without a newer checkpoint" if kind in PASSING else ""
        self._fail(segment.trial, kind, message, shown, tried)

    def _fail(self, trial: int, kind: str, message: str, shown: str, tried: str = "") -> None:
        """End a trial that has failed."""
        self.failures[kind] = self.failures.get(kind, 0) + 1
        failures = self._board.facts[trial].failures
        self._move(trial, TrialState.FAILED, f"{kind}: {message}{tried}", kind, shown)
        self._journal.note("failed", trial, f"{kind}{tried}: {message}", kind=kind, failures=failures)

    def settle(self, records: Iterable[WorkerRecord]) -> None:
        """Charge what workers lived beyond their last report, by their own word, when all of them are gone."""
        for record in records:
            lived = self._credible(record.worker, record.gpu_hours)
            self._idle(record.worker, self._board.account.unpaid(record.worker, lived))

    def _idle(self, worker: str, gpu_hours: float) -> None:
        if gpu_hours <= 0:
            return
        self._board.account.charge_idle(worker, gpu_hours)
        of = {"sweep_id": self._journal.sweep_id, "worker": worker}
        self._journal.add_row(Charge, **of, at=self._clock.now(), kind="idle", gpu_hours=gpu_hours)

    def _late(self, event: Began | Progress | Ended | Failed) -> None:
        """Pass over what a worker reports of a segment that was given up; its trial may be in other hands."""
        if event.segment in self._ignored:
            return
        self._ignored.add(event.segment)
        kind = type(event).__name__.lower()
        self._journal.note(
            "ignored",
            None,
            f"a late report ({kind}) of segment {event.segment} from {event.worker} was ignored: the segment is over",
            segment=event.segment,
            worker=event.worker,
        )

    def _lived(self, worker: str, worker_seconds: float) -> float:
        """Return the GPU-hours of a worker's life that nothing was charged with yet."""
        lived = self._credible(worker, self._board.spec.resources.gpu_hours(worker_seconds))
        return self._board.account.unpaid(worker, lived)

    def _credible(self, worker: str, lived_gpu_hours: float) -> float:
        """Return what a worker says that it lived; where it cannot have, the time since it was asked for.

        Of a former driver's worker only this driver's own time is known, and what it was charged with before that.
        """
        gpu_hours, asked_at = self._board.spec.resources.gpu_hours, self._asked.get(worker)
        before = 0.0 if asked_at is not None else self._board.account.charged(worker)
        most = before + gpu_hours(self._clock.seconds() - (self._began_at if asked_at is None else asked_at))
        if lived_gpu_hours <= most + gpu_hours(CLOCK_MARGIN_SECONDS):
            return lived_gpu_hours
        if worker not in self._refused:
            self._refused.add(worker)
            self._journal.note("clock", None, refused(worker, lived_gpu_hours, most))
        return before if asked_at is None else most

    def _close(
        self,
        segment: OpenSegment,
        outcome: SegmentOutcome,
        gpu_hours: float,
        checkpoint: str | None = None,
        reached_step: int | None = None,
        worker: str | None = None,
        start_up: float | None = None,
    ) -> None:
        board, key, now = self._board, segment.id, self._clock.now()
        del board.running[key]
        board.charge(segment, worker or segment.worker, gpu_hours)
        self._journal.add(
            lambda session: results.settle_segment(
                session, key, outcome, gpu_hours, now, checkpoint, reached_step, worker, start_up
            )
        )

    def _move(
        self,
        trial: int,
        state: TrialState,
        reason: str,
        failure_class: str | None = None,
        failure_tail: str | None = None,
    ) -> None:
        now = self._clock.now()
        self._board.move(trial, state)
        self._journal.add(
            lambda session: sweeps.move_trial(session, trial, state, now, reason, failure_class, failure_tail)
        )

    def decide(self, trial: int, state: TrialState, action: str, why: Why) -> None:
        """Move a trial because the policy said so."""
        if self._board.due.pop(trial, None) is not None:  # it was lost, and is decided on before it was tried again
            self._move(trial, self._board.trials[trial].state, "taken up again")
        self._move(trial, state, why.reason)
        self._journal.decided(action, trial, why)

    def _row(self, segment: OpenSegment, point: Point) -> StoredPoint:
        metrics = {**point.metrics, "flags": list(point.flags)} if point.flags else point.metrics
        compared = self._board.compared(segment.trial, point.gpu_hours)
        return StoredPoint(
            trial_id=segment.trial,
            attempt=segment.attempt,
            optimizer_step=point.optimizer_step,
            **{name: getattr(point, name) for name in COLUMNS},
            metrics=metrics or None,
            further_scores=dict(point.further_scores) or None,
            segment_id=segment.id,
            compared_gpu_hours=None if compared == point.gpu_hours else compared,
        )


def _saved_step(facts: TrialFacts) -> int:
    """Return the step of the newest checkpoint in a trial's folder; 0 where none is seen."""
    with suppress(OSError, RlplanError, ValueError):
        return newest_step(TrialConfig.model_validate(facts.config), facts.folder) or 0
    return 0
