"""What `rlplan launch` does, callable from Python: store a sweep's final run with its promise, and drive it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import BudgetError, CheckpointError, InputError, NotFoundError
from planner.axes import named_configuration, rate_factor
from planner.belief.pool import joint_of
from planner.policy.champion_first import longest_of
from planner.recommend.facts import seed_sd
from planner.recommend.promise import Promise, promise, promise_from_studies, score_share
from planner.recommend.prospect import DRAWS
from planner.store import Store, open_store
from planner.store.control import Driver
from planner.store.finals import ENDED, Final, add_final, end_of_run, finals_of, spent_beside, switch_of
from planner.store.results import record_decision
from planner.store.schema import Plan, Sweep, SweepStatus, Trial
from planner.store.sweeps import move_trial, plan_named, spent_gpu_hours, sweep_named
from planner.view import FINAL_POLICY, Configuration, TrialState, View
from rlplan.actions.interrupts import Interrupts
from rlplan.actions.sweep_request import create, machine, spending_text
from rlplan.actions.sweeping import Began, DriversSeat, Finished, drive
from rlplan.actions.wanted_final import (
    Wanted,
    best_of_former,
    known_there,
    row_named,
    unswept,
    wanted_of,
    wanted_of_sweep,
)
from rlplan.reading.recommendation import Stored, stored
from rlplan.reading.row_choice import sizes_in
from rlplan.reading.sweeps import plan_meant
from rlplan.requests.run import LaunchRequest, SweepRequest
from rlplan.wording.screen import tell
from runner.ports.trial import TrialConfig
from runner.processes import has_driver, this_driver
from runner.storage.mirror import Mirror
from runner.sweep.conclusions import evidence
from runner.sweep.final import (
    FinalRun,
    final_price,
    final_run,
    limit_of,
    name_of_final,
    spec_of_final,
    take_over,
    trial_of_final,
)
from runner.sweep.kept import FromPilot, copy_pilot
from runner.sweep.plan import shortfall
from runner.sweep.plan_rows import configuration_of, run_in_prior
from runner.sweep.spec import SweepSpec
from runner.sweep.state import SweepState


@dataclass(frozen=True, slots=True)
class Planned:
    """A final run as it would be launched."""

    sweep: str
    run: FinalRun
    promise: Promise
    notes: tuple[str, ...]
    shortfall: str | None  # what is lacking on this machine
    spec: SweepSpec
    plan: Plan


def describe(request: LaunchRequest) -> Planned:
    """Say what would be launched, and store nothing."""
    with open_store(request.db, read_only=True) as store:
        return _ready(store, request)[2]


def launch(
    request: LaunchRequest, *, interrupts: Interrupts | None = None, began: Began = lambda sweep: None
) -> Finished:
    """Store a sweep's final run with what is promised of it, and drive it to its end."""
    with open_store(request.db, existing=True) as store:
        origin, request, planned = _ready(store, request)
        if request.ray_address is None and planned.shortfall:
            raise InputError(planned.shortfall)
        driver = this_driver()
        name = _store(store, origin, planned, request, driver)
        with store.read() as session:
            spec = SweepSpec.model_validate(sweep_named(session, name).config)
            plan = plan_named(session, origin.plan.name)
        seat = DriversSeat(driver, request.ray_address, interrupts, began)
        return drive(store, name, spec, plan, seat)


def store_only(request: LaunchRequest) -> str:
    """Store a sweep's final run for a driver that comes later, and return its name."""
    with open_store(request.db, existing=True) as store:
        origin, request, planned = _ready(store, request)
        return _store(store, origin, planned, request, None)


def _ready(store: Store, request: LaunchRequest) -> tuple[Stored, LaunchRequest, Planned]:
    """Return the sweep, the request with what is switched to, and the final run that comes of both."""
    if request.from_best and (request.switch or request.allocation is not None):
        raise InputError("--from-best goes on with the same allocation: leave --switch and --allocation out")
    if request.learning_rate is not None and not request.from_best:
        raise InputError("--learning-rate is for a final run that goes on from its best checkpoint: give --from-best")
    with store.read() as session:
        plan = None if request.sweep is None else plan_meant(session, request.sweep)
    if plan is not None:
        if request.switch or request.from_best:
            raise InputError(f"--switch and --from-best are for a sweep with a final run, and {plan.name} is a plan")
        row = row_named(plan, request.row, sizes_in(request.allocation))
        origin = unswept(store, plan, row, request.training or SweepRequest(db=request.db))
        return origin, request, _planned(store, origin, request, wanted_of(row))
    if request.row is not None or request.training is not None:
        raise InputError("--row, --trainer, --problems and the like are for a plan: a sweep has its own (--allocation)")
    origin = _launchable(store, request)
    request, wanted = _switched(store, origin, request), None
    if not origin.board.trials:  # it was launched without pilots
        wanted = wanted_of(row_named(store.plan(origin.plan.name), None, sizes_in(request.allocation)))
    return origin, request, _planned(store, origin, request, wanted)


