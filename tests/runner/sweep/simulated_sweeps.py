"""Sweeps in a simulated world, driven for real: database, ledger, policy, everything but workers."""

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from planner.belief.pool import Pool
from planner.config import build_request, resolved_values
from planner.policy.actions import Policy
from planner.policy.policies import open_policy
from planner.proposals import propose
from planner.store import Store, open_store
from planner.store.control import Driver, take_lease
from planner.store.schema import Plan, Sweep
from planner.store.sweeps import add_trial, create_sweep, sweep_named
from rlplan.actions.configuration import load_configuration
from rlplan.reading.plan_data import new_candidates, new_plan
from runner.ports.executor import Executor
from runner.ports.trial import SimulationChoice
from runner.sweep.conclusions import Conclusions
from runner.sweep.driver import SweepDriver, SweepOutcome
from runner.sweep.plan import SweepChoice, new_trials, sweep_spec
from runner.sweep.spec import SweepSpec
from tests.simulated.executor import SimulatedExecutor

START = datetime(2026, 1, 1, tzinfo=UTC)
PROPOSED: dict[str, Any] = {}  # what was proposed for each budget, cluster and further flags


def driver(number: int = 1) -> Driver:
    return Driver(f"driver-{number}", "here", number)


@dataclass
class SimulatedSweep:
    """A stored sweep of a plan of two GPU-hours on four workers."""

    path: Path
    budget: float = 2.0
    workers: int = 4
    policy: str = "full"
    choice: SimulationChoice = field(default_factory=SimulationChoice)
    retries: int = 3
    room: float = 1.0  # times the pilot budget of the plan
    search: str | None = None
    trainer: str | None = None  # whose start-ups are measured
    every_steps: int = 20  # from one validation to the next: most turns of a driver take one in
    growth: float = math.inf  # answers so far take as long as all else
    flags: dict[str, tuple[str, Any]] = field(default_factory=dict)
    name: str = ""
    spec: SweepSpec = field(init=False)
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        with self.store() as store:
            plan = self.planned(store)
            self.plan = store.plan(plan)
            choice = SweepChoice(
                policy=self.policy,
                search=self.search,
                trainer=self.trainer,
                folder=self.path.parent / "sweeps",
                workers=self.workers,
                retries=self.retries,
                simulation=self.choice.model_dump(mode="json"),
            )
            spec = sweep_spec(self.plan, choice)
            self.spec = spec.model_copy(update={"pilot_gpu_hours": self.room * spec.pilot_gpu_hours})
            with store.write() as session:
                self.name = create_sweep(
                    session, plan, Sweep(policy=self.policy, seed=0, config={}, config_hash=""), START
                )
                sweep_named(session, self.name).config = self.spec.model_dump(mode="json")
                for trial in new_trials(self.spec, self.plan):
                    add_trial(session, self.name, trial, START)

    def planned(self, store: Store) -> str:
        """Store the plan, and return its name."""
        flags = {
            "budget.gpu_hours": ("--budget", self.budget),
            "proposal.explore": ("--explore", True),
            "hardware.gpu": ("--gpu", "cpu"),
            "hardware.gpus": ("--gpus", self.workers),
            "hardware.gpus_per_trial": ("--gpus-per-trial", 1),
            "pilot.fewest_steps": ("", 8),
            "validation.every_steps": ("", self.every_steps),
            **self.flags,
        }
        if "axes.recipes" not in flags:
            flags["recipe.name"] = ("--recipe", "easy")  # by whose prices the moments of these tests were chosen
        key = repr(sorted(flags.items()))  # a proposal takes as long as many a sweep
        if key not in PROPOSED:
            resolved = load_configuration(None, "sum-easy", flags)
            PROPOSED[key] = resolved, propose(build_request(resolved))
        resolved, proposal = PROPOSED[key]
        row = new_plan(proposal, resolved_values(proposal.request, resolved), [], "test")
        return store.save_plan(row, new_candidates(proposal), created_at=START)

    def store(self) -> Store:
        return open_store(self.path)

    def executor(self, **options: Any) -> SimulatedExecutor:
        return SimulatedExecutor(self.workers, **options)

    def driver(self, executor: Executor, policy: Policy, store: Store, number: int = 1, **options: Any) -> SweepDriver:
        """Take the sweep over, whoever drove it, and be ready to run."""
        with store.write() as session:
            silent = take_lease(session, self.name, driver(number), executor.clock.now(), former_lives=False)
        concluding = partial(Conclusions, Pool(), growth=self.growth)
        options = {"tick_seconds": 5.0, "silent_since": silent, **options}
        return SweepDriver(store, self.name, driver(number), self.spec, executor, policy, concluding, **options)

    def run(self, policy: Policy, **options: Any) -> SweepOutcome:
        """Run the sweep from where it stands to its end."""
        return self.drive(self.executor(**options), policy)

    def drive(self, executor: Executor, policy: Policy | None = None, **options: Any) -> SweepOutcome:
        """Run it to its end with a test's own executor, policy, and options of the driver."""
        with self.store() as store:
            return self.driver(executor, policy or open_policy(self.policy), store, **options).run()
