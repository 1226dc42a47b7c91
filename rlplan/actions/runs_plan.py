"""The plan, the sweep and the step times of runs that exist, as rows of the database."""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from sqlalchemy.orm import Session

from budgets.allocation import Allocation
from budgets.calibration import priced_phases, priced_whole
from budgets.coefficients import Coefficients
from budgets.cost import step_cost
from budgets.errors import BudgetError, InputError
from budgets.signal import signal_fraction
from budgets.work import Phase, total
from planner.belief.pool import Pool
from planner.config import Resolved, resolved_values
from planner.proposals import Request, Variant, propose
from planner.scripts.differences import Entry
from planner.scripts.records import LoggedRun, gpu_hours
from planner.store import Store
from planner.store.costs import replace_costs
from planner.store.read_model import sweep_snapshot
from planner.store.results import WHOLE, add_points, open_segment, record_decision, settle_segment
from planner.store.schema import Candidate, CostRecord, Plan, Point, Segment, SegmentOutcome, SweepStatus, Trial
from planner.store.sweeps import add_cost_records, move_trial, save_plan
from planner.view import Configuration, TrialState
from rlplan.actions.calibration import calibration_of, measured_steps
from rlplan.actions.sweep_request import create
from rlplan.reading.plan_data import HardwareData, WorkloadData, new_candidates
from rlplan.wording.answers import plain
from runner.ports.executor import RealClock
from runner.ports.trial import TaskChoice
from runner.processes import this_driver
from runner.sweep.conclusions import Conclusions
from runner.sweep.journal import Journal
from runner.sweep.plan import SweepChoice, new_trial, sweep_spec
from runner.sweep.plan_rows import configuration_of
from runner.sweep.spec import SweepSpec
from runner.sweep.state import SweepState


def given_plan(
    request: Request, resolved: Resolved, candidates: Sequence[Candidate], pilot: float, final: float
) -> Plan:
    """Return the row of a plan with these candidates, and the GPU-hours of pilots and of the final run."""
    return Plan(
        budget_gpu_hours=pilot + final,
        pilot_gpu_hours=pilot,
        final_gpu_hours=final,
        recipe=", ".join(dict.fromkeys(variant.traits.name for variant in request.all_variants)),
        difficulty=request.difficulty,
        workload=plain(WorkloadData(request)),
        hardware=plain(HardwareData(request)),
        config=resolved_values(request, resolved),
        assumptions=[],
        outlook=[],
        rlplan_version=version("rlplan"),
        candidates=list(candidates),
    )


def given_candidate(
    request: Request,
    variant: Variant,
    allocation: Allocation,
    price: tuple[float, float, float],
    learning_rate: float,
    pilot: tuple[int, int, float],
    reason: str,
    rank: int = 1,
) -> Candidate:
    """Return the row of an allocation at a price of a step, with its interval.

    `pilot` are its steps, those of a segment, and its GPU-hours with a start-up.
    """
    low, middle, high = price
    steps, segment, gpu_hours = pilot
    return Candidate(
        rank=rank,
        rollouts_per_prompt=allocation.rollouts_per_prompt,
        prompts_per_batch=allocation.prompts_per_batch,
        update_steps=allocation.update_steps,
        pilot_steps=steps,
        gpu_hours_per_step=middle,
        gpu_hours_per_step_low=low,
        gpu_hours_per_step_high=high,
        segment_steps=segment,
        pilot_gpu_hours=gpu_hours,
        learning_rate=learning_rate,
        epochs=allocation.epochs(request.workload.prompt_set_size),
        signal_fraction=signal_fraction(variant.workload.pass_rates, allocation.rollouts_per_prompt),
        pilot_reason=reason,
        axes=variant.axes,
        recipe=variant.traits.name,
    )


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


def times_their_price(records: Sequence[CostRecord], request: Request, coefficients: Coefficients) -> float | None:
    """Return how many times their price whole steps took, as a geometric mean; None where no log times them."""
    logs = []
    for step in measured_steps(records, request.traits):
        if step.whole is not None:
            phases = priced_phases(request.workload, request.hardware.gpu, step, coefficients)
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


EXTERNAL = "adopted"  # the worker of their segments, and the task where nothing says on what they were trained


