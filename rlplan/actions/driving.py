"""Puts a sweep's parts together and runs it: executor, policy, beliefs, driver."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from budgets.errors import InputError
from planner.pooling.opening import Pool
from planner.store import Store
from planner.store.driving import Driver, end_lease, take_lease
from planner.store.schema import Plan, Sweep, SweepStatus
from planner.store.sweeps import sweep_named
from planner.sweeping.opening import open_policy
from runner.sweep.concluding import Conclusions
from runner.sweep.driver import Interrupts, Outcome, SweepDriver
from runner.sweep.on_ray.executor import RayExecutor
from runner.sweep.planning import shortfall
from runner.sweep.processes import is_dead, sweep_orphans, sweep_tag
from runner.sweep.spec import SweepSpec

Began = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a sweep is driven from, and on which workers."""

    driver: Driver
    ray_address: str | None = None
    interrupts: Interrupts | None = None
    began: Began = lambda sweep: None


def drive(store: Store, sweep: str, spec: SweepSpec, plan: Plan, seat: Seat) -> Outcome:
    """Run a sweep whose lease the driver holds, until it is over or interrupted."""
    executor: RayExecutor | None = None
    try:
        seat.began(sweep)
        tag = process_tag(spec)
        sweep_orphans(tag)  # what a driver that was killed may have left
        need = spec.resources
        executor = RayExecutor(Path(spec.folder), spec.workers, tag, seat.ray_address, need.cpus, need.gpus)
        require_room(executor, spec, plan, seat.ray_address)
        pool = Pool()
        policy = open_policy(spec.policy, search=spec.search, pool=pool)
        conclusions = Conclusions(pool, spec, plan.workload.get("prompt_set_size"))
        driver = SweepDriver(store, sweep, seat.driver, spec, executor, policy, conclusions, interrupts=seat.interrupts)
    except BaseException:
        if executor is not None:
            executor.close()
        with store.write() as session:
            row = sweep_named(session, sweep)
            end_lease(session, row.id, seat.driver, SweepStatus.INTERRUPTED, datetime.now(UTC))
        raise
    return driver.run()


def take(store: Store, sweep: Sweep, driver: Driver) -> None:
    """Take a sweep's lease, also from a driver on this machine that is seen to be dead."""
    dead = is_dead(sweep)
    with store.write() as session:
        take_lease(session, sweep.name, driver, datetime.now(UTC), former_is_dead=dead)


def require_room(executor: RayExecutor, spec: SweepSpec, plan: Plan, ray_address: str | None) -> None:
    """Refuse a plan whose trials fit no worker of the cluster, before anything runs."""
    cpus, gpus = machine() if ray_address is None else executor.resources().largest()
    lacking = shortfall(spec, plan, cpus, gpus)
    if lacking is not None:
        raise InputError(lacking)


def machine() -> tuple[float, float]:
    """Return how many CPU cores and GPUs this machine has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return float(cores), float(len(list(Path("/dev").glob("nvidia[0-9]*"))))


def process_tag(spec: SweepSpec) -> str:
    """Return the tag that all of a sweep's processes carry, the same for every driver that it ever has."""
    return sweep_tag(spec.folder)
