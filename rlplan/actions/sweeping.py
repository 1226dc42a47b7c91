"""What `rlplan sweep`, `resume` and `retry` do, callable from Python: store the sweep, drive it, say how it ended.

The order matters: what cannot run is refused before anything is stored, and everything is stored before it runs.
"""

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import InputError, NotFoundError, StoreError, UnknownNameError
from planner.store import Store, open_store
from planner.store.control import Driver, end_lease, is_driven, take_lease
from planner.store.finals import at_work
from planner.store.results import record_decision
from planner.store.schema import Plan, Sweep, SweepStatus, Trial
from planner.store.sweeps import move_trial, plan_named, sweep_named
from planner.tables import explained
from planner.view import TrialState
from rlplan.actions.configuration import load_configuration
from rlplan.actions.interrupts import Interrupts
from rlplan.actions.sweep_request import (
    add_gpu_hours,
    create,
    machine,
    notes_of,
    plan_to_run,
    require_alone,
    spec_of,
    within_plan,
)
from rlplan.exits import require_for_sweeps
from rlplan.requests.run import GoOnRequest, ResumeRequest, RetryRequest, SweepRequest
from rlplan.wording.screen import tell
from runner.processes import driver_lives, has_driver, sweep_orphans, sweep_tag, this_driver
from runner.sweep.conclusions import deciding
from runner.sweep.driver import SweepDriver
from runner.sweep.fingerprint import code_fingerprint, configuration_fingerprint
from runner.sweep.home import Home, home_of, mark_folder, mark_storage, require_mark
from runner.sweep.plan import new_trials, shortfall
from runner.sweep.spec import SweepSpec
from runner.sweep.tune.executor import RayExecutor
from runner.sweep.tune.placement import Placement
from runner.tracking.beside import mirrored

Began = Callable[[str], None]
SECONDS_BETWEEN_LOOKS = 1.0
LOOKS_AT_ANOTHER_HOST = 15  # a driver that lives shows it every 5 s


@dataclass(frozen=True, slots=True)
class DriversSeat:
    """Where a sweep is driven from, and on which workers."""

    driver: Driver
    ray_address: str | None = None
    interrupts: Interrupts | None = None
    began: Began = lambda sweep: None
    silent_since: datetime | None = None  # when a former driver was last heard of
    config: Path | str | None = None  # the file whose [cluster] counts; without one, that of the working directory


@dataclass(frozen=True, slots=True)
class Finished:
    """A sweep as far as it went."""

    sweep: str
    interrupted: bool
    failed_trials: int
    all_failed: str | None
    spent_gpu_hours: float
    notes: tuple[str, ...]


def start(
    request: SweepRequest, *, interrupts: Interrupts | None = None, began: Began = lambda sweep: None
) -> Finished:
    """Store a sweep of a plan, new or given, and run it."""
    require_for_sweeps()
    plan_name = plan_to_run(request)
    with open_store(request.db, existing=True) as store:
        seat = DriversSeat(this_driver(), request.ray_address, interrupts, began, config=request.config)
        return begin(store, *_asked_for(store, request, plan_name), seat)


def begin(store: Store, plan: Plan, spec: SweepSpec, seat: DriversSeat) -> Finished:
    """Store a sweep of a stored plan, and run it; refused where its trials fit no worker of this machine."""
    if seat.ray_address is None:
        _require_room(spec, plan, *machine())
    sweep, own = _store(store, plan, spec, seat.driver)
    return drive(store, sweep, own, plan, seat)


def store_only(request: SweepRequest) -> str:
    """Store a sweep of a plan, new or given, for a driver that comes later, and return its name."""
    plan_name = plan_to_run(request)
    with open_store(request.db, existing=True) as store:
        return _store(store, *_asked_for(store, request, plan_name), None)[0]


def _asked_for(store: Store, request: SweepRequest, plan_name: str | None) -> tuple[Plan, SweepSpec]:
    """Return the plan and the settings that are asked for, and say what is done otherwise."""
    plan = store.plan(plan_name)
    spec, others = within_plan(store, plan, spec_of(request, plan))
    for note in (*notes_of(request, spec, plan), *others):
        tell(note)
    return plan, spec


def go_on(
    request: ResumeRequest | RetryRequest, *, interrupts: Interrupts | None = None, began: Began = lambda sweep: None
) -> Finished:
    """Go on with a sweep, the newest if none is named: the plan minus what is finished.

    A retry runs failed trials again too, all or those that are named.
    """
    with open_store(request.db, existing=True) as store:
        again: Sequence[int] = ()
        if isinstance(request, RetryRequest):
            with store.read() as session:
                row = sweep_named(session, request.sweep)
                again = _failed(session, row, request.trial or ())
        else:
            wait_for_driver(store, request.sweep, request.wait)
            if request.add is not None:
                with store.write() as session:
                    add_gpu_hours(session, sweep_named(session, request.sweep), request.add, datetime.now(UTC))
            row = unended_sweep(store, request.sweep, request.folder)
        return _go_on(store, row, again, request, DriversSeat(this_driver(), request.ray_address, interrupts, began))


