"""What segments took: updates, from which later plans are priced, and start-ups, which price the sweep's own."""

import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from budgets.work import Phase
from planner.axes import MODEL, text_of
from planner.config.trainer import STANDIN
from planner.store.records import WHOLE
from planner.store.schema import CostRecord, Segment, SegmentOutcome
from planner.view import Axes, TrialView
from runner.ports.backend import Point
from runner.sweep.spec import SweepSpec
from runner.trainers.catalogue import always_apart

LEAST_HELD = 0.1  # of a start-up, where the trainer lives on: it saves and is waited for
NEWS = 0.25  # of a start-up: less of a difference is not told
ONCE_A_BATCH = (Phase.GENERATE.value, Phase.REWARD.value, Phase.REFERENCE.value)  # by our trainer, in its first update
FEWEST_UPDATES = 3  # the first ones of a process are slower than the rest


def cost_record(
    spec: SweepSpec, workload: dict[str, Any], trial: TrialView, points: Sequence[Point], at: datetime
) -> CostRecord | None:
    """Return the typical seconds of each phase over a segment's updates; None when they tell too little."""
    if spec.training.trainer is not None:
        return _of_outside(spec, workload, trial, points, at)
    updates = [point.metrics for point in points if _is_timed(point)]
    if len(updates) < FEWEST_UPDATES:
        return None
    # Where the batch grows, updates of other sizes took other times: the newest size counts.
    prompts = updates[-1].get("prompts_per_batch", trial.prompts_per_batch)
    updates = [each for each in updates if each.get("prompts_per_batch", trial.prompts_per_batch) == prompts]
    took = {each.value: [it["seconds"][each] for it in updates if it.get("seconds", {}).get(each)] for each in Phase}
    shares = dict.fromkeys(ONCE_A_BATCH, spec.recipe(trial.axes).schedule.updates_per_batch)
    return CostRecord(
        **_common(spec, workload, trial, at),
        prompts_per_batch=int(prompts),
        generated_rollouts=round(_mean(updates, "generated_rollouts")),
        trained_rollouts=round(_mean(updates, "trained_rollouts")),
        mean_response_tokens=_mean(updates, "response_tokens"),
        longest_response_tokens=max(
            float(each.get("longest_response_tokens", each["response_tokens"])) for each in updates
        ),
        seconds={name: statistics.median(each) / shares.get(name, 1) for name, each in took.items() if each},
        steps=len(updates),
    )


def _of_outside(
    spec: SweepSpec, workload: dict[str, Any], trial: TrialView, points: Sequence[Point], at: datetime
) -> CostRecord | None:
    """Return the typical seconds of whole updates of a trainer from outside, which cuts phases in its own way.

    Left out are updates with a validation or a save, and the first of a segment. Told is nothing by a stand-in, where
    the lengths or the number of rollouts are not known, or where generating has GPUs of its own: they are not recorded.
    """
    trainer, recipe = spec.training.trainer, spec.recipe(trial.axes)
    if trainer is None or trainer.name == STANDIN or spec.training.simulation is not None:
        return None
    if recipe.schedule.staleness_bound or recipe.filters.zero_variance == "refill" or always_apart(trainer.name):
        return None
    updates = [point.metrics for point in points[1:] if _is_timed(point) and point.score is None]
    took = [sum(value for name, value in each["seconds"].items() if name != "start_up") for each in updates]
    took = [each for each in took if each > 0]
    if len(took) < FEWEST_UPDATES or min(each["response_tokens"] for each in updates) <= 0:
        return None
    mean, rollouts = _mean(updates, "response_tokens"), trial.rollouts_per_prompt * trial.prompts_per_batch
    return CostRecord(
        **_common(spec, workload, trial, at),
        prompts_per_batch=trial.prompts_per_batch,
        generated_rollouts=rollouts,
        trained_rollouts=rollouts,
        mean_response_tokens=mean,
        longest_response_tokens=mean,
        seconds={WHOLE: statistics.median(took)},
        trainer=trainer.name,
        steps=len(took),
    )


def _common(spec: SweepSpec, workload: dict[str, Any], trial: TrialView, at: datetime) -> dict[str, Any]:
    """Return what a record says of a trial, whatever its updates took."""
    return {
        "at": at,
        "gpu": spec.resources.gpu,
        "generator_gpus": spec.resources.slots,
        "trainer_gpus": spec.resources.slots,
        "colocated": True,
        "model": text_of(trial.axes, MODEL) or str(workload["model"]),
        "recipe": spec.recipe(trial.axes).name,
        "rollouts_per_prompt": trial.rollouts_per_prompt,
        "mean_prompt_tokens": float(workload["prompt_tokens"]),
        "trial_id": trial.trial,
    }


