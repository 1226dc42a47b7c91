"""What a driver keeps in mind between two turns: the trials as the policy sees them, and the money.

It mirrors the database and is built from its rows alone: a driver that takes over knows all that the former did.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from budgets.work import Phase
from planner.axes import LEARNING_RATE, without
from planner.policy.final import LAST_MARGIN, measured_price
from planner.policy.grants import MARGIN, Account, idle_gpu_hours
from planner.store.read_model import SweepSnapshot, failures_since_success
from planner.store.schema import Candidate, Trial
from planner.store.schema import Point as StoredPoint
from planner.view import FINAL_POLICY, Axes, Configuration, ScorePoint, TrialState, TrialView, View
from runner.ports.backend import Point
from runner.sweep.plan_rows import configuration_of, plan_forecast, start_up_gpu_hours, start_ups
from runner.sweep.prices import Cells, StartUps, StepPrices, TrialSteps
from runner.sweep.spec import SweepSpec


@dataclass(slots=True)
class OpenSegment:
    """A segment under way."""

    trial: int
    number: int
    attempt: int
    from_step: int
    to_step: int
    reserved_gpu_hours: float
    started_at: datetime
    started_seconds: float  # by the executor's clock
    id: int = 0
    worker: str | None = None
    began_seconds: float = 0.0  # by the executor's clock: when its worker took it
    heard_seconds: float = 0.0  # by the executor's clock: its worker's last word
    asked_seconds: float | None = None  # likewise: when it was asked to stop
    killed: bool = False  # since it hung
    unpaid: bool = False  # since nothing was left to go on with, and nobody else wanted its end
    before_gpu_hours: float = 0.0  # of the worker's life until then that this segment is charged with
    waited_gpu_hours: float = 0.0  # the part of them in which the worker had nothing to do
    held: bool = False  # whether the worker had its trial in memory
    points: list[Point] = field(default_factory=list)  # of this segment, for the cost of a step

    @property
    def reservation(self) -> str:
        """The name of its reservation: a trial has one segment at a time, and that none an id before it is stored."""
        return f"trial {self.trial}"


@dataclass(slots=True)
class TrialFacts:
    """What a policy need not see of a trial."""

    config: dict[str, Any]
    folder: Path
    attempt: int
    segments: int  # that it was ever granted
    failures: int  # that count: since it last got further
    learning_rate: float
    recipe: str
    storage: str | None = None  # URL of its copy
    lost: bool = False  # until it is tried again
    saved_step: int = 0  # of its newest checkpoint when it last failed or was committed
    after_loss: bool = False  # whether points of a lost segment may come with those of the next
    unsaved_gpu_hours: float = 0.0  # of its last segment, where that ended before a save
    least_updates: int = 0  # of a segment with a save in it, where one without has shown it

    def failed(self, saved_step: int, *, counts: bool) -> None:
        """Count a failure, from anew where its attempt has saved more than those before."""
        if saved_step > self.saved_step:
            self.failures, self.saved_step = 0, saved_step
        self.failures += counts
        self.after_loss = True

    def committed(self, step: int) -> None:
        """Take in that it is saved at a step and goes well."""
        self.failures, self.saved_step, self.after_loss, self.unsaved_gpu_hours = 0, step, False, 0.0


class SweepState:
    """Trials, money and segments under way."""

    def __init__(self, spec: SweepSpec, state: SweepSnapshot) -> None:
        """Take in how a sweep stands; its open segments must have been settled before."""
        self.spec, self.sweep, self.plan = spec, state.sweep.name, state.plan
        self.running: dict[int, OpenSegment] = {}
        self.trials: dict[int, TrialView] = {}
        self.changed = True  # since the policy was last asked
        self.facts: dict[int, TrialFacts] = {}
        self.champion = spec.champion_terms
        self.fresh: set[int] = set()  # trials with scores that no stored fit rests on
        self.due: dict[int, float] = {}  # lost trials, and when each is tried again by the executor's clock
        candidates = state.plan.candidates
        self._plan_forecast = plan_forecast(state.plan, spec)
        typical = start_up_gpu_hours(candidates)
        self._is_final = spec.policy == FINAL_POLICY
        self._measures = self._is_final or spec.training.trainer is not None or self.champion is not None
        self.start_ups = StartUps(start_ups(candidates, typical), typical, measures=self._measures)
        self._cells, self._prices = Cells(spec, candidates, self.start_ups), StepPrices()
        self.account = Account(
            spec.pilot_gpu_hours,
            state.spent_gpu_hours,
            idle=self._idle_gpu_hours,
            charged=state.charged_to_workers,
            margin=LAST_MARGIN if self._is_final else MARGIN,
        )
        self.ledger = self.account.ledger
        for trial in state.trials:
            self.add(trial)
            self._recall(trial, state)
        segments = sorted(chain.from_iterable(state.segments.values()), key=lambda segment: segment.id)
        self.start_ups.recall([(self._start_of(segment.trial_id), segment) for segment in segments])
        self.reprice()

    def view(self, free_workers: int) -> View:
        """Return what a policy may see now."""
        return View(
            trials=MappingProxyType(self.trials),
            gpu_hours_left=self.ledger.left,
            target_gpu_hours=self.spec.target_gpu_hours,
            free_workers=free_workers,
            seed=self.spec.seed,
            open_cells=self._cells.open(),
            rest_to_final=self.spec.rest_to_final,
            continues_pilot=self.spec.continues_pilot,
            replicates=True,
            plan_prior=self._plan_forecast,
            champion=self.champion,
        )

    def candidate(self, configuration: Configuration) -> Candidate:
        """Return the plan's row for a configuration, whatever its learning rate where that is searched for."""
        return self._cells.row(configuration)

    def add(self, trial: Trial) -> None:
        """Take in a planned trial."""
        self.changed = True
        configuration = configuration_of(trial)
        self._cells.tried(configuration)
        candidate = self.candidate(configuration)
        self._prices.trials[trial.id] = TrialSteps(candidate.pilot_price)
        steps = candidate.pilot_steps or self._cells.shortest_pilot(candidate)
        is_champion = self.champion is not None and configuration in self.champion.candidates
        self.trials[trial.id] = TrialView(
            trial=trial.id,
            name=trial.name,
            rollouts_per_prompt=trial.rollouts_per_prompt,
            prompts_per_batch=trial.prompts_per_batch,
            seed=trial.seed,
            state=trial.state,
            step=0,
            pilot_steps=steps,
            segment_steps=candidate.segment_steps or max(1, steps // 4),
            most_steps=max(steps, candidate.update_steps),
            gpu_hours_per_step=self._prices.of(trial.id),
            start_up_gpu_hours=self.start_ups.of(without(trial.axes, LEARNING_RATE)),
            gpu_hours_spent=trial.gpu_hours_spent,
            # The plan's own trials have the sweep's seed.
            proposed=not is_champion
            and (candidate.pilot_steps == 0 or trial.axes != candidate.axes or trial.seed != self.spec.seed),
            axes=trial.axes,
            compared_per_gpu_hour=candidate.compared_per_pilot_gpu_hour,
        )
        self.facts[trial.id] = TrialFacts(
            config=trial.config,
            folder=Path(self.spec.folder) / trial.name,
            storage=self.spec.storage and f"{self.spec.storage}/{trial.name}",
            attempt=trial.attempt,
            segments=0,
            failures=0,
            learning_rate=trial.learning_rate,
            recipe=trial.recipe,
        )

    def most_of_a_segment(self, trial: TrialView) -> float:
        """Return the most GPU-hours that one segment may reserve; a champion is looked at whole, for none wait."""
        if self.champion is not None:
            return self.ledger.budget
        return self.account.most_of_a_segment(trial, len(self.trials), self._prices.trials[trial.trial].planned)

    @property
    def patience_seconds(self) -> float:
        """Seconds that workers may wait for a segment: until a new one would train, as far as that is set aside."""
        gpu_hours = self.start_ups.typical
        if self._measures:  # what was measured may be many times what the plan had
            gpu_hours = min(gpu_hours, self.account.idle_gpu_hours / self.spec.workers)
        return self.spec.resources.seconds(gpu_hours)

    def put(self, trial: int, **changes: Any) -> None:
        """Change what is seen of a trial."""
        self.changed = True
        self.trials[trial] = replace(self.trials[trial], **changes)

    def move(self, trial: int, state: TrialState) -> None:
        """Change a trial's state; a lost one rests, in the policy's eyes, before it is ready again in a new attempt."""
        facts = self.facts[trial]
        if state is TrialState.LOST:
            facts.lost = True
            state = TrialState.PAUSED if self.trials[trial].step else TrialState.PLANNED
        elif facts.lost:
            facts.lost = False
            facts.attempt += 1  # as it is in the database
        self.put(trial, state=state, resting=facts.lost)

    def scored(self, trial: int, points: Iterable[Point]) -> None:
        """Take in points of a trial; a step that was scored before keeps its place and takes the newer score."""
        if new := self.scores_of(trial, points):
            again = {point.step for point in new}  # steps that are done again after a loss
            earlier = [point for point in self.trials[trial].scores if point.step not in again]
            self.put(trial, scores=tuple(sorted([*earlier, *new], key=lambda point: point.step)))
            self.fresh.add(trial)

    def scores_of(self, trial: int, points: Iterable[Point | StoredPoint]) -> list[ScorePoint]:
        """Return the scores among points of a trial, by the metric that the sweep compares by."""
        metric, scores = self.spec.training.validation.target, []
        for point in points:
            measured = metric.of(point.score, point.score_standard_error, point.further_scores)
            if measured is not None:
                at = self.compared(trial, point.gpu_hours)
                took = ((point.metrics or {}).get("seconds") or {}).get(Phase.EVALUATE) or 0.0
                validation = at * took / point.seconds if point.seconds else 0.0
                scores.append(ScorePoint(point.optimizer_step, at, *measured, validation))
        return scores

    def compared(self, trial: int, gpu_hours: float) -> float:
        """Return what the final run would take for the training that took a trial so many GPU-hours of its own.

        By what was measured on its own GPUs, and by how the price model has the two of them.
        """
        return gpu_hours * self.trials[trial].compared_per_gpu_hour

    def committed(self, trial: int, step: int, points: Sequence[Point]) -> None:
        """Take in that a trial is saved at a step, after a segment with these points."""
        self.facts[trial].committed(step)
        self.put(trial, step=step)
        if points:
            self._measure(trial, points[0].gpu_hours, points[-1].optimizer_step, points[-1].gpu_hours)
        # Done again only when it rests on clearly more, since it touches every trial.
        if self._prices.rest_on_more or self.start_ups.has_grown:
            self.reprice()

    def _measure(self, trial: int, before: float, step: int, gpu_hours: float) -> None:
        """Note what a trial's updates took, and price its further ones by it."""
        self._prices.measure(trial, before, step, gpu_hours)
        if self._is_final:
            run, steps = self.trials[trial], self._prices.trials[trial]
            steps.newest = measured_price(run.scores, run.segment_steps) or steps.planned
        self.put(trial, gpu_hours_per_step=self._prices.of(trial))

    def began(self, segment: OpenSegment, worker: str, seconds: float, lived_gpu_hours: float) -> None:
        """Take in that a worker, which has lived so long, took a segment; its birth counts as a start-up."""
        segment.worker, segment.began_seconds, segment.heard_seconds = worker, seconds, seconds
        segment.before_gpu_hours = self.account.unpaid(worker, lived_gpu_hours)
        segment.waited_gpu_hours = segment.before_gpu_hours if self.account.charged(worker) else 0.0
        segment.held = self.start_ups.held_by(worker) == segment.trial
        self.holds(worker, segment.trial)

    def holds(self, worker: str, trial: int | None) -> None:
        """Take in which trial a worker has in its memory, none where it is gone or has failed."""
        before = self.start_ups.held_by(worker)
        self.start_ups.hold(worker, trial)
        for changed in {before, trial}:
            if changed is not None:
                self._price_start(changed)

    def forget(self, trial: int) -> None:
        """Take in that a trial has to be opened anew, whoever has it in memory."""
        for worker in self.start_ups.holders(trial):
            self.holds(worker, None)

    def started(self, segment: OpenSegment, charged_gpu_hours: float) -> float | None:
        """Return what an ended segment took beside its updates, and price further ones by it; None if none can tell.

        What follows a loss is none: points that its lost worker made come with those of the segment itself.
        """
        steps, axes = self._prices.trials[segment.trial], self._start_of(segment.trial)
        took = max(0.0, charged_gpu_hours - segment.waited_gpu_hours)
        made = [point for point in segment.points if point.optimizer_step > segment.from_step]
        after_loss = self.facts[segment.trial].after_loss
        if not self._measures or after_loss or (segment.from_step and not steps.made):
            return None
        if not made:
            self.start_ups.at_least(axes, took)
            return None
        before = segment.points[0].gpu_hours if steps.before is None else steps.before
        start_up = max(0.0, took - (made[-1].gpu_hours - before - steps.took))
        self.start_ups.note(axes, start_up, held=segment.held)
        return start_up

    def charge(self, segment: OpenSegment, worker: str | None, gpu_hours: float) -> None:
        """Close a segment's reservation with what its worker has used, and count it to the trial."""
        self.account.charge(segment.reservation, worker, gpu_hours)
        self.put(segment.trial, gpu_hours_spent=self.trials[segment.trial].gpu_hours_spent + gpu_hours)

    def failed(self) -> int:
        """Return how many trials have failed."""
        return sum(trial.state is TrialState.FAILED for trial in self.trials.values())

    def _recall(self, trial: Trial, state: SweepSnapshot) -> None:
        segments = state.segments.get(trial.id, [])
        facts = self.facts[trial.id]
        step = state.committed_step(trial.id)
        facts.committed(step)
        facts.segments, facts.failures = len(segments), state.failures.get(trial.id, 0)
        facts.after_loss = failures_since_success(segments) > 0
        self.put(trial.id, step=step, scores=tuple(state.scores.get(trial.id, ())))
        trained = state.trained.get(trial.id)
        if trained is not None:
            self._measure(trial.id, trained.first_gpu_hours, trained.last_step, trained.last_gpu_hours)

    def reprice(self) -> None:
        """Let all that was measured correct the plan's prices, whatever the order in which it came."""
        self._prices.correct()
        self._cells.reprice(self._prices.factor)
        for trial, view in self.trials.items():
            price = self._prices.of(trial)
            if price != view.gpu_hours_per_step:
                self.put(trial, gpu_hours_per_step=price)
            self._price_start(trial)
        self.account.set_aside(self._idle_gpu_hours)

    def start_up(self, trial: int) -> float:
        """Return what a segment of a trial takes beside its updates whose worker has to open it."""
        return self.start_ups.of(self._start_of(trial))

    def further_start_up(self, trial: int) -> float:
        """Return what each segment of a trial takes beside its updates whose worker has it in memory."""
        return self.start_ups.further(self._start_of(trial))

    @property
    def _idle_gpu_hours(self) -> float:
        """What is set aside for workers between segments; that of a final run goes on at once, or is ended."""
        start_up = 0.0 if self._is_final else self.start_ups.typical
        return idle_gpu_hours(self.spec.workers, start_up, self.spec.resources.slots)

    def _price_start(self, trial: int) -> None:
        is_held = self.start_ups.is_held(trial)
        if (
            self._is_final and is_held
        ):  # all of its segments are whole, so that the last ones need not be made worth while
            price = self.further_start_up(trial)
        else:
            price = self.start_ups.of(self._start_of(trial), held=is_held)
        if price != self.trials[trial].start_up_gpu_hours:
            self.put(trial, start_up_gpu_hours=price)

    def _start_of(self, trial: int) -> Axes:
        """Return what a trial's start-up depends on."""
        return without(self.trials[trial].axes, LEARNING_RATE)
