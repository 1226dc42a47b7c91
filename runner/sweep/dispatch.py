"""Carries out what the policy wants: trials are moved, segments reserved, stored, and only then given to a worker."""

import math
import statistics
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from sqlalchemy.orm import Session

from budgets.errors import IllegalTransitionError, InputError
from planner.config.trainer import BUILTIN, Patience
from planner.policy.actions import Action, Advance, Finish, Policy, Propose, Prune, Stop, Why
from planner.policy.champion import most_of_challengers
from planner.policy.grants import Grant, time_limit
from planner.store import results, sweeps
from planner.store.schema import Segment, Trial
from planner.view import FINAL_POLICY, READY, Configuration, TrialState, TrialView
from runner.ports.executor import Executor, Failed, NoRoomError, Work
from runner.ports.trial import TrialConfig
from runner.sweep.final import HORIZON, MovingEnd
from runner.sweep.intake import LONGER, Intake
from runner.sweep.journal import Journal
from runner.sweep.plan import new_trial
from runner.sweep.plan_rows import rate_of
from runner.sweep.state import OpenSegment, SweepState
from runner.trainers.catalogue import driver_of, horizon_of
from runner.trainers.driver import TrainerDriver, can_be_asked

GROWTH = 0.25  # of a reservation that is used up, where the trainer cannot be asked to save
UPDATES_UNDER_WAY = 2.0  # of the longest that was seen: so long a segment that was to end has for its last one
MOST_ROUNDS = 8  # of asking the policy within one turn; it asks again only after it has planned a trial


