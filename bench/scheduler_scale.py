"""Sweeps of 100, 1,000 and 10,000 trials on up to 1,000 simulated GPUs: how long a decision takes, and all of it.

    python bench/scheduler_scale.py [--policies rlplan asha] [--trials 100 1000 10000] [--seed 0]

The world is simulated (response surfaces, costs, lost workers) and so is its clock; the driver, the policy, the ledger
and the database are the ones that a real sweep has. Latency is the wall time of a policy's answer to one question, and
beside it the time of its core, which other programs disturb less.
"""

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from planner.belief.pool import Pool
from planner.policy.actions import Action, Policy
from planner.policy.policies import open_policy
from planner.store import Store, open_store
from planner.store.control import Driver, take_lease
from planner.store.schema import Candidate, Plan, Sweep, Trial
from planner.store.sweeps import add_trial, create_sweep, sweep_named
from planner.view import Configuration, View
from runner.ports.trial import Costs, Failures, Pathologies, SimulationChoice
from runner.sweep.conclusions import Conclusions
from runner.sweep.driver import SweepDriver
from runner.sweep.plan import SweepChoice, sweep_spec, trial_name
from tests.simulated.executor import SimulatedExecutor

BAR_SECONDS, BAR_DECISION_MS = 300.0, 50.0
GROUPS, BATCHES = (8, 16, 32, 64, 128, 256, 512, 1024), (32, 64, 128, 256, 512)
VALIDATION_STEPS, SEGMENT_STEPS, PILOT_STEPS = 4, 100, 400
SECONDS_PER_ROLLOUT, SECONDS_PER_UPDATE = 0.002, 20.0


@dataclass
class Timed:
    """A policy whose answers are timed."""

    policy: Policy
    seconds: list[float] = field(default_factory=list)
    core_seconds: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The policy's own."""
        return self.policy.name

    def decide(self, view: View) -> Sequence[Action]:
        """Answer, and note how long it took."""
        began, core = time.perf_counter(), time.process_time()
        actions = self.policy.decide(view)
        self.seconds.append(time.perf_counter() - began)
        self.core_seconds.append(time.process_time() - core)
        return actions


@dataclass(frozen=True)
class Measured:
    """One sweep."""

    policy: str
    trials: int
    wall_seconds: float
    simulated_hours: float
    decisions: int
    p50_ms: float
    p99_ms: float
    core_ms: tuple[float, float]  # p50 and p99
    megabytes: float
    spent: float
    budget: float


def main() -> None:
    """Run every size with every policy, and print a line for each."""
    given = arguments()
    for policy in given.policies:
        for trials in given.trials:
            with tempfile.TemporaryDirectory() as folder:
                show(measured(Path(folder) / "rlplan.db", policy, trials, given.seed))