def unended_sweep(store: Store, sweep: str | None, folder: str | Path | None) -> Sweep:
    """Return a sweep, the newest if none is named, or its final run, with something left to do; else NotFoundError."""
    with store.read() as session:
        row = at_work(session, sweep)
    if row.status in (SweepStatus.FINISHED, SweepStatus.FAILED):
        raise _nothing_left(store, row, folder)
    return row


def wait_for_driver(store: Store, sweep: str | None, seconds: float) -> None:
    """Wait so long at most until nobody drives a sweep; whether that is so by then shows in taking it over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with store.read() as session:
            if not has_driver(at_work(session, sweep)):
                return
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _require_silence(store: Store, row: Sweep) -> None:
    """Refuse to take a sweep over whose driver, on a machine with another clock, goes on to show signs of life."""
    silent = row.status is SweepStatus.RUNNING and not is_driven(row, datetime.now(UTC))
    if not silent or row.heartbeat_at is None or row.driver_host == socket.gethostname():
        return
    tell(f"{row.name} was driven on {row.driver_host}: looking for {LOOKS_AT_ANOTHER_HOST} s whether it still is")
    for _ in range(LOOKS_AT_ANOTHER_HOST):
        time.sleep(SECONDS_BETWEEN_LOOKS)
        with store.read() as session:
            live = sweep_named(session, row.name)
        if live.driver_id == row.driver_id and live.heartbeat_at is not None and live.heartbeat_at > row.heartbeat_at:
            behind = (datetime.now(UTC) - live.heartbeat_at).total_seconds()
            raise StoreError(
                f"{row.name} is being driven by process {row.driver_pid} on {row.driver_host}, whose clock is about "
                f"{behind:.0f} s behind this machine's: stop it with `rlplan stop {row.name}` there, and set the clocks"
            )


def _nothing_left(store: Store, row: Sweep, folder: str | Path | None) -> NotFoundError:
    """Say that a sweep has ended; a folder that was named is taken note of, for its checkpoints are still wanted."""
    noted = ""
    if folder is not None:
        with store.write() as session:
            home = home_of(row, store.location, folder)
            _settle(session, row.name, home, store.location)
        noted = f"; its folder is {home.folder} from now on"
    with store.read() as session:
        wanted = select(Trial.id).where(Trial.sweep_id == row.id, Trial.state == TrialState.FAILED)
        failed = session.scalars(wanted.limit(1)).first() is not None
    again = f"; `rlplan retry {row.name}` runs its failed trials again" if failed else ""
    return NotFoundError(
        f"{row.name} has ended ({row.status}): nothing is left to do{noted}. `rlplan status {row.name}` shows it{again}"
    )


def _go_on(store: Store, row: Sweep, again: Sequence[int], request: GoOnRequest, seat: DriversSeat) -> Finished:
    begun = SweepSpec.model_validate(row.config)
    with store.read() as session:
        home = home_of(row, store.location, request.folder)
        plan = plan_named(session, session.get_one(Plan, row.plan_id).name)
    changes = ["code"] if row.code_hash != code_fingerprint(begun.training.trainer) else []
    changes += ["files (problems, reward or model)"] if row.config_hash != configuration_fingerprint(begun) else []
    if changes and not request.accept_changes:
        raise InputError(
            f"{row.name} was begun with other {' and '.join(changes)} than there are now, and its curves would no "
            "longer compare: go back to what it was begun with, or go on all the same with --accept-changes"
        )
    spec = begun.model_copy(update={"folder": str(home.folder)})
    here = spec if request.workers is None else _checked(spec, request.workers)
    _require_silence(store, row)
    with store.write() as session:
        now, stored = datetime.now(UTC), sweep_named(session, row.name)  # another may have taken it up meanwhile
        require_alone(session, row.plan_id, row.id)
        silent_since = take_lease(session, row.name, seat.driver, now, former_lives=driver_lives(stored))
        _settle(session, row.name, home, store.location)
        stored.code_hash = code_fingerprint(spec.training.trainer)
        stored.config_hash = configuration_fingerprint(spec)
        for trial in again:
            move_trial(session, trial, TrialState.PLANNED, now, "to be run again")
        if changes:
            reason = f"went on although its {' and '.join(changes)} had changed"
            record_decision(session, row.name, now, "accept-changes", reason)

    def began(sweep: str) -> None:
        seat.began(sweep)
        if home.note is not None:  # logged once the sweep is followed, so that it is told before it runs
            with store.write() as session:
                record_decision(session, sweep, datetime.now(UTC), "folder", home.note)

    return drive(store, row.name, here, plan, replace(seat, began=began, silent_since=silent_since))


def _settle(session: Session, sweep: str, home: Home, database: str) -> None:
    """Make a folder the sweep's; that it lies elsewhere is no change of its settings."""
    row = sweep_named(session, sweep)
    unchanged = row.config_hash == configuration_fingerprint(SweepSpec.model_validate(row.config))
    row.config = {**row.config, "folder": str(home.folder)}
    if unchanged:
        row.config_hash = configuration_fingerprint(SweepSpec.model_validate(row.config))
    if storage := row.config.get("storage"):
        mark_storage(storage, home.folder, row, database)
    mark_folder(home.folder, row, database)