def plan_row(request: Request, resolved: Resolved, curves: Sequence[Entry], pilot: float, final: float) -> Plan:
    """Return the plan whose pilots the runs were: their allocations at the prices that were measured."""
    by_configuration: dict[Configuration, list[Entry]] = defaultdict(list)
    for entry in sorted(curves, key=lambda entry: entry.allocation):
        by_configuration[entry.configuration].append(entry)
    candidates = [
        _candidate(rank, request, seeds, final) for rank, seeds in enumerate(by_configuration.values(), start=1)
    ]
    return given_plan(request, resolved, candidates, pilot, final)


def _candidate(rank: int, request: Request, seeds: Sequence[Entry], final: float) -> Candidate:
    """Return the row of one configuration, which several seeds may have."""
    first = seeds[0]
    prices = sorted(price_per_step(entry) for entry in seeds)
    price = statistics.median(prices)
    longest = max(seeds, key=lambda entry: entry.run.last_step)
    last = longest.run.last_step
    variant = next((v for v in request.all_variants if v.axes == first.axes), request.all_variants[0])
    return given_candidate(
        request,
        replace(variant, axes=first.axes),
        Allocation(*first.allocation, max(1, int(final / price))),
        (prices[0], price, prices[-1]),
        first.learning_rate,
        (last, max(1, last // 4), max(longest.gpu_hours, last * price)),
        f"adopted: {', '.join(entry.run.name for entry in seeds)}",
        rank,
    )


def price_per_step(entry: Entry) -> float:
    """Return the GPU-hours of an update, validations between them included."""
    totals = gpu_hours(entry.run.steps, entry.settings.gpus or 1)
    updates = entry.run.last_step - entry.run.steps[0].step
    if updates < 1:
        return totals[-1] / max(1, entry.run.last_step)
    return max(totals[-1] - totals[0], 1e-12) / updates


def open_candidates(
    store: Store, request: Request, candidates: Sequence[Candidate], records: Sequence[CostRecord]
) -> list[Candidate]:
    """Return the cells of the grid that no run had, at the prices of all measured steps; none without money."""
    records_there = [*store.cost_records(gpu=request.hardware.gpu.name, model=request.workload.model.name), *records]
    if records_there:
        terms = (request.workload, request.hardware.gpu, request.traits, request.coefficients)
        coefficients = calibration_of(records_there, *terms).coefficients
        variants = tuple(replace(variant, coefficients=coefficients) for variant in request.variants)
        request = replace(request, coefficients=coefficients, variants=variants)
    try:
        proposed = new_candidates(propose(request))
    except (BudgetError, InputError):
        return []
    ratios = []  # of what the runs' steps took to their calibrated price
    for row in candidates:
        variant = next((v for v in request.all_variants if v.axes == row.axes), request.all_variants[0])
        size, workload = (row.rollouts_per_prompt, row.prompts_per_batch), variant.workload
        price = step_cost(workload, request.hardware, variant.traits, *size, variant.coefficients)
        ratios.append(row.gpu_hours_per_step / price.gpu_hours_per_step)
    factor = statistics.median(ratios)
    cells = {configuration_of(candidate) for candidate in candidates}
    others = [candidate for candidate in proposed if configuration_of(candidate) not in cells]
    for rank, row in enumerate(others, start=len(candidates) + 1):
        row.rank, row.pilot_reason = rank, "none of the adopted runs had it"
        row.update_steps, row.epochs = max(1, int(row.update_steps / factor)), row.epochs / factor
        row.gpu_hours_per_step *= factor
        row.gpu_hours_per_step_low *= factor
        row.gpu_hours_per_step_high *= factor
        row.pilot_gpu_hours_per_step, row.pilot_steps, row.pilot_gpu_hours = None, 0, 0.0
    return others


def spec_of(plan: Plan, choice: SweepChoice) -> SweepSpec:
    """Return the settings of the sweep; where nothing says what was trained on, it can be read but not gone on with."""
    if choice.problems is not None or choice.trainer is not None or plan.config["workload"]["task"]:
        return sweep_spec(plan, choice)
    spec = sweep_spec(plan, choice.model_copy(update={"simulation": {}}))
    task = TaskChoice(name=EXTERNAL, reward="exact")
    training = spec.training.model_copy(update={"simulation": None, "task": task})
    return spec.model_copy(update={"training": training})


def store_sweep(
    store: Store,
    plan: Plan,
    choice: SweepChoice,
    curves: Sequence[Entry],
    costs: Mapping[Path, Sequence[CostRecord]],
    problems: int | None,
    ends: SweepStatus,
) -> tuple[str, str, dict[Path, str]]:
    """Store a plan and a sweep whose trials are the runs, and what is concluded.

    Return the names of plan and sweep, and of each run's trial by its path.
    """
    clock, driver, trials = RealClock(), this_driver(), dict[Path, str]()
    with store.write() as session:
        plan_name = save_plan(session, plan, plan.candidates, clock.now())
        candidates = {configuration_of(candidate): candidate for candidate in plan.candidates}

        def planned(spec: SweepSpec) -> list[Trial]:
            rows = [(entry, candidates[entry.configuration]) for entry in curves]
            return [new_trial(spec, row, entry.axes, entry.learning_rate, entry.seed) for entry, row in rows]

        spec = spec_of(plan, choice)
        sweep, settings, stored = create(session, plan_name, spec, planned, driver, clock.now(), store.location)
        name = sweep.name
        for trial, entry in zip(stored, curves, strict=True):
            _store_training(session, trial, entry, problems, clock.now())
            reason = f"{entry.run.path}: {entry.run.score}, {entry.run.why}"
            record_decision(session, name, clock.now(), "adopt", reason, trial_id=trial)
            for cost in costs[entry.run.path]:
                cost.trial_id = trial
            store_costs(session, entry, costs[entry.run.path])
            trials[entry.run.path] = session.get_one(Trial, trial).name
    with store.read() as session:
        state = sweep_snapshot(session, name)
    board = SweepState(settings, state)
    board.fresh |= set(board.trials)
    journal = Journal(store, state.sweep.id, driver, clock, len(state.trials))
    conclusions = Conclusions(Pool(), board, journal)
    conclusions.fits()
    conclusions.recommend(so_far=ends is not SweepStatus.FINISHED)
    journal.end(ends)  # which lets go of the sweep
    return plan_name, name, trials


def store_costs(session: Session, entry: Entry, costs: Sequence[CostRecord]) -> None:
    """Store what a run's steps took, in place of what was stored of it when it was adopted before."""
    replace_costs(session, source_of(entry))
    add_cost_records(session, costs)


def _store_training(session: Session, trial: int, entry: Entry, problems: int | None, now: datetime) -> None:
    """Have a trial done what its run did, in one segment."""
    last, totals = entry.run.last_step, gpu_hours(entry.run.steps, entry.settings.gpus or 1)
    move_trial(session, trial, TrialState.RUNNING, now, f"adopted from {entry.run.path}")
    new = Segment(number=1, from_step=0, to_step=last, reserved_gpu_hours=totals[-1], worker=EXTERNAL)
    segment = open_segment(session, trial, new, now)
    add_points(session, _points(trial, segment, entry, totals, problems))
    settle_segment(session, segment, SegmentOutcome.COMMITTED, totals[-1], now, None, last, EXTERNAL)
    move_trial(session, trial, TrialState.PAUSED, now, f"its log ends at step {last}")
    move_trial(session, trial, TrialState.FINISHED, now, "trained elsewhere: it cannot go on here")


def _points(trial: int, segment: int, entry: Entry, totals: Sequence[float], problems: int | None) -> list[Point]:
    """Return the points of a run's steps; a score's error is binomial, half an answer off 0 and 1."""
    points, tokens, before = [], 0.0, 0
    answers = (problems or 0) * (entry.settings.validation_samples or 1)
    rollouts, gpus = math.prod(entry.allocation), entry.settings.gpus or 1
    for step, spent in zip(entry.run.steps, totals, strict=True):
        tokens += step.values.get("response_tokens", 0.0) * rollouts * (step.step - before)
        before, error = step.step, None
        if step.score is not None and answers:
            share = min(max(step.score, 0.5 / answers), 1 - 0.5 / answers)
            error = math.sqrt(share * (1 - share) / answers)
        metrics = {name: value for name, value in step.values.items() if math.isfinite(value)}
        point = Point(
            trial_id=trial,
            attempt=1,
            optimizer_step=step.step,
            rollouts=rollouts * step.step,
            tokens=round(tokens),
            seconds=spent * 3600 / gpus,
            gpu_hours=spent,
            score=step.score,
            score_standard_error=error,
            metrics={**metrics, "seconds": dict(step.seconds)} if metrics or step.seconds else None,
            segment_id=segment,
        )
        points.append(point)
    return points
