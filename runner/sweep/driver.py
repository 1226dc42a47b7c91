"""Drives a sweep: takes in what happened, asks the policy, stores both in one transaction, and hands out the work."""

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import func, select

from budgets.errors import CheckpointError, ClusterLostError, NotFoundError, RlplanError, StoreUnavailableError
from planner.policy.actions import Policy
from planner.store import ReplacedError, Store, open_store
from planner.store.control import Driver, LeaseLostError, hold_lease
from planner.store.read_model import SweepSnapshot, sweep_snapshot
from planner.store.schema import Decision, SweepStatus
from planner.store.sweeps import sweep_named
from planner.view import READY, TrialState
from runner.ports.executor import Clock, Executor
from runner.sweep.conclusions import Concluding
from runner.sweep.dispatch import Dispatcher
from runner.sweep.holds import FolderWatch, Idleness, Requests
from runner.sweep.intake import SAVE_SOONER, UNSAVED, Intake
from runner.sweep.journal import UNSTORED, Journal, UnstoredError
from runner.sweep.recovery import Tidying, recover
from runner.sweep.spec import SweepSpec
from runner.sweep.state import SweepState
from runner.sweep.worker_records import worker_records
from runner.trainers.points import METRICS

TICK_SECONDS = 0.5
FEWEST_HOPELESS_TRIALS = 3
FEWEST_UNSAVED_TRIALS = 2
# After these no worker could save: the user is in a hurry, folder or room is gone, Ray is.
_ENDS_AT_ONCE = (KeyboardInterrupt, NotFoundError, CheckpointError, ClusterLostError)


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """A sweep as far as it went."""

    status: SweepStatus
    failed_trials: int
    all_failed: str | None  # the commonest reason when every trial that ran has failed
    spent_gpu_hours: float
    overrun_gpu_hours: float  # beyond the pilot budget, which only a worker that ignored its grant can cause
    decisions: int


