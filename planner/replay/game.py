"""The state of a replay: what was trained so far, what a policy sees of it, and what its actions do.

Money is kept as a sweep's driver keeps it: a segment is reserved before it starts, a worker that does not hold the
trial is charged with a start-up, and one that finds nothing to do is ended. Time is counted in GPU-hours of one worker.
Without a plan a trial's updates are ticks, thousandths of the target, and start-ups cost nothing.
"""

import heapq
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, repeat
from typing import Final, Required, TypedDict, Unpack

import numpy as np

from budgets.errors import IllegalTransitionError, InputError
from planner.axes import named_configuration
from planner.policy.actions import Action, Advance, Finish, Policy, Propose, Prune, Stop
from planner.policy.grants import Account, time_limit
from planner.replay.recorded import Recorded, RecordedRun
from planner.view import (
    READY,
    Champion,
    Configuration,
    OpenCell,
    PlanPrior,
    ScorePoint,
    TrialState,
    TrialView,
    View,
    move,
)


@dataclass(slots=True, eq=False)
class SimulatedWorker:
    """One life of a worker; the one that takes its place has another name."""

    name: str
    born: float
    accounted: float  # until when its life was in segments that are over
    folder: str | None = None  # of the trial in its memory
    step: int = -1


class Fleet:
    """At most so many workers; one is born when it is first needed and lives until it is lost."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise InputError(f"{size} workers: give at least 1")
        self.size = size
        self._idle: dict[SimulatedWorker, None] = {}  # the longest idle first
        self._holders: dict[str, SimulatedWorker] = {}  # idle workers by the trial that they hold
        self._alive: dict[SimulatedWorker, None] = {}
        self._numbers = count(1)

    @property
    def alive(self) -> list[SimulatedWorker]:
        """The workers that live now, in the order of their birth."""
        return list(self._alive)

    @property
    def idle(self) -> list[SimulatedWorker]:
        """The workers that hold no segment, the longest idle first."""
        return list(self._idle)

    def take(self, folder: str, now: float) -> SimulatedWorker:
        """Return an idle worker: the one that holds the trial, else a new one, else the one that was idle longest."""
        worker = self._holders.pop(folder, None)
        if worker is None and len(self._alive) < self.size:
            worker = SimulatedWorker(f"worker-{next(self._numbers)}", now, now)
            self._alive[worker] = None
            return worker
        if worker is None:
            worker = next(iter(self._idle))
            self._forget(worker)
        del self._idle[worker]
        return worker

    def park(self, worker: SimulatedWorker, folder: str | None, step: int, now: float) -> None:
        """Let a worker be idle, with a trial in its memory or none."""
        worker.accounted = now
        worker.folder, worker.step = folder, step
        self._idle[worker] = None
        if folder is not None:
            self._holders[folder] = worker

    def lose(self, worker: SimulatedWorker) -> None:
        """End a worker's life; another one can be born in its place."""
        self._forget(worker)
        self._idle.pop(worker, None)
        del self._alive[worker]

    def _forget(self, worker: SimulatedWorker) -> None:
        if worker.folder is not None and self._holders.get(worker.folder) is worker:
            del self._holders[worker.folder]


TICKS: Final = 1000  # in the target, or in the longest run where all end before
LEAST_SEGMENT: Final = 1 / 50  # of the target
ROUNDING: Final = 1e-9  # of a step


@dataclass(frozen=True, slots=True)
class PilotTerms:
    """What a trial of a configuration costs and is granted; one that is not planned is open to be proposed."""

    gpu_hours_per_step: float
    start_up_gpu_hours: float
    steps: int
    segment_steps: int
    most_steps: int
    planned: bool = True
    compared_per_gpu_hour: float = 1.0  # GPU-hours of the final run, which curves are over, for one of its own

    @property
    def compared_per_step(self) -> float:
        """How far a step goes along a curve."""
        return self.gpu_hours_per_step * self.compared_per_gpu_hour


Pilots = Mapping[Configuration, PilotTerms]


@dataclass(frozen=True, slots=True, order=True)
class _PlayedSegment:
    """A segment under way, known from its start to its end."""

    over_at: float
    order: int
    trial: int
    step: int
    worker: SimulatedWorker


class Terms(TypedDict, total=False):
    """What a policy plays with, and for."""

    budget: Required[float]  # GPU-hours for all trials together
    target: Required[float]  # GPU-hours of the final run, where configurations are compared
    seed: Required[int]  # of the order of the trials, and of the policy
    workers: int  # segments that run at once; a GPU-hour takes one of them an hour
    pilots: Pilots | None  # what a plan grants each configuration; else all may be trained to the target, at no start
    idle_gpu_hours: float  # what is set aside for workers that wait
    plan_prior: PlanPrior | None  # what that plan expected before any pilot
    rest_to_final: bool  # whether what is left of the budget lengthens the final run, so that a policy may leave some
    continues_pilot: bool  # whether the final run goes on from the pilot of what is chosen, and is so much longer
    champion: Champion | None  # whose own run is the final one, unless a challenger replaces it


