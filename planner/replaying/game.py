"""The state of a replay: what was trained so far, what a policy sees of it, and what its actions do.

Compute is cut into ticks, a step of any trial being one tick, so that prices are exact: what is trained is charged, and
nothing is reserved beyond that. Money and time are counted in ticks.
"""

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from budgets.errors import IllegalTransitionError, InputError
from planner.replaying.recorded import Recorded, Run
from planner.sweeping.actions import Action, Advance, Finish, Propose, Prune, Stop
from planner.sweeping.advancing import named_configuration
from planner.sweeping.policy import Policy
from planner.trials import TrialState, move
from planner.view import READY, Configuration, OpenCell, Seen, TrialView, View

TICKS: Final = 1000  # in the target, or in the longest run where all end before
LEAST_SEGMENT: Final = 1 / 50  # of the target
ROUNDING: Final = 1e-9  # of a tick


@dataclass(frozen=True, slots=True)
class Pilot:
    """What a plan grants the trials of a configuration; one that is not planned is open to be proposed."""

    gpu_hours: float
    segment_gpu_hours: float
    planned: bool = True


Pilots = Mapping[Configuration, Pilot]


@dataclass(frozen=True, slots=True)
class _Course:
    """All scores of a run that lie within the target, and the tick by which each is paid for."""

    seen: tuple[Seen, ...]
    ticks: Sequence[int]

    def upto(self, step: int) -> tuple[Seen, ...]:
        return self.seen[: int(np.searchsorted(self.ticks, step, side="right"))]