def _launchable(store: Store, request: LaunchRequest) -> Stored:
    """Return a sweep that a final run can be launched of; refused where it cannot, with what to do."""
    origin = stored(store, request.sweep)
    row = origin.sweep
    if origin.board.spec.policy == FINAL_POLICY:
        raise InputError(f"{row.name} is a final run itself: name the sweep that it is of")
    if has_driver(row):
        raise InputError(f"{row.name} is still running: wait for its end, or `rlplan stop {row.name}` first")
    if request.allocation is not None:
        return origin
    if not origin.board.trials and not (request.switch or request.from_best):
        raise NotFoundError(
            f"{row.name} has no pilots, and so nothing is recommended: name what to run by --allocation n=…,B=…"
        )
    if origin.board.trials and (origin.answer is None or origin.answer.so_far or row.status not in ENDED):
        raise NotFoundError(
            f"{row.name} ({row.status}) has no recommendation yet: `rlplan resume {row.name}` ends its pilots, or name "
            "what to run by --allocation n=…,B=…"
        )
    return origin


def _planned(store: Store, origin: Stored, request: LaunchRequest, wanted: Wanted | None) -> Planned:
    board = origin.board
    with store.read() as session:
        plan = plan_named(session, origin.plan.name)
    if request.from_best:
        wanted = best_of_former(store, origin, request.learning_rate)
    else:
        wanted = wanted or wanted_of_sweep(origin, request.allocation)
    with store.read() as session:
        beside = spent_beside(session, origin.sweep.plan_id, origin.sweep.id)
        money = _money(session, origin, wanted.pilot, beside)
        if not request.from_best:
            _require_new(session, origin.sweep, wanted.configuration, switching=request.switch)
        view = board.view(0) if origin.sweep.id is None else evidence(session, origin.sweep)
    if request.from_best and wanted.pilot is not None:
        view = known_there(view, wanted.pilot)
    like = longest_of(view, wanted.configuration) if wanted.pilot is None else view.trials[wanted.pilot.trial]
    price = final_price(
        board,
        wanted.configuration,
        wanted.gpu_hours_per_step,
        () if like is None else like.scores,
        0 if wanted.pilot is None else wanted.pilot.step,
        wanted.most_steps,
    )
    whole = wanted.configuration, wanted.learning_rate, price, money, wanted.pilot
    run = final_run(board, *whole, request.validations)
    notes = list(wanted.notes)
    if beside:
        notes.append(f"{spending_text(beside, plan)}; {money:.4g} are left for this final run")
    spec = spec_of_final(board.spec, run)
    promised = _promised(origin, run, run.length.steps * wanted.gpu_hours_per_step, view)
    return Planned(origin.sweep.name, run, promised, tuple(notes), shortfall(spec, plan, *machine()), spec, plan)


def _promised(origin: Stored, run: FinalRun, gpu_hours: float, view: View) -> Promise:
    """Return what is promised of a final run by what its sweep has seen, or by the plan before anything was trained.

    The GPU-hours are those that its updates would take at the price of the curves that are origin.
    """
    if origin.sweep.id is None:
        prior = run_in_prior(origin.plan, origin.board.spec, origin.board.candidate(run.configuration))
        if prior is not None:  # else the plan cannot tell
            return promise_from_studies(prior, rate_factor(run.configuration.axes), run.length.steps)
    return promise(
        joint_of(view, DRAWS),
        run.configuration,
        gpu_hours,
        seed_sd(view.trials.values()),
        score_share(view.trials.values()),
        None if run.pilot is None else run.pilot.trial,
    )


def _money(session: Session, origin: Stored, pilot: FromPilot | None, beside: Mapping[str, float]) -> float:
    """Return what the plan's budget has left after all its sweeps' pilots and every final run launched before."""
    left = origin.plan.budget_gpu_hours - origin.board.ledger.charged - sum(beside.values())
    left -= sum(spent_gpu_hours(session, [row.id for _, row in finals_of(session, origin.sweep.id)]).values())
    if (origin.plan.config.get("budget") or {}).get("within") is not None:  # more would end too late
        left = min(left, origin.plan.final_gpu_hours)
    if left <= 0:
        others = f" ({spending_text(beside, origin.plan)})" if beside else ""
        raise BudgetError(
            f"nothing is left of the {origin.plan.budget_gpu_hours:.4g} GPU-hours of {origin.plan.name} for a final run"
            f"{others}: make a plan with a larger budget{'' if pilot is None else pilot.stays}"
        )
    return left


def _switched(store: Store, origin: Stored, request: LaunchRequest) -> LaunchRequest:
    """Return the request with the allocation that the final run under way is advised to switch to."""
    if not request.switch:
        return request
    with store.read() as session:
        launched = finals_of(session, origin.sweep.id)
        if not launched:
            raise NotFoundError(f"{origin.sweep.name} has no final run to switch from: launch one without --switch")
        row = launched[-1][1]
        if has_driver(row):
            raise InputError(f"{row.name} is still running: `rlplan stop {row.name}` first, which saves it")
        if request.allocation is not None:
            return request
        name, numbers, _ = switch_of(session, row.id)
        if name is None:
            raise NotFoundError(
                f"no other allocation is expected to end more than 0.02 higher than {row.name}: nothing is to be "
                "switched to; name one by --allocation all the same"
            )
        return replace(request, allocation=f"n={numbers['n']},B={numbers['B']}")