class Dispatcher:
    """Asks the policy and turns its answers into rows and work."""

    def __init__(
        self,
        board: SweepState,
        journal: Journal,
        intake: Intake,
        executor: Executor,
        policy: Policy,
    ) -> None:
        """Work for one sweep."""
        self._board, self._journal, self._intake = board, journal, intake
        self._executor, self._policy = executor, policy
        self._length = MovingEnd(board, journal)
        self._starting: list[OpenSegment] = []
        self._planned: dict[str, Trial] = {}
        trainer = board.spec.training.trainer
        self._patience = trainer.patience if trainer is not None else Patience()
        self.stopped: str | None = None  # why the policy wants nothing more to start

    def decide(self) -> None:
        """Ask the policy as long as workers are free and it has something to do; the journal then holds all of it."""
        for _ in range(MOST_ROUNDS):
            free = self._executor.workers - len(self._board.running) - len(self._starting)
            if self.stopped is not None or free < 1 or not self._board.changed:
                return
            self._length.follow()
            self._board.changed = False
            actions = self._policy.decide(self._board.view(free))
            for action in actions:
                self._carry_out(action)
            if not any(isinstance(action, Propose) for action in actions):
                return
            self._journal.commit()  # only then the planned trials have the ids by which the policy names them
            self.start()

    def start(self) -> None:
        """Take in the trials, and give the segments to the executor, that were stored by now."""
        for row in self._planned.values():
            self._board.add(row)
        self._planned.clear()
        for segment in self._starting:
            self._board.running[segment.id] = segment
            try:
                self._executor.assign(self._work(segment))
            except NoRoomError as error:
                self._intake.put_back(segment, str(error))
            except InputError as error:
                self._intake.take(Failed(segment.id, None, 0.0, "input", str(error)))
        self._starting.clear()

    def keep_within(self) -> None:
        """Reserve more for segments that would be ended for nothing; end those for which none is left.

        They are those that are still starting when their grant is used up, looks that have no score yet, those that
        train on beyond their segment, and that save when they want.
        """
        board = self._board
        for segment in board.running.values():
            looks, saves_alone = self._looks(segment), self._saves_alone(segment.trial)
            scored = any(point.score is not None and point.optimizer_step > 0 for point in segment.points)
            made = any(point.optimizer_step > segment.from_step for point in segment.points)
            starts, goes_on = not (scored if looks else made), saves_alone or self._reach(segment) > segment.to_step
            if segment.worker is None or not (starts or looks or goes_on):
                continue
            if self._used(segment) < self._limit(segment, saves_alone=saves_alone):
                continue
            more = min((1.0 if starts else GROWTH) * segment.reserved_gpu_hours, self._room(segment))
            if more > 0 and (starts or goes_on):
                board.ledger.extend(segment.reservation, more)
                segment.reserved_gpu_hours += more
                self._executor.extend(segment.id, self._reserved_seconds(segment))
            else:
                segment.unpaid = segment.asked_seconds is None or segment.unpaid
                self.stop(segment.id)

    def _looks(self, segment: OpenSegment) -> bool:
        """Whether a segment of a sweep with a champion is to bring its trial's first score after the start."""
        scores = self._board.trials[segment.trial].scores
        return self._board.champion is not None and not any(0 < point.step <= segment.from_step for point in scores)

    def _room(self, segment: OpenSegment) -> float:
        """Return the most by which a reservation may grow: of a challenger what all of them may still take."""
        board, gpu_hours_left = self._board, self._board.ledger.left
        champion = board.champion
        if champion is None or board.trials[segment.trial].configuration in champion.candidates:
            return gpu_hours_left
        challengers = [trial for trial in board.trials.values() if trial.configuration not in champion.candidates]
        reserved = {running.trial: running.reserved_gpu_hours for running in board.running.values()}
        used = math.fsum(trial.gpu_hours_spent + reserved.get(trial.trial, 0.0) for trial in challengers)
        return min(gpu_hours_left, most_of_challengers(champion) - used)

    def stop(self, segment: int) -> None:
        """Ask a segment to end, saved, and note when: what does not end is killed."""
        self._executor.stop(segment)
        running = self._board.running.get(segment)
        if running is not None and running.asked_seconds is None:
            running.asked_seconds = self._executor.clock.seconds()

    def end_hung(self) -> None:
        """Kill workers that hang: neither the budget nor a stop ends them."""
        now, spec = self._executor.clock.seconds(), self._board.spec
        may_pause = spec.training.trainer is not None or spec.storage is not None
        for segment in self._board.running.values():
            if segment.worker is None or segment.killed:
                continue
            why = hung_because(segment, now, self._used(segment), self._patience, may_pause=may_pause)
            if why is not None:
                segment.killed = True
                self._executor.kill(segment.id, f"its worker hangs: {why}")

    def _used(self, segment: OpenSegment) -> float:
        """Return the GPU-hours that a segment is charged with if it ends now."""
        seconds = self._executor.clock.seconds() - segment.began_seconds
        return segment.before_gpu_hours + self._board.spec.resources.gpu_hours(seconds)

    def _limit(self, segment: OpenSegment, *, saves_alone: bool) -> float:
        """Return when a reservation counts as used up: where the next save is waited for, so much earlier."""
        reserved = segment.reserved_gpu_hours
        if saves_alone:
            return max(
                reserved - self._board.spec.resources.gpu_hours(self._patience.stop_seconds), reserved * (1 - GROWTH)
            )
        return time_limit(reserved, self._board.trials[segment.trial].gpu_hours_per_step)

    def _saves_alone(self, trial: int) -> bool:
        """Whether a trial's trainer cannot be asked to save, or did not: what follows its last checkpoint is lost."""
        if self._board.facts[trial].least_updates:
            return True
        driver = self._trainer
        return driver is not None and not can_be_asked(driver)

    @cached_property
    def _trainer(self) -> TrainerDriver | None:
        """The trainer that is driven, the same one for all trials; None where it is rlplan's own."""
        facts = next(iter(self._board.facts.values()))
        config = TrialConfig.model_validate(facts.config)
        return None if config.trainer is None or config.trainer.name == BUILTIN else driver_of(config)

    def _reach(self, segment: OpenSegment) -> int:
        """Return the update up to which a final run's trainer may train on without an end for each validation.

        One that can be asked to stop is told of more than is paid for now: its updates may turn out cheaper.
        """
        spec, run, driver = self._board.spec, self._board.trials[segment.trial], self._trainer
        is_last = segment.to_step >= run.most_steps
        if spec.policy != FINAL_POLICY or driver is None or not driver.trains_on or is_last:
            return segment.to_step
        horizon = horizon_of(TrialConfig.model_validate(self._board.facts[segment.trial].config))
        far = run.most_steps * (HORIZON if can_be_asked(driver) else 1)
        return min(limit for limit in (far, horizon, spec.most_steps) if limit is not None)

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, Advance):
            self._advance(action)
        elif isinstance(action, Prune):
            self._intake.decide(action.trial, TrialState.PRUNED, "prune", action.why)
        elif isinstance(action, Finish):
            self._intake.decide(action.trial, TrialState.FINISHED, "finish", action.why)
        elif isinstance(action, Propose):
            self._propose(action)
        elif isinstance(action, Stop):
            self.stopped = action.why.reason
            self._journal.decided("stop", None, action.why)

    def _advance(self, action: Advance) -> None:
        view, facts = self._board.trials[action.trial], self._board.facts[action.trial]
        if view.state not in READY:
            raise IllegalTransitionError(
                f"policy '{self._policy.name}' wants to advance {view.name}, which is {view.state}"
            )
        granted = self._granted(view, action.to_step)
        if granted is None:  # the money is out; the policy sees the same
            self._end_unsaved(view)
            return
        verb = "continue" if view.step else "start"
        details = {
            **action.why.figures,
            "to_step": action.to_step,
            "granted_to_step": granted.to_step,
            "reserved_gpu_hours": granted.gpu_hours,
        }
        self._intake.decide(action.trial, TrialState.RUNNING, verb, replace(action.why, figures=details))
        facts.segments += 1
        self._open(view.trial, view.step, granted)

    def _granted(self, view: TrialView, to_step: int) -> Grant | None:
        """Return what is reserved for a segment: enough for a save, where one has ended without any."""
        account, facts = self._board.account, self._board.facts[view.trial]
        if not facts.least_updates:
            return account.grant(view, to_step, self._board.most_of_a_segment(view))
        least = LONGER * facts.unsaved_gpu_hours
        if least > min(account.ledger.left, account.share(len(self._board.trials))):
            return None
        granted = account.grant(view, max(to_step, view.step + facts.least_updates), None)
        return granted and replace(granted, gpu_hours=max(granted.gpu_hours, least))

    def _end_unsaved(self, view: TrialView) -> None:
        """End a trial whose next save cannot be paid for, unless other segments may give back what it takes."""
        account, took = self._board.account, self._board.facts[view.trial].unsaved_gpu_hours
        share, underway = account.share(len(self._board.trials)), self._board.running or self._starting
        if not took or (underway and LONGER * took <= share):
            return
        gpu_hours_left = min(account.ledger.left, share)
        reason = (
            f"its last segment ended before a save, and {gpu_hours_left:.3g} GPU-hours are too few for a longer one"
        )
        self._intake.decide(view.trial, TrialState.PRUNED, "prune", Why(reason, {"took": took, "left": gpu_hours_left}))

    def _open(self, trial: int, from_step: int, granted: Grant) -> None:
        facts, clock = self._board.facts[trial], self._executor.clock
        segment = OpenSegment(
            trial=trial,
            number=facts.segments,
            attempt=facts.attempt,
            from_step=from_step,
            to_step=granted.to_step,
            reserved_gpu_hours=granted.gpu_hours,
            started_at=clock.now(),
            started_seconds=clock.seconds(),
        )
        self._board.ledger.reserve(segment.reservation, granted.gpu_hours)
        self._starting.append(segment)

        def store(session: Session) -> None:
            row = Segment(
                number=segment.number,
                from_step=from_step,
                to_step=granted.to_step,
                reserved_gpu_hours=granted.gpu_hours,
            )
            segment.id = results.open_segment(session, trial, row, segment.started_at)

        self._journal.add(store)

    def _propose(self, action: Propose) -> None:
        configuration = Configuration(action.rollouts_per_prompt, action.prompts_per_batch, action.axes)
        seed = self._board.spec.seed if action.seed is None else action.seed
        if any((trial.configuration, trial.seed) == (configuration, seed) for trial in self._board.trials.values()):
            raise IllegalTransitionError(
                f"policy '{self._policy.name}' wants to plan {configuration} with seed {seed}, of which the sweep has "
                "a trial"
            )
        candidate = self._board.candidate(configuration)
        now = self._executor.clock.now()

        def store(session: Session) -> None:
            new = new_trial(
                self._board.spec, candidate, configuration.axes, rate_of(candidate, configuration.axes), seed
            )
            self._planned[new.name] = session.get_one(Trial, sweeps.add_trial(session, self._board.sweep, new, now))

        self._journal.add(store)
        self._journal.decided("propose", None, action.why)

    def _work(self, segment: OpenSegment) -> Work:
        facts, resources = self._board.facts[segment.trial], self._board.spec.resources
        step = self._board.trials[segment.trial].gpu_hours_per_step
        # One whose trainer cannot save when it is to stop, or trains on, goes on as far as the budget does; a look
        # does until its first score.
        reach = self._reach(segment)
        endless = self._looks(segment) or self._saves_alone(segment.trial) or reach > segment.to_step
        limit = math.inf if endless else time_limit(segment.reserved_gpu_hours, step)
        return Work(
            segment=segment.id,
            trial=segment.trial,
            attempt=segment.attempt,
            config=facts.config,
            folder=str(facts.folder),
            from_step=segment.from_step,
            to_step=segment.to_step,
            most_seconds=resources.seconds(limit),
            reserved_seconds=self._reserved_seconds(segment),
            cpus=resources.cpus,
            gpus=resources.gpus,
            slots=resources.slots,
            update_seconds=resources.seconds(step),
            storage=facts.storage,
            reach=reach,
        )

    def _reserved_seconds(self, segment: OpenSegment) -> float:
        return self._board.spec.resources.seconds(segment.reserved_gpu_hours)


