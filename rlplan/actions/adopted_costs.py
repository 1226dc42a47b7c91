"""What the steps of adopted runs took, as measured costs: a record for each stretch of a run, in its order."""

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

from budgets.calibration import priced_phases, priced_whole
from budgets.coefficients import Coefficients
from budgets.work import Phase, total
from planner.adopting.records import LoggedRun, Step
from planner.adopting.together import Entry
from planner.proposals import Request
from planner.store.records import WHOLE
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


def cost_rows(entry: Entry, request: Request, at: datetime, *, validations: bool) -> list[CostRecord]:
    """Return what typical steps of a run took, by phase and as a whole; none where its log times none.

    What a validation took tells of a price only where it is known how many problems it has.
    """
    rows = [_row(entry, steps, request, at, validations=validations) for steps in stretches(entry.run)]
    return [row for row in rows if row is not None]


def source_of(entry: Entry) -> str:
    """Return what a run's costs are known by: its path."""
    return str(entry.run.path.expanduser().absolute())


def stretches(run: LoggedRun) -> list[tuple[Step, ...]]:
    """Cut a run's updates into stretches of nearly equal length."""
    updates = [each for each in run.steps if each.step]
    count = max(1, min(MOST_STRETCHES, len(updates) // STRETCH_STEPS))
    bounds = [round(i * len(updates) / count) for i in range(count + 1)]
    return [tuple(updates[a:b]) for a, b in pairwise(bounds) if a < b]


def whole_seconds(run: LoggedRun, steps: Sequence[Step]) -> float | None:
    """Return the median seconds of a step from one update to the next, without validations and saving."""
    before_each = dict(zip((each.step for each in run.steps), (0, *(each.step for each in run.steps)), strict=False))
    took = []
    for each in steps:
        before = before_each[each.step]
        outside = sum(each.seconds.get(phase, 0.0) for phase in OUTSIDE)
        if each.took is not None and each.took > outside:
            took.append((each.took - outside) / (each.step - before))
    return statistics.median(took) if took else None


def times_their_price(records: Sequence[CostRecord], request: Request, known: Coefficients) -> float | None:
    """Return how many times their price whole steps took, as a geometric mean; None where no log times them."""
    logs = []
    for step in measured_steps(records, request.traits):
        if step.whole is not None:
            phases = priced_phases(request.workload, request.hardware.gpu, step, known)
            logs.append(math.log(step.whole / total(priced_whole(phases, step.traits))))
    return math.exp(statistics.fmean(logs)) if logs else None


def _row(
    entry: Entry, steps: tuple[Step, ...], request: Request, at: datetime, *, validations: bool
) -> CostRecord | None:
    run, split, (n, B) = replace(entry.run, steps=steps), entry.split, entry.allocation
    generators, trainers, colocated = split.of(entry.settings.gpus or 1)
    asynchronous = split.asynchronous and not colocated
    untold = {Phase.GENERATE} if asynchronous else set()  # such a log times the waiting for rollouts
    untold |= set() if validations else {Phase.EVALUATE}
    seconds = _seconds(run, whole_seconds(entry.run, steps), untold)
    if not seconds:
        return None
    measured = run.typical("response_tokens") or entry.run.typical("response_tokens")
    mean = measured or request.workload.responses.mean
    return CostRecord(
        at=at,
        gpu=request.hardware.gpu.name,
        generator_gpus=generators,
        trainer_gpus=trainers,
        colocated=colocated,
        model=request.workload.model.name,
        recipe=entry.settings.recipe or request.traits.name,
        rollouts_per_prompt=n,
        prompts_per_batch=B,
        generated_rollouts=round(run.typical("rollouts") or n * B),
        trained_rollouts=n * B,
        mean_prompt_tokens=run.typical("prompt_tokens") or request.workload.prompt_tokens,
        mean_response_tokens=mean,
        longest_response_tokens=max(mean, run.typical("longest_response_tokens") or 0.0),
        seconds=seconds,
        source=source_of(entry),
        trainer=entry.run.trainer,
        steps=len(steps),
        asynchronous=asynchronous,
        updates_per_step=split.updates,
        engine_gpus=split.engine_gpus,
        response_assumed=not measured,
    )


def _seconds(run: LoggedRun, whole: float | None, untold: Collection[Phase]) -> dict[str, float]:
    """Return what typical steps took by phase, but for those that are untold, and as a whole."""
    phases = {PHASES[name]: took for name, took in run.phases().items() if name in PHASES}
    seconds = {phase.value: took for phase, took in phases.items() if phase not in untold}
    seconds |= {} if whole is None else {WHOLE: whole}
    return {name: took for name, took in seconds.items() if took > 0}