class Game:
    """A replay under way. Without pilots every run is a planned trial that may be trained to the target."""

    def __init__(self, recorded: Recorded, **terms: Unpack[Terms]) -> None:
        """Lay out the trials in an order that is drawn."""
        budget, self._target, self._workers = terms["budget"], terms["target"], terms.get("workers", 1)
        for name, value in (("budget", budget), ("target", self._target), ("workers", self._workers)):
            if not (value > 0 and math.isfinite(value)):
                raise InputError(f"{name} {value}: it must be a positive number")
        self._tick = min(self._target, recorded.length) / TICKS
        if self._tick <= 0:
            raise InputError("no recorded run has a score after it began: there is nothing to play over")
        self._terms, self._pilots = terms, terms.get("pilots")
        self._account = Account(budget, idle=terms.get("idle_gpu_hours", 0.0))
        self._fleet = Fleet(self._workers)
        self._start_up = max(
            (pilot.start_up_gpu_hours for pilot in (self._pilots or {}).values() if pilot.planned), default=0.0
        )
        self._now = self._all_busy_at = 0.0
        self.decisions = self._started = 0
        self._running: list[_PlayedSegment] = []
        self._courses: dict[int, tuple[ScorePoint, ...]] = {}  # all scores within the target, by the trial
        self._trials: dict[int, TrialView] = {}
        self._closed: dict[Configuration, list[RecordedRun]] = {}
        self._open: dict[Configuration, OpenCell] = {}
        for run in recorded.in_order(terms["seed"]):
            self._lay_out(run)
        if not self._trials:
            raise InputError("none of the recorded configurations is planned: grant at least one of them a pilot")
        self.first = next(iter(self._trials.values())).configuration

    @property
    def spent(self) -> float:
        """GPU-hours of the segments that have ended, and of workers that waited in vain."""
        return self._account.ledger.spent

    @property
    def wall_hours(self) -> float:
        """Hours since the beginning; a GPU-hour of a trial takes one of its worker."""
        return self._now

    def view(self) -> View:
        """Return what a policy sees now."""
        return View(
            trials=dict(self._trials),
            gpu_hours_left=self._account.ledger.left,
            target_gpu_hours=self._target,
            free_workers=self._workers - len(self._running),
            seed=self._terms["seed"],
            open_cells=dict(self._open),
            plan_prior=self._terms.get("plan_prior"),
            rest_to_final=self._terms.get("rest_to_final", False),
            continues_pilot=self._terms.get("continues_pilot", False),
            champion=self._terms.get("champion"),
        )

    def views(self, policy: Policy) -> Iterator[View]:
        """Yield the view after each event, before the policy is asked about the same."""
        stopped = False
        while True:
            view = self.view()
            yield view
            before = self.decisions
            actions = [] if stopped else policy.decide(view)
            for action in actions:
                self._carry_out(action, policy.name)
            stopped = stopped or any(isinstance(action, Stop) for action in actions)
            if any(isinstance(action, Propose) for action in actions) and len(self._running) < self._workers:
                continue
            if self._running:
                self._end_next()
            elif stopped or self.decisions == before:
                self._end_idle(self._now)
                return

    def _carry_out(self, action: Action, policy: str) -> None:
        """Do what the policy wants; it is counted if anything came of it."""
        if isinstance(action, Advance):
            self._advance(action, policy)
            return
        if isinstance(action, Propose):
            cell = Configuration(action.rollouts_per_prompt, action.prompts_per_batch, action.axes)
            if cell not in self._open:
                raise IllegalTransitionError(
                    f"policy '{policy}' proposes {named_configuration(cell)}, which is not open"
                )
            del self._open[cell]
            for run in self._closed.pop(cell):
                self._lay_out(run, proposed=True)
        elif isinstance(action, Prune | Finish):
            trial = self._trials[action.trial]
            to = TrialState.PRUNED if isinstance(action, Prune) else TrialState.FINISHED
            self._trials[action.trial] = replace(trial, state=move(trial.state, to))
        self.decisions += 1

    def _advance(self, action: Advance, policy: str) -> None:
        trial = self._trials[action.trial]
        if trial.state not in READY or len(self._running) >= self._workers:
            raise IllegalTransitionError(
                f"policy '{policy}' wants to advance {trial.name}, which is {trial.state}, with {len(self._running)} "
                f"of {self._workers} workers taken"
            )
        price = trial.gpu_hours_per_step
        most = None if self._pilots is None else self._account.most_of_a_segment(trial, len(self._trials), price)
        granted = self._account.grant(trial, action.to_step, most)
        if granted is None:
            return  # the money is out; the policy sees the same
        key = str(trial.trial)
        self._account.ledger.reserve(key, granted.gpu_hours)
        worker = self._fleet.take(key, self._now)
        resumed = worker.folder == key and worker.step == trial.step
        begins = self._now + (0.0 if resumed else trial.start_up_gpu_hours)
        in_time = _steps(worker.accounted + time_limit(granted.gpu_hours, price) - begins, price)
        step = min(granted.to_step, trial.step + max(1, in_time))
        self._started += 1
        self.decisions += 1
        over_at = begins + (step - trial.step) * price
        heapq.heappush(self._running, _PlayedSegment(over_at, self._started, action.trial, step, worker))
        self._trials[action.trial] = replace(trial, state=move(trial.state, TrialState.RUNNING))

    def _end_next(self) -> None:
        """Go on to the next moment at which a segment ends; several may end at once."""
        moment = self._running[0].over_at
        # Workers for which nothing was found for as long as a new one would take to start end, as with a driver.
        if len(self._running) >= self._workers:
            self._all_busy_at = moment
        at = max(self._now, self._all_busy_at + self._start_up)
        if at < moment:
            self._end_idle(at)
            self._all_busy_at = at
        while self._running and self._running[0].over_at <= moment + ROUNDING * self._tick:
            segment = heapq.heappop(self._running)
            self._now = segment.over_at
            trial, worker, key = self._trials[segment.trial], segment.worker, str(segment.trial)
            course = self._courses[segment.trial]
            gpu_hours = self._account.unpaid(worker.name, self._now - worker.born)
            self._account.charge(key, worker.name, gpu_hours)
            self._fleet.park(worker, key, segment.step, self._now)
            self._trials[segment.trial] = replace(
                trial,
                state=move(trial.state, TrialState.PAUSED),
                step=segment.step,
                gpu_hours_spent=trial.gpu_hours_spent + gpu_hours,
                scores=course[: bisect_right(course, segment.step, key=lambda point: point.step)],
            )

    def _end_idle(self, at: float) -> None:
        for worker in self._fleet.idle:
            self._account.charge_idle(worker.name, self._account.unpaid(worker.name, at - worker.born))
            self._fleet.lose(worker)

    def _lay_out(self, run: RecordedRun, *, proposed: bool = False) -> None:
        """Plan a trial of the run, or leave it among those of its open cell."""
        pilot = self._pilot(run)
        if pilot is None:
            return
        if pilot.planned or proposed:
            self._add(run, pilot)
            return
        n, B, axes = run.configuration
        self._closed.setdefault(run.configuration, []).append(run)
        self._open[run.configuration] = OpenCell(
            n,
            B,
            pilot.steps,
            pilot.gpu_hours_per_step,
            pilot.start_up_gpu_hours,
            axes,
            compared_per_gpu_hour=pilot.compared_per_gpu_hour,
        )

    def _add(self, run: RecordedRun, pilot: PilotTerms) -> None:
        number = len(self._trials) + 1
        n, B, axes = run.configuration
        price = pilot.compared_per_step
        end = min(self._target, run.length) + ROUNDING * price
        errors = repeat(None) if run.standard_errors is None else run.standard_errors.tolist()
        self._courses[number] = tuple(  # scores within the target, each with the step by which it is paid for
            ScorePoint(_steps(gpu_hours, price), gpu_hours, score, error)
            for gpu_hours, score, error in zip(run.gpu_hours.tolist(), run.scores.tolist(), errors, strict=False)
            if gpu_hours <= end
        )
        self._trials[number] = TrialView(
            trial=number,
            name=run.name,
            rollouts_per_prompt=n,
            prompts_per_batch=B,
            seed=run.seed,
            state=TrialState.PLANNED,
            step=0,
            pilot_steps=pilot.steps,
            segment_steps=pilot.segment_steps,
            most_steps=pilot.most_steps,
            gpu_hours_per_step=pilot.gpu_hours_per_step,
            start_up_gpu_hours=pilot.start_up_gpu_hours,
            gpu_hours_spent=0.0,
            proposed=not pilot.planned,
            axes=axes,
            compared_per_gpu_hour=pilot.compared_per_gpu_hour,
        )

    def _pilot(self, run: RecordedRun) -> PilotTerms | None:
        """Return what the plan grants a trial of the run; without a plan, all of the run in segments that teach.

        A segment without a score would teach nothing: it reaches the first score and spans the scores' median distance.
        """
        if self._pilots is not None:
            return self._pilots.get(run.configuration)
        tick = self._tick
        most = max(1, _steps(min(self._target, run.length), tick))
        trained = run.gpu_hours[run.gpu_hours > 0]
        gaps = np.diff(run.gpu_hours) if run.gpu_hours.size > 1 else np.zeros(1)
        spacing = max(float(np.median(gaps)), float(trained[0]) if trained.size else 0.0)
        segment = min(most, max(1, math.ceil(TICKS * LEAST_SEGMENT), _steps(spacing, tick)))
        return PilotTerms(tick, 0.0, most, segment, most)


def _steps(gpu_hours: float, price: float) -> int:
    """Return the steps that take so many GPU-hours, the last one begun included."""
    return math.ceil(gpu_hours / price - ROUNDING)