class SweepDriver:
    """One driver's life with one sweep, whose lease it holds."""

    def __init__(
        self,
        store: Store,
        sweep: str,
        driver: Driver,
        spec: SweepSpec,
        executor: Executor,
        policy: Policy,
        concluding: Concluding,
        *,
        interrupted: Callable[[], bool] = lambda: False,
        require_folder: Callable[[], None] = lambda: None,
        silent_since: datetime | None = None,
        say: Callable[[str], None] = lambda text: None,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        """Read how the sweep stands, settle what a former driver left, and be ready to run.

        `interrupted` tells whether the user wants it to stop after the updates under way; `require_folder` raises when
        the sweep's folder is gone; `silent_since` is when a former driver was last heard of; `say` tells the
        user what the database cannot.
        """
        clock = executor.clock
        stands, last, notes = _taken_over(store, sweep, driver, spec, clock, silent_since)
        self._executor, self._tick = executor, tick_seconds
        self._interrupted = interrupted
        self._journal = Journal(store, stands.sweep.id, driver, clock, last, say, interrupted)
        self._requests = Requests(self._journal)
        self._board = SweepState(spec, stands)
        self._conclusions = concluding(self._board, self._journal)
        self._tidying = Tidying(self._board)
        self._intake = Intake(self._board, self._journal)
        self._dispatcher = Dispatcher(self._board, self._journal, self._intake, executor, policy)
        self._folder = FolderWatch(require_folder, self._board, self._intake, clock)
        self._idleness = Idleness(self._board, self._journal, executor, tick_seconds)
        for note in notes:
            self._journal.note("recovered", None, note)
        for trial in stands.trials:
            if trial.state is TrialState.LOST:
                self._intake.await_end(trial.id, (segment.id for segment in stands.segments[trial.id]))

    def run(self) -> SweepOutcome:
        """Run until nothing is left to do or the user wants to stop; a second interrupt stops at once."""
        try:
            interrupted = self._turns()
            self._end_workers("the executor was closed")
            if not interrupted:
                self._say_why_it_ends()
            self._fit()
            # A sweep whose last answer cannot be worked out has not ended.
            with self._journal.going_on("the answer so far was") if interrupted else nullcontext():
                self._conclusions.recommend(so_far=interrupted)
        except LeaseLostError:
            self._executor.close()  # the sweep is another's: what happens here must not be stored
            raise
        except BaseException as error:
            self._break_off(error)
            if not isinstance(error, KeyboardInterrupt):
                raise
            return self._finished(SweepStatus.INTERRUPTED)
        failed = self._hopeless() or self._board.failed() == len(self._board.trials)
        ended = SweepStatus.FAILED if failed else SweepStatus.FINISHED
        status = SweepStatus.INTERRUPTED if interrupted else ended
        self._journal.end(status, patiently=not interrupted)
        return self._finished(status)

    def _break_off(self, error: BaseException) -> None:
        """Let go of the sweep after an error; a mistake of ours costs nothing that can still be saved."""
        rescued = self._rescued() if isinstance(error, ReplacedError) else None
        if not isinstance(error, _ENDS_AT_ONCE):
            with suppress(Exception, KeyboardInterrupt):
                self._save_what_runs()
        self._intake.stopped = isinstance(error, KeyboardInterrupt)
        self._end_workers(str(error))
        if isinstance(error, ReplacedError) and rescued is None:
            raise ReplacedError(f"{error}, and could not be saved elsewhere") from error
        no_patience = KeyboardInterrupt | StoreUnavailableError | CheckpointError
        try:
            self._journal.end(SweepStatus.INTERRUPTED, patiently=not isinstance(error, no_patience))
        except StoreUnavailableError as unstored:
            if isinstance(error, CheckpointError):  # which says what has filled the disk
                raise CheckpointError(f"{error}. {UNSTORED}") from unstored
            raise
        if rescued is not None:
            self._journal.store.close()
            raise ReplacedError(
                f"{error}. The sweep was stopped, and all that is stored of it is saved in {rescued}: put that where "
                "the database was, without the -wal and -shm of another, and go on with `rlplan resume`"
            ) from error

    def _rescued(self) -> Path | None:
        """Save what is open of a database whose file is gone, and have the rest stored there; None where it fails."""
        with suppress(RlplanError, OSError, sqlite3.Error):
            path = self._journal.store.rescue(self._executor.clock.now())
            self._journal.store = open_store(path)
            return path
        return None

    def _save_what_runs(self) -> None:
        """Have every segment end, saved, and wait for that as after an interrupt: until it ends, or hangs."""
        running = self._board.running
        for segment in running:
            self._dispatcher.stop(segment)
        while any(segment.worker is not None and not segment.killed for segment in running.values()):
            for event in self._executor.wait(self._tick):
                with suppress(Exception):  # it may be this event that nobody can take in
                    self._intake.take(event)
            self._dispatcher.end_hung()
            with suppress(Exception):  # or this that cannot be stored; no other driver may think that we are gone
                self._journal.commit()

    def _turns(self) -> bool:
        """Take turns until the sweep is over; return whether it was interrupted."""
        stopping: set[int] = set()
        while True:
            self._requests.poll()
            ending = self._interrupted() or self._requests.stopping
            if ending or self._hopeless():
                for segment in self._board.running.keys() - stopping:
                    self._dispatcher.stop(segment)
                stopping |= self._board.running.keys()
            if ending and not self._board.running:
                return True
            with suppress(UnstoredError):  # what runs goes on, and the user is heard
                self._begin_new(ending)
            on_hold = ending or self._interrupted() or self._requests.paused
            on_hold |= self._journal.behind or self._folder.is_missing
            if not self._board.running and not on_hold and self._nothing_comes():
                return False
            self._idleness.say_waiting(held=on_hold)
            self._idleness.release(paused=self._requests.paused)
            self._folder.take(self._executor.wait(self._tick))
            self._dispatcher.keep_within()
            self._dispatcher.end_hung()  # by what has come by now: the driver itself may have waited for a lock

    def _begin_new(self, ending: bool) -> None:
        """Decide what runs next, have it stored, and only then start it."""
        if not ending:
            if not (self._requests.paused or self._journal.behind or self._folder.is_missing):
                self._intake.again(self._executor.clock.seconds())
                if not self._hopeless():
                    self._board.changed |= not self._board.running  # nothing ends before the policy had the last word
                    self._dispatcher.decide()
            self._fit()
        self._journal.commit()
        self._tidying.after_commit()
        self._dispatcher.start()
        with self._journal.going_on("the answer so far was"):
            self._conclusions.so_far()  # while the workers work

    def _fit(self) -> None:
        with self._journal.going_on("the fits of the curves were"):
            self._conclusions.fits()

    def _nothing_comes(self) -> bool:
        """Whether no lost trial waits to be tried again and the policy wants nothing, or nothing may start any more.

        While no worker is free, the policy is not asked: on a cluster that others fill, or where a worker that was let
        go is not gone yet, this is no end.
        """
        over = self._dispatcher.stopped is not None or self._hopeless() is not None
        return over or not (self._board.due or self._board.changed)

    def _hopeless(self) -> str | None:
        """Say why no trial would fare better than those that have failed here; None as long as one may."""
        failures, failed = self._intake.failures, self._board.failed()
        anything = any(trial.step for trial in self._board.trials.values())
        if failures.get(METRICS, 0) > anything:  # of all trials alike, unless another got on
            return "what the trainer says of its steps cannot be read as its settings have it"
        if not failures or anything:
            return None
        if failures.get(UNSAVED, 0) >= FEWEST_UNSAVED_TRIALS:
            return f"{FEWEST_UNSAVED_TRIALS} trials have ended without a save, and none has got to one: {SAVE_SOONER}"
        if failed >= max(FEWEST_HOPELESS_TRIALS, self._executor.workers):
            return "every trial that ran has failed, and none has got anywhere"
        return None

    def _say_why_it_ends(self) -> None:
        if self._dispatcher.stopped is not None:
            return
        if (hopeless := self._hopeless()) is not None:
            reason = hopeless
        elif not any(trial.state in READY for trial in self._board.trials.values()):
            counts = Counter(str(trial.state) for trial in self._board.trials.values())
            kinds = f" ({', '.join(self._intake.failures)})" if self._intake.failures else ""
            ends = (f"{count} {state}{kinds if state == 'failed' else ''}" for state, count in counts.most_common())
            reason = f"every trial has ended: {', '.join(ends)}"
        else:
            gpu_hours_left = self._board.ledger.left
            reason = f"no segment that the policy wants is paid for by the {gpu_hours_left:.4g} GPU-hours that are left"
        self._journal.note("stop", None, reason)

    def _end_workers(self, reason: str) -> None:
        """End all workers, and charge every second of theirs."""
        for event in self._executor.close():
            self._intake.take(event)
        for segment in list(self._board.running.values()):
            self._intake.forsake(segment, reason)
        self._intake.settle(worker_records(Path(self._board.spec.folder)).values())

    def _finished(self, status: SweepStatus) -> SweepOutcome:
        self._tidying.after_commit()
        self._tidying.end()
        failed = self._board.failed()
        got_somewhere = any(trial.step for trial in self._board.trials.values())
        reasons = self._intake.failures
        return SweepOutcome(
            status=status,
            failed_trials=failed,
            all_failed=max(reasons, key=reasons.__getitem__) if failed and reasons and not got_somewhere else None,
            spent_gpu_hours=self._board.ledger.spent,
            overrun_gpu_hours=self._board.ledger.overrun,
            decisions=self._journal.decisions,
        )


def _taken_over(
    store: Store, sweep: str, driver: Driver, spec: SweepSpec, clock: Clock, silent_since: datetime | None
) -> tuple[SweepSnapshot, int, list[str]]:
    """Settle what a former driver left; return how the sweep stands then, its last decision, and what was found."""
    with store.write() as session:
        hold_lease(session, sweep_named(session, sweep).id, driver, clock.now())  # Ray's start may have taken long
        notes = recover(session, sweep, spec, clock, silent_since)
    with store.read() as session:
        stands = sweep_snapshot(session, sweep)
        last = session.scalar(select(func.max(Decision.number)).where(Decision.sweep_id == stands.sweep.id))
    return stands, last or 0, notes