def _end(session: Session, sweep: Sweep, name: str, now: datetime) -> None:
    """End the final runs of a sweep that have not ended: another allocation gets what is left."""
    for _, row in finals_of(session, sweep.id):
        if row.status in ENDED:
            continue
        record_decision(session, row.name, now, "switched", f"another final run gets what is left: {name}")
        for trial in session.scalars(select(Trial).where(Trial.sweep_id == row.id)):
            if trial.state in (TrialState.PLANNED, TrialState.PAUSED):
                move_trial(session, trial.id, TrialState.PRUNED, now, f"switched to {name}")
        row.status, row.finished_at = SweepStatus.FINISHED, now


def _require_new(session: Session, sweep: Sweep, configuration: Configuration, *, switching: bool = False) -> None:
    """Refuse what was launched before: what has not ended goes on, and what has is not run twice."""
    for final, row in finals_of(session, sweep.id):
        if row.status not in ENDED and not switching:
            raise InputError(
                f"{row.name} was launched already ({row.status}): `rlplan resume {row.name}` goes on with it"
            )
        trial = session.scalars(select(Trial).where(Trial.sweep_id == row.id)).one()
        if configuration_of(trial) == configuration:
            raise NotFoundError(
                f"{row.name} has run {named_configuration(configuration)} to its end "
                f"({end_of_run(session, final):,} updates), as `rlplan status {row.name}` shows: `rlplan launch "
                f"{sweep.name} --from-best` goes on with what is left of the budget"
            )


def _store(store: Store, origin: Stored, planned: Planned, request: LaunchRequest, driver: Driver | None) -> str:
    """Store the final run, whose promise never changes; its driver, if it has one, holds it from its first moment."""
    for note in planned.notes:
        tell(note)
    now, run, board = datetime.now(UTC), planned.run, origin.board
    new = trial_of_final(board, run)
    config = TrialConfig.model_validate(new.config)
    if run.pilot is not None:
        _fetch(run.pilot, board, config)
    with store.write() as session:
        row, settings = origin.sweep, board.spec
        if row.id is None:  # of a plan: the sweep that it has not had
            row, settings, _ = create(session, origin.plan.name, settings, lambda _: [], None, now, store.location)
            row.status, row.finished_at = SweepStatus.FINISHED, now
        if request.switch or request.from_best:
            _end(session, row, named_configuration(run.configuration), now)
        if not request.from_best:
            _require_new(session, row, run.configuration)
        spec, name = spec_of_final(settings, run), name_of_final(row.name, list(session.scalars(select(Sweep.name))))
        beside = {"folder": str(Path(spec.folder).parent), "storage": spec.storage and spec.storage.rpartition("/")[0]}
        spec = spec.model_copy(update={**beside, "most_steps": limit_of(run, config)})
        where = (driver, now, store.location)
        final, marked, (number,) = create(session, origin.plan.name, spec, lambda _: [new], *where, name=name)
        if run.pilot is not None:
            trial = session.get_one(Trial, number)
            folder = Path(marked.folder) / trial.name
            copy_pilot(run.pilot, config, folder)
            take_over(session, final, trial, run.pilot)
            if marked.storage is not None:  # and that of the final run may be one more
                stored_at, notes = Mirror(f"{marked.storage}/{trial.name}", folder, config).store(0)
                if stored_at is None:
                    raise CheckpointError(f"the final run is not begun: {'; '.join(notes)}")
        add_final(session, name, row.name, _row(planned, request), now)
    return name


def _fetch(pilot: FromPilot, board: SweepState, config: TrialConfig) -> None:
    """Fetch a pilot's copy from its storage, since its worker may have been on another machine; nobody waits for it."""
    storage = board.facts[pilot.trial].storage if pilot.trial in board.facts else None
    if storage is not None:
        pilot.folder.mkdir(parents=True, exist_ok=True)
        Mirror(storage, pilot.folder, config).fetch(pilot.step)


def _row(planned: Planned, request: LaunchRequest) -> Final:
    run, end = planned.run, planned.promise.end
    return Final(
        update_steps=run.length.steps,
        segment_steps=run.length.segment_steps,
        gpu_hours_per_step=run.length.gpu_hours_per_step,
        start_up_gpu_hours=run.price.start_up,
        from_trial_id=None if run.pilot is None else run.pilot.trial,
        from_step=run.from_step,
        stop_when_won=request.stop_when_won,
        promised_score=end.score,
        promised_low=end.low,
        promised_high=end.high,
        promised_gpu_hours=run.length.gpu_hours,
        promised_band=planned.promise.rows,
    )
