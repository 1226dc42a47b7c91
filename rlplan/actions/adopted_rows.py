"""The rows that adopted runs become: a plan with their allocations, finished trials with points, measured costs."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy.orm import Session

from budgets.allocation import Allocation
from budgets.cost import step_cost
from budgets.errors import BudgetError, InputError
from planner.adopting.records import gpu_hours
from planner.adopting.together import Entry
from planner.config import Resolved
from planner.pooling.pool import Pool
from planner.proposals import Request, propose
from planner.store import Store
from planner.store.costs import replace_costs
from planner.store.results import add_points, open_segment, record_decision, settle_segment
from planner.store.schema import Candidate, CostRecord, Plan, Point, Segment, SegmentOutcome, SweepStatus, Trial
from planner.store.state import sweep_state
from planner.store.sweeps import add_cost_records, move_trial, plan_named, save_plan
from planner.trials import TrialState
from planner.view import Configuration
from rlplan.actions.adopted_costs import source_of
from rlplan.actions.calibrating import calibration_of
from rlplan.actions.given_plan import given_candidate, given_plan
from rlplan.actions.new_sweep import create
from rlplan.reading.plan_data import new_candidates
from runner.ports.executor import RealClock
from runner.ports.trial import TaskChoice
from runner.processes import this_driver
from runner.sweep.board import Board
from runner.sweep.concluding import Conclusions
from runner.sweep.journal import Journal
from runner.sweep.planning import SweepChoice, new_trial, sweep_spec
from runner.sweep.spec import SweepSpec

EXTERNAL = "adopted"  # the worker of their segments, and the task where nothing says on what they were trained


def plan_row(
    request: Request, resolved: Resolved, curves: Sequence[Entry], pilot: float, final: float
) -> tuple[Plan, list[Candidate]]:
    """Return the plan whose pilots the runs were: their allocations at the prices that were measured."""
    by_configuration: dict[Configuration, list[Entry]] = {}
    for entry in curves:
        by_configuration.setdefault(entry.configuration, []).append(entry)
    candidates = [
        _candidate(rank, request, entries, final)
        for rank, entries in enumerate(sorted(by_configuration.values(), key=lambda each: each[0].allocation), start=1)
    ]
    return given_plan(request, resolved, (), pilot, final), candidates


def _candidate(rank: int, request: Request, entries: Sequence[Entry], final: float) -> Candidate:
    """Return the row of one configuration, which several seeds may have."""
    first = entries[0]
    n, B = first.allocation
    prices = sorted(price_per_step(entry) for entry in entries)
    price = statistics.median(prices)
    longest = max(entries, key=lambda entry: entry.run.last_step)
    steps = max(1, int(final / price))
    variant = next((v for v in request.all_variants if v.axes == first.axes), request.all_variants[0])
    last = longest.run.last_step
    return given_candidate(
        request,
        replace(variant, axes=first.axes),
        Allocation(n, B, steps),
        (prices[0], price, prices[-1]),
        first.learning_rate,
        (last, max(1, last // 4), max(longest.gpu_hours, last * price)),
        f"adopted: {', '.join(entry.run.name for entry in entries)}",
        rank,
    )


def price_per_step(entry: Entry) -> float:
    """Return the GPU-hours of an update, validations between them included."""
    totals = gpu_hours(entry.run.steps, entry.settings.gpus or 1)
    updates = entry.run.last_step - entry.run.steps[0].step
    if updates < 1:
        return totals[-1] / max(1, entry.run.last_step)
    return max(totals[-1] - totals[0], 1e-12) / updates


def open_candidates(request: Request, taken: Sequence[Candidate]) -> list[Candidate]:
    """Return the cells of the grid that no run had, which a sweep that goes on may try; none without money."""
    known = {(each.rollouts_per_prompt, each.prompts_per_batch, each.axes) for each in taken}
    try:
        proposed = new_candidates(propose(request))
    except (BudgetError, InputError):
        return []
    others = [each for each in proposed if (each.rollouts_per_prompt, each.prompts_per_batch, each.axes) not in known]
    ratios = []  # how many times as dear the runs' steps were as the price model has them, calibrated as it may be
    for each in taken:
        variant = next((v for v in request.all_variants if v.axes == each.axes), request.all_variants[0])
        size = (each.rollouts_per_prompt, each.prompts_per_batch)
        price = step_cost(variant.workload, request.hardware, variant.traits, *size, variant.coefficients)
        ratios.append(each.gpu_hours_per_step / price.gpu_hours_per_step)
    factor = statistics.median(ratios)
    for rank, each in enumerate(others, start=len(taken) + 1):
        each.rank, each.update_steps, each.epochs = rank, max(1, int(each.update_steps / factor)), each.epochs / factor
        each.gpu_hours_per_step *= factor
        each.gpu_hours_per_step_low *= factor
        each.gpu_hours_per_step_high *= factor
        each.pilot_gpu_hours_per_step, each.pilot_steps, each.pilot_gpu_hours = None, 0, 0.0
        each.pilot_reason = "none of the adopted runs had it"
    return others


def calibrated(request: Request, known: Sequence[CostRecord]) -> Request:
    """Return the request with prices that rest on measured steps."""
    if not known:
        return request
    coefficients = calibration_of(
        known, request.workload, request.hardware.gpu, request.traits, request.coefficients
    ).coefficients
    variants = tuple(replace(each, coefficients=coefficients) for each in request.variants)
    return replace(request, coefficients=coefficients, variants=variants)


def require_runnable(plan: Plan, candidates: Sequence[Candidate], choice: SweepChoice) -> None:
    """Refuse a plan that no sweep can be stored of."""
    plan.name, plan.candidates = "the plan", list(candidates)
    _spec(plan, choice)


def store_sweep(
    store: Store,
    plan: tuple[Plan, Sequence[Candidate]],
    choice: SweepChoice,
    curves: Sequence[tuple[Entry, Sequence[CostRecord]]],
    problems: int | None,
    ends: SweepStatus,
) -> tuple[str, str, list[str]]:
    """Store a plan and a sweep whose trials are the runs, and what is concluded; return their names and the trials'."""
    clock, driver = RealClock(), this_driver()
    with store.write() as session:
        plan_name = save_plan(session, *plan, clock.now())
        row = plan_named(session, plan_name)
        spec = _spec(row, choice)
        candidates = {(c.rollouts_per_prompt, c.prompts_per_batch, c.axes): c for c in row.candidates}

        def planned(spec: SweepSpec) -> list[Trial]:
            keys = [(entry, candidates[(*entry.allocation, entry.axes)]) for entry, _ in curves]
            return [new_trial(spec, row, entry.axes, entry.learning_rate, entry.seed) for entry, row in keys]

        sweep, own, stored = create(session, plan_name, spec, planned, driver, clock.now(), store.location)
        name = sweep.name
        for trial, (entry, costs) in zip(stored, curves, strict=True):
            _trained(session, trial, entry, problems, clock.now())
            reason = f"{entry.run.path}: {entry.run.score}, {entry.run.why}"
            record_decision(session, name, clock.now(), "adopt", reason, trial_id=trial)
            for cost in costs:
                cost.trial_id = trial
            store_costs(session, entry, costs)
        names = [session.get_one(Trial, trial).name for trial in stored]
    with store.read() as session:
        stands = sweep_state(session, name)
    board = Board(own, stands)
    board.fresh |= set(board.trials)
    journal = Journal(store, stands.sweep.id, driver, clock, len(stands.trials))
    conclusions = Conclusions(Pool(), board, journal)
    conclusions.fits()
    conclusions.recommend(so_far=ends is not SweepStatus.FINISHED)
    journal.end(ends)  # which lets go of the sweep
    return plan_name, name, names