def drive(store: Store, sweep: str, spec: SweepSpec, plan: Plan, seat: DriversSeat) -> Finished:
    """Run a sweep whose lease the driver holds, until it is over or interrupted, and say how far it went."""
    try:
        driver = _driver(store, sweep, spec, plan, seat)
    except BaseException:
        with store.write() as session:
            row = sweep_named(session, sweep)
            end_lease(session, row.id, seat.driver, SweepStatus.INTERRUPTED, datetime.now(UTC))
        raise
    with mirrored(spec.tracking, store.address, sweep, Path(spec.folder), tell):
        outcome = driver.run()
    over = f"{outcome.overrun_gpu_hours:.4g} GPU-hours beyond the pilot budget were used up by workers"
    return Finished(
        sweep=sweep,
        interrupted=outcome.status is SweepStatus.INTERRUPTED,
        failed_trials=outcome.failed_trials,
        all_failed=outcome.all_failed,
        spent_gpu_hours=outcome.spent_gpu_hours + outcome.overrun_gpu_hours,
        notes=(over,) if outcome.overrun_gpu_hours > 0 else (),
    )


def _driver(store: Store, sweep: str, spec: SweepSpec, plan: Plan, seat: DriversSeat) -> SweepDriver:
    """Return what drives a sweep, on workers that are there; where it cannot, the workers are let go."""
    cluster = load_configuration(seat.config).config.cluster
    seat.began(sweep)
    tag = sweep_tag(spec.folder)  # of all its processes, the same for every driver that it ever has
    sweep_orphans(tag)  # what a driver that was killed may have left
    need, nodes = spec.resources, spec.training.machine.nodes
    where = Path(spec.folder), spec.workers, tag, seat.ray_address
    executor = RayExecutor(*where, need.cpus, need.gpus, nodes, cluster.start_seconds, Placement.of(cluster))
    try:
        _require_room(spec, plan, *(executor.resources().largest(nodes) if seat.ray_address else machine()))
        with store.read() as session:
            policy, concluding = deciding(session, sweep, spec)
        stops = seat.interrupts or Interrupts()
        return SweepDriver(
            store,
            sweep,
            seat.driver,
            spec,
            executor,
            policy,
            concluding,
            interrupted=lambda: stops.requested,
            require_folder=lambda: require_mark(Path(spec.folder)),
            silent_since=seat.silent_since,
            say=tell,
        )
    except BaseException:
        executor.close()
        raise


def _store(store: Store, plan: Plan, spec: SweepSpec, driver: Driver | None) -> tuple[str, SweepSpec]:
    """Store a sweep with its trials; its driver, if it has one already, holds it from its first moment."""
    now = datetime.now(UTC)
    with store.write() as session:
        row, own, _ = create(session, plan.name, spec, lambda own: new_trials(own, plan), driver, now, store.location)
        return row.name, own


def _require_room(spec: SweepSpec, plan: Plan, cpus: float, gpus: float) -> None:
    """Refuse a plan whose trials fit no worker, before anything runs."""
    lacking = shortfall(spec, plan, cpus, gpus)
    if lacking is not None:
        raise InputError(lacking)


def set_up_again(session: Session, sweep: str, trials: Sequence[str]) -> None:
    """Have a sweep's failed trials, all or those that are named, run again by whoever drives it next."""
    row, now = sweep_named(session, sweep), datetime.now(UTC)
    for trial in _failed(session, row, trials):
        move_trial(session, trial, TrialState.PLANNED, now, "to be run again")
    row.status, row.finished_at = SweepStatus.INTERRUPTED, None


def _failed(session: Session, sweep: Sweep, names: Sequence[str]) -> list[int]:
    """Return the ids of a sweep's failed trials, or of those that are named."""
    rows = list(session.scalars(select(Trial).where(Trial.sweep_id == sweep.id).order_by(Trial.id)))
    failed = {row.name: row.id for row in rows if row.state is TrialState.FAILED}
    for name in names:
        if name not in {row.name for row in rows}:
            raise UnknownNameError("trial", name, [row.name for row in rows])
        if name not in failed:
            state = next(row.state for row in rows if row.name == name)
            raise InputError(
                f"trial {name} is {state}: only failed trials are run again ({', '.join(failed) or 'none'})"
            )
    if not failed:
        raise NotFoundError(f"no trial of {sweep.name} has failed: nothing is to be run again")
    return [failed[name] for name in names] if names else list(failed.values())


def _checked(spec: SweepSpec, workers: int | None) -> SweepSpec:
    try:
        return SweepSpec.model_validate({**spec.model_dump(), "workers": workers})
    except ValidationError as error:
        raise explained(error, SweepSpec, {"workers": "--workers"}, "the sweep") from error