class ShortSegments:
    """Updates of segments with too few to tell a cost, such as a final run's from one validation to the next."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[Point]] = {}

    def with_earlier(self, trial: int, points: Sequence[Point]) -> Sequence[Point]:
        """Return a segment's points behind those that wait; where they are too few still, they wait for the next."""
        together = [*self._waiting.pop(trial, ()), *points]
        timed = [point for point in together if _is_timed(point)]
        if len(timed) < FEWEST_UPDATES:
            self._waiting[trial] = timed
        return together


class StartUps:
    """GPU-hours that a segment takes beside its updates: what the plan has for them, until they were measured.

    Somebody else's trainer that lives on between two segments starts once, one that does not starts for each: so what
    the segments took whose worker held the trial already is kept apart.
    """

    def __init__(self, planned: Mapping[Axes, float], otherwise: float, *, measures: bool) -> None:
        """Take the plan's start-ups by axes, and the one of all; a sweep that does not measure keeps to them."""
        self._planned, self._otherwise, self._measures = planned, otherwise, measures
        self._took: dict[tuple[Axes, bool], list[float]] = {}
        self._holders: dict[str, int] = {}  # the trial that a worker has in its memory
        self._last_count, self._last_typical = 0, max(planned.values(), default=otherwise)
        self.measured = 0

    def note(self, axes: Axes, gpu_hours: float, *, held: bool) -> None:
        """Take in what a segment took beside its updates."""
        if self._measures:
            self._took.setdefault((axes, held), []).append(gpu_hours)
            self.measured += 1

    def at_least(self, axes: Axes, gpu_hours: float) -> None:
        """Take in what a segment took that made no update: its start-up is no shorter than that."""
        if gpu_hours > self.of(axes):
            self.note(axes, gpu_hours, held=False)

    def of(self, axes: Axes, *, held: bool = False) -> float:
        """Return what is to be expected: the median of what was measured, of other axes where these have none."""
        if held:  # the end of a budget would else go into ever smaller segments
            return max(self._expected(axes, True), LEAST_HELD * self._expected(axes, False))
        return self._expected(axes, False)

    def _expected(self, axes: Axes, held: bool) -> float:
        planned = self._planned.get(axes, self._otherwise)
        for kind in (held, False):
            if own := self._took.get((axes, kind)):
                return statistics.median(own)
            if others := self._of_all(kind):
                typical = statistics.median(each for each, _ in others)
                ratios = [each / its for each, its in others if its > 0]
                return planned * statistics.median(ratios) if ratios and planned > 0 else typical
        return planned

    @property
    def typical(self) -> float:
        """What a new worker takes to start any trial: the largest that is expected."""
        return max((self.of(axes) for axes in self._planned), default=self._otherwise)

    def news(self) -> str | None:
        """Return a sentence when start-ups turned out clearly other than was said, or planned, before."""
        now, before = self.typical, self._last_typical
        if not self.measured or abs(now - before) <= NEWS * max(now, before):
            return None
        self._last_typical = now
        planned = max(self._planned.values(), default=self._otherwise)
        return (
            f"a segment takes {now:.3g} GPU-hours beside its updates, as measured on {self.measured} (the plan has "
            f"{planned:.3g}): prices, reservations and the length of segments heed it"
        )

    @property
    def has_grown(self) -> bool:
        """Whether clearly more was measured than when this was last asked."""
        if self.measured <= self._last_count + self._last_count // 4:
            return False
        self._last_count = self.measured
        return True

    def hold(self, worker: str, trial: int | None) -> None:
        """Note what a worker has in its memory now."""
        if trial is None:
            self._holders.pop(worker, None)
        elif self._measures:
            self._holders[worker] = trial

    def held_by(self, worker: str) -> int | None:
        """Return the trial that a worker has in its memory."""
        return self._holders.get(worker)

    def is_held(self, trial: int) -> bool:
        """Say whether a worker has a trial in its memory."""
        return trial in self._holders.values()

    def recall(self, segments: Sequence[tuple[Axes, Segment]]) -> None:
        """Take in the segments of an earlier driver, oldest first; none of their workers lives any more."""
        before: dict[str, int] = {}
        for axes, segment in segments:
            worker = segment.worker or ""
            if segment.start_up_gpu_hours is not None:
                self.note(axes, segment.start_up_gpu_hours, held=before.get(worker) == segment.trial_id)
            if segment.outcome is SegmentOutcome.COMMITTED:
                before[worker] = segment.trial_id

    def _of_all(self, held: bool) -> list[tuple[float, float]]:
        """Return what was measured of all axes, each with what the plan had for it."""
        return [
            (each, self._planned.get(axes, self._otherwise))
            for (axes, kind), took in self._took.items()
            if kind == held
            for each in took
        ]


def _is_timed(point: Point) -> bool:
    return point.optimizer_step > 0 and "response_tokens" in point.metrics


def _mean(updates: Sequence[dict[str, Any]], name: str) -> float:
    return statistics.fmean(float(each[name]) for each in updates)