def store_costs(session: Session, entry: Entry, costs: Sequence[CostRecord]) -> None:
    """Store what a run's steps took, in place of what was stored of it when it was adopted before."""
    replace_costs(session, source_of(entry))
    add_cost_records(session, costs)


def _spec(plan: Plan, choice: SweepChoice) -> SweepSpec:
    """Return the settings of the sweep; where nothing says what was trained on, it can be read but not gone on with."""
    if choice.problems is not None or choice.trainer is not None or plan.config["workload"]["task"]:
        return sweep_spec(plan, choice)
    spec = sweep_spec(plan, choice.model_copy(update={"simulation": {}}))
    task = TaskChoice(name=EXTERNAL, reward="exact")
    training = spec.training.model_copy(update={"simulation": None, "task": task})
    return spec.model_copy(update={"training": training})


def _trained(session: Session, trial: int, entry: Entry, problems: int | None, now: datetime) -> None:
    """Have a trial done what its run did, in one segment."""
    totals = gpu_hours(entry.run.steps, entry.settings.gpus or 1)
    move_trial(session, trial, TrialState.RUNNING, now, f"adopted from {entry.run.path}")
    new = Segment(number=1, from_step=0, to_step=entry.run.last_step, reserved_gpu_hours=totals[-1], worker=EXTERNAL)
    segment = open_segment(session, trial, new, now)
    add_points(session, _points(trial, segment, entry, totals, problems))
    settle_segment(session, segment, SegmentOutcome.COMMITTED, totals[-1], now, None, entry.run.last_step, EXTERNAL)
    move_trial(session, trial, TrialState.PAUSED, now, f"its log ends at step {entry.run.last_step}")
    move_trial(session, trial, TrialState.FINISHED, now, "trained elsewhere: it cannot go on here")


def _points(trial: int, segment: int, entry: Entry, totals: Sequence[float], problems: int | None) -> list[Point]:
    points, tokens, before = [], 0.0, 0
    answers = None if problems is None else problems * (entry.settings.validation_samples or 1)
    rollouts, gpus = math.prod(entry.allocation), entry.settings.gpus or 1
    for step, spent in zip(entry.run.steps, totals, strict=True):
        tokens += step.values.get("response_tokens", 0.0) * rollouts * (step.step - before)
        before = step.step
        metrics = {name: value for name, value in step.values.items() if math.isfinite(value)}
        points.append(
            Point(
                trial_id=trial,
                attempt=1,
                optimizer_step=step.step,
                rollouts=rollouts * step.step,
                tokens=round(tokens),
                seconds=spent * 3600 / gpus,
                gpu_hours=spent,
                score=step.score,
                score_standard_error=_error(step.score, answers),
                metrics={**metrics, "seconds": dict(step.seconds)} if metrics or step.seconds else None,
                segment_id=segment,
            )
        )
    return points


def _error(score: float | None, answers: int | None) -> float | None:
    """Return the binomial error of a score of so many answers, half an answer off 0 and 1; None if unknown."""
    if score is None or answers is None:
        return None
    share = min(max(score, 0.5 / answers), 1 - 0.5 / answers)
    return math.sqrt(share * (1 - share) / answers)