def measured(path: Path, policy: str, trials: int, seed: int) -> Measured:
    """Drive one sweep to its end."""
    workers = min(1000, max(10, trials // 10))
    began = time.perf_counter()
    with open_store(path) as store:
        sweep, spec = stored_sweep(store, policy, trials, workers, seed)
        executor = SimulatedExecutor(workers, gather_seconds=30.0)
        driver = Driver("bench", "here", 1)
        with store.write() as session:
            take_lease(session, sweep, driver, executor.clock.now())
        pool = Pool()
        timed = Timed(open_policy(policy, search=None, pool=pool))
        concluding = partial(Conclusions, pool)
        run = SweepDriver(store, sweep, driver, spec, executor, timed, concluding, tick_seconds=60.0)
        outcome = run.run()
        wall = time.perf_counter() - began
    took, core = 1000 * np.array(timed.seconds), 1000 * np.array(timed.core_seconds)
    return Measured(
        policy=policy,
        trials=trials,
        wall_seconds=wall,
        simulated_hours=executor.clock.seconds() / 3600,
        decisions=outcome.decisions,
        p50_ms=float(np.percentile(took, 50)),
        p99_ms=float(np.percentile(took, 99)),
        core_ms=(float(np.percentile(core, 50)), float(np.percentile(core, 99))),
        megabytes=path.stat().st_size / 2**20,
        spent=outcome.spent_gpu_hours + outcome.overrun_gpu_hours,
        budget=spec.pilot_gpu_hours,
    )


def stored_sweep(store: Store, policy: str, trials: int, workers: int, seed: int) -> tuple[str, Any]:
    """Store a plan whose cells each have many seeds, and a sweep of all of them."""
    cells = [(n, B) for n in GROUPS for B in BATCHES]
    now = datetime.now(UTC)
    prices = {(n, B): (SECONDS_PER_UPDATE + SECONDS_PER_ROLLOUT * n * B) / 3600 for n, B in cells}
    pilot = 0.4 * sum(PILOT_STEPS * price for price in prices.values()) * trials / len(cells)
    plan = store.save_plan(
        new_plan(pilot, workers),
        [candidate(rank, *cell, prices[cell]) for rank, cell in enumerate(cells, 1)],
        created_at=now,
    )
    simulation = SimulationChoice(
        seed=seed,
        costs=Costs(seconds_per_update=SECONDS_PER_UPDATE, seconds_per_rollout=SECONDS_PER_ROLLOUT),
        failures=Failures(lost_per_gpu_hour=0.001),
        pathologies=Pathologies(collapse=0.02, slide=0.05),
    )
    row = store.plan(plan)
    choice = SweepChoice(
        policy=policy,
        folder=Path("simulated"),
        workers=workers,
        simulation=simulation.model_dump(mode="json"),
    )
    spec = sweep_spec(row, choice)
    with store.write() as session:
        name = create_sweep(session, plan, Sweep(policy=policy, seed=seed, config={}, config_hash=""), now)
        sweep_named(session, name).config = spec.model_dump(mode="json")
        for number in range(trials):
            planned = row.candidates[number % len(cells)]
            n, B, trial_seed = planned.rollouts_per_prompt, planned.prompts_per_batch, number // len(cells)
            config = spec.trial(Configuration(n, B), planned.learning_rate, trial_seed).model_dump(mode="json")
            new = Trial(
                name=trial_name(Configuration(n, B), trial_seed),
                rollouts_per_prompt=n,
                prompts_per_batch=B,
                learning_rate=planned.learning_rate,
                recipe="grpo",
                seed=trial_seed,
                config=config,
                candidate_id=planned.id,
            )
            add_trial(session, name, new, now)
    return name, spec


def new_plan(pilot: float, workers: int) -> Plan:
    """Return a plan of so many GPU-hours for pilots, and four times as many for the final run."""
    return Plan(
        budget_gpu_hours=5 * pilot,
        pilot_gpu_hours=pilot,
        final_gpu_hours=4 * pilot,
        recipe="grpo",
        difficulty="easy",
        workload={
            "model": "simulated",
            "parameters": 335_424,
            "prompt_tokens": 9.0,
            "response_tokens": 6,
            "mean_pass_rate": 0.45,
            "prompt_set_size": 4096,
        },
        hardware={"gpu": "cpu", "gpus": workers, "gpus_per_trial": 1, "pilot_gpus": 1},
        config={
            "workload": {"task": "sum-easy"},
            "recipe": {"name": "grpo"},
            "validation": {"problems": 128, "samples": 4, "every_steps": VALIDATION_STEPS, "every_rollouts": None},
        },
        assumptions=[],
        outlook=[],
        rlplan_version="bench",
    )


def candidate(rank: int, n: int, B: int, price: float) -> Candidate:
    """Return a cell with a pilot of four segments."""
    return Candidate(
        rank=rank,
        rollouts_per_prompt=n,
        prompts_per_batch=B,
        update_steps=100 * PILOT_STEPS,
        pilot_steps=PILOT_STEPS,
        gpu_hours_per_step=price,
        gpu_hours_per_step_low=price / 2,
        gpu_hours_per_step_high=price * 2,
        segment_steps=SEGMENT_STEPS,
        pilot_gpu_hours=PILOT_STEPS * price + 60 / 3600,
        learning_rate=1e-6 * math.sqrt(n * B / 1024),
        epochs=1.0,
        signal_fraction=0.9,
        pilot_reason="bench",
    )


def show(row: Measured) -> None:
    """Print one sweep."""
    fast, slow = row.wall_seconds <= BAR_SECONDS, row.p99_ms > BAR_DECISION_MS
    print(
        f"{row.policy:9} {row.trials:6,} trials  {row.wall_seconds:6.1f} s "
        f"({'met' if fast else 'MISSED'}: {BAR_SECONDS:.0f} s)  {row.simulated_hours:7.1f} simulated hours  "
        f"{row.decisions:6,} decisions  "
        f"p50 {row.p50_ms:6.2f} ms  p99 {row.p99_ms:6.2f} ms{' (over 50)' if slow else ''}  "
        f"of a core {row.core_ms[0]:.2f} and {row.core_ms[1]:.2f} ms  {row.megabytes:6.1f} MB  "
        f"spent {row.spent:,.1f} of {row.budget:,.1f} GPU-hours",
        flush=True,
    )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="+", default=["rlplan", "asha"])
    parser.add_argument("--trials", nargs="+", type=int, default=[100, 1000, 10_000])
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