class Game:
    """A replay under way. Without pilots every run is a planned trial that may be trained to the target."""

    def __init__(
        self,
        recorded: Recorded,
        *,
        budget: float,
        target: float,
        seed: int,
        workers: int,
        pilots: Pilots | None = None,
        ticks: int = TICKS,
    ) -> None:
        """Lay out the trials in an order that is drawn."""
        self._tick = min(target, recorded.length) / ticks
        if self._tick <= 0:
            raise InputError("no recorded run has a score after it began: there is nothing to play over")
        self._budget, self._target, self._seed, self._workers = budget, target, seed, workers
        self._least_segment = math.ceil(ticks * LEAST_SEGMENT)
        self._pilots = pilots
        self._left = math.floor(budget / self._tick + ROUNDING)
        self._spent = self._now = self.decisions = self._started = 0
        self._running: list[tuple[int, int, int, int]] = []  # end, order, trial, ticks
        self._courses: dict[int, _Course] = {}
        self._trials: dict[int, TrialView] = {}
        self._closed: dict[Configuration, list[Run]] = {}
        self._open: dict[Configuration, OpenCell] = {}
        for run in recorded.in_order(seed):
            self._lay_out(run)
        if not self._trials:
            raise InputError("none of the recorded configurations is planned: grant at least one of them a pilot")
        self.first = next(iter(self._trials.values())).configuration

    @property
    def spent(self) -> float:
        """GPU-hours of the segments that have ended."""
        return min(self._spent * self._tick, self._budget)

    @property
    def wall_hours(self) -> float:
        """Hours since the beginning; a GPU-hour of a trial takes one of its worker."""
        return self._now * self._tick

    def view(self) -> View:
        """Return what a policy sees now."""
        return View(
            trials=dict(self._trials),
            gpu_hours_left=self._left * self._tick,
            target_gpu_hours=self._target,
            free_workers=self._workers - len(self._running),
            seed=self._seed,
            open_cells=dict(self._open),
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
                return

    def _carry_out(self, action: Action, policy: str) -> None:
        """Do what the policy wants; it is counted if anything came of it."""
        if isinstance(action, Advance):
            self._advance(action, policy)
            return
        if isinstance(action, Propose):
            self._propose(action, policy)
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
        ticks = min(min(action.to_step, trial.most_steps) - trial.step, self._left)
        if ticks < 1:
            return  # the money is out; the policy sees the same
        self._left -= ticks
        self._started += 1
        self.decisions += 1
        heapq.heappush(self._running, (self._now + ticks, self._started, action.trial, ticks))
        running = move(trial.state, TrialState.RUNNING)
        self._trials[action.trial] = replace(trial, state=running, scores=self._courses[action.trial].upto(trial.step))

    def _propose(self, action: Propose, policy: str) -> None:
        wanted = Configuration(action.rollouts_per_prompt, action.prompts_per_batch, action.axes)
        if wanted not in self._open:
            raise IllegalTransitionError(f"policy '{policy}' proposes {named_configuration(wanted)}, which is not open")
        del self._open[wanted]
        for run in self._closed.pop(wanted):
            self._add(run, proposed=True)

    def _end_next(self) -> None:
        """Go on to the next moment at which a segment ends; several may end at once."""
        self._now = self._running[0][0]
        while self._running and self._running[0][0] == self._now:
            _, _, number, ticks = heapq.heappop(self._running)
            trial = self._trials[number]
            step = trial.step + ticks
            self._spent += ticks
            self._trials[number] = replace(
                trial,
                state=move(trial.state, TrialState.PAUSED),
                step=step,
                gpu_hours_spent=step * self._tick,
                scores=self._courses[number].upto(step),
            )

    def _lay_out(self, run: Run) -> None:
        """Plan a trial of the run, or leave it among those of its open cell."""
        pilot = None if self._pilots is None else self._pilots.get(run.configuration)
        if self._pilots is None or (pilot is not None and pilot.planned):
            self._add(run, proposed=False)
        elif pilot is not None:
            n, B, axes = run.configuration
            least = max(1, self._ticks_of(pilot.gpu_hours))
            self._closed.setdefault(run.configuration, []).append(run)
            self._open[run.configuration] = OpenCell(n, B, least, self._tick, 0.0, axes)

    def _add(self, run: Run, *, proposed: bool) -> None:
        number = len(self._trials) + 1
        most = max(1, self._ticks_of(min(self._target, run.length)))
        pilot = None if self._pilots is None else self._pilots[run.configuration]
        n, B, axes = run.configuration
        self._courses[number] = self._course(run)
        self._trials[number] = TrialView(
            trial=number,
            name=run.name,
            rollouts_per_prompt=n,
            prompts_per_batch=B,
            seed=run.seed,
            state=TrialState.PLANNED,
            step=0,
            pilot_steps=most if pilot is None else min(most, max(1, self._ticks_of(pilot.gpu_hours))),
            segment_steps=self._segment(run, most, pilot),
            most_steps=most,
            gpu_hours_per_step=self._tick,
            start_up_gpu_hours=0.0,
            gpu_hours_spent=0.0,
            proposed=proposed,
            axes=axes,
        )

    def _course(self, run: Run) -> _Course:
        end = min(self._target, run.length) + ROUNDING * self._tick
        rows = np.flatnonzero(run.gpu_hours <= end)
        ticks = [self._ticks_of(float(gpu_hours)) for gpu_hours in run.gpu_hours[rows]]
        errors = run.standard_errors
        seen = tuple(
            Seen(
                tick, float(run.gpu_hours[row]), float(run.scores[row]), None if errors is None else float(errors[row])
            )
            for row, tick in zip(rows, ticks, strict=True)
        )
        return _Course(seen, ticks)

    def _segment(self, run: Run, most: int, pilot: Pilot | None) -> int:
        """Return the ticks of a segment: what the pilot says, or a fiftieth of the target, and no less than teaches.

        A segment without a score would teach nothing: it reaches the first score and spans the scores' median distance.
        """
        trained = run.gpu_hours[run.gpu_hours > 0]
        gaps = np.diff(run.gpu_hours) if run.gpu_hours.size > 1 else np.zeros(1)
        spacing = max(float(np.median(gaps)), float(trained[0]) if trained.size else 0.0)
        least = self._least_segment if pilot is None else self._ticks_of(pilot.segment_gpu_hours)
        return min(most, max(1, least, self._ticks_of(spacing)))

    def _ticks_of(self, gpu_hours: float) -> int:
        """Return the ticks that pay for so many GPU-hours."""
        return math.ceil(gpu_hours / self._tick - ROUNDING)
