"""What the steps of adopted runs took, as measured costs: a record for each stretch of a run, in its order."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

from budgets.calibration import priced_phases, priced_whole
from budgets.coefficients import Coefficients
from budgets.work import Phase, total
from planner.proposals import Request
from planner.scripts.differences import Entry
from planner.scripts.records import LoggedRun
from planner.store.results import WHOLE
from planner.store.schema import CostRecord
from rlplan.actions.calibrating import measured_steps

MOST_STRETCHES = 10  # of a run: responses grow while it trains
STRETCH_STEPS = 5  # at least, so that one slow step is not the typical one
# What the cost model calls the phases of the trainers' logs.
PHASES = {
    "generate": Phase.GENERATE,
    "reward": Phase.REWARD,
    "logprob": Phase.OLD_LOG_PROBS,
    "reference": Phase.REFERENCE,
    "update": Phase.TRAIN,
    "sync": Phase.SYNC,
    "validation": Phase.EVALUATE,
    "save": Phase.SAVE,
}
OUTSIDE = ("validation", "save")


def source_of(entry: Entry) -> str:
    """Return what a run's costs are known by: its path."""
    return str(entry.run.path.expanduser().absolute())


def cost_rows(entry: Entry, request: Request, at: datetime, *, validations: bool) -> list[CostRecord]:
    """Return what typical steps of each stretch of a run took; none where its log times none.

    A validation has a price only where the number of its problems is known.
    """
    split, (n, B) = entry.split, entry.allocation
    generators, trainers, colocated = split.of(entry.settings.gpus or 1)
    asynchronous = split.asynchronous and not colocated
    untimed = {Phase.GENERATE} if asynchronous else set()  # such a log times the waiting for rollouts
    untimed |= set() if validations else {Phase.EVALUATE}
    rows = []
    for stretch in _stretches(entry.run):
        seconds = _seconds(entry.run, stretch, untimed)
        if not seconds:
            continue
        measured = stretch.typical("response_tokens") or entry.run.typical("response_tokens")
        mean = measured or request.workload.responses.mean
        row = CostRecord(
            at=at,
            gpu=request.hardware.gpu.name,
            generator_gpus=generators,
            trainer_gpus=trainers,
            colocated=colocated,
            model=request.workload.model.name,
            recipe=entry.settings.recipe or request.traits.name,
            rollouts_per_prompt=n,
            prompts_per_batch=B,
            generated_rollouts=round(stretch.typical("rollouts") or n * B),
            trained_rollouts=n * B,
            mean_prompt_tokens=stretch.typical("prompt_tokens") or request.workload.prompt_tokens,
            mean_response_tokens=mean,
            longest_response_tokens=max(mean, stretch.typical("longest_response_tokens") or 0.0),
            seconds=seconds,
            source=source_of(entry),
            trainer=entry.run.trainer,
            steps=len(stretch.steps),
            asynchronous=asynchronous,
            updates_per_step=split.updates,
            engine_gpus=split.engine_gpus,
            response_assumed=not measured,
        )
        rows.append(row)
    return rows


def times_their_price(records: Sequence[CostRecord], request: Request, known: Coefficients) -> float | None:
    """Return how many times their price whole steps took, as a geometric mean; None where no log times them."""
    logs = []
    for step in measured_steps(records, request.traits):
        if step.whole is not None:
            phases = priced_phases(request.workload, request.hardware.gpu, step, known)
            logs.append(math.log(step.whole / total(priced_whole(phases, step.traits))))
    return math.exp(statistics.fmean(logs)) if logs else None


def _stretches(run: LoggedRun) -> list[LoggedRun]:
    """Cut a run's updates into stretches of nearly equal length."""
    updates = [step for step in run.steps if step.step]
    count = max(1, min(MOST_STRETCHES, len(updates) // STRETCH_STEPS))
    bounds = [round(i * len(updates) / count) for i in range(count + 1)]
    return [replace(run, steps=tuple(updates[a:b])) for a, b in pairwise(bounds) if a < b]


def _seconds(run: LoggedRun, stretch: LoggedRun, untimed: set[Phase]) -> dict[str, float]:
    """Return the median seconds of a stretch's steps, by phase and as a whole without validations and saving."""
    phases = {PHASES[name]: took for name, took in stretch.phases().items() if name in PHASES}
    seconds = {phase.value: took for phase, took in phases.items() if phase not in untimed}
    earlier = {step.step: before.step for before, step in pairwise(run.steps)}
    updates = []
    for step in stretch.steps:
        outside = sum(step.seconds.get(phase, 0.0) for phase in OUTSIDE)
        if step.took is not None and step.took > outside:
            updates.append((step.took - outside) / (step.step - earlier.get(step.step, 0)))
    seconds |= {WHOLE: statistics.median(updates)} if updates else {}
    return {name: took for name, took in seconds.items() if took > 0}