def hung_because(
    segment: OpenSegment, now: float, used_gpu_hours: float, patience: Patience, *, may_pause: bool
) -> str | None:
    """Return why the worker of a segment hangs and has to be killed; None while it may still be at work.

    `now` is by the executor's clock. A worker is silent while it validates or saves; where that may take long
    (`may_pause`), as with somebody else's trainer or a copy to make, it has `pause_seconds` more for each.
    """
    pause = patience.pause_seconds if may_pause else 0.0
    steps = [(b.seconds - a.seconds, b.optimizer_step - a.optimizer_step) for a, b in pairwise(segment.points)]
    updates = [seconds / made for seconds, made in steps if made > 0]
    ends = pause + max(patience.stop_seconds, UPDATES_UNDER_WAY * max(updates, default=0.0))
    silent = now - segment.heard_seconds
    if segment.asked_seconds is not None and now - segment.asked_seconds > ends:
        return f"it was asked to stop, and has not ended within {ends:,.0f} s (stop_seconds)"
    if used_gpu_hours > segment.reserved_gpu_hours and silent > ends:
        return f"what was reserved for it is used up, and nothing was heard of it for {silent:,.0f} s"
    most, key = patience.start_up_seconds, "start_up_seconds"
    if updates:
        most, key = max(patience.least_seconds, patience.median_steps * statistics.median(updates)), "least_seconds"
    if silent > most + pause:
        return f"nothing was heard of it for {silent:,.0f} s, and it has {most + pause:,.0f} s ({key})"
    return None
