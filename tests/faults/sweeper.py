"""A whole sweep from its start or from where it stands: a program for tests that kill it and what it starts."""

import os
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from rlplan.actions.interrupts import Interrupts
from rlplan.actions.sweeping import go_on, start
from rlplan.requests.run import ResumeRequest, SweepRequest
from runner.ports.trial import Costs, SimulationChoice
from runner.sweep import conclusions

UPDATE_SECONDS = 0.02
TRAINER = "trainer.toml"  # beside the database
FAILING_FIT = "RLPLAN_TEST_FAILING_FIT"  # which of the driver's fits has no end
SIMULATION = SimulationChoice(
    costs=Costs(
        seconds_per_update=UPDATE_SECONDS, seconds_per_rollout=1e-6, seconds_per_answer=0.0, start_up_seconds=0.0
    ),
    sleep_seconds_per_update=UPDATE_SECONDS,
)
# Pilots are no longer than the final run, which gets a fiftieth: the rest pays for what is lost.
FLAGS = {
    "pilot.fraction": ("", 0.98),
    "pilot.most_pilots": ("", 6),
    "grid.most_rollouts_per_step": ("", 256),
    "validation.every_steps": ("", 10),
}


def request(
    database: Path, world: SimulationChoice, ray_address: str | None, storage: str | None = None
) -> SweepRequest:
    """Return what is asked for: a few pilots to their end; by somebody else's trainer where a file describes one."""
    trainer = database.parent / TRAINER
    return SweepRequest(
        task="sum-easy",
        budget=0.5,
        further=FLAGS,
        policy="full",
        ray_address=ray_address,
        search=None,
        workers=2,
        retries=50,
        folder=database.parent / "sweeps",
        storage=storage,
        trainer=str(trainer) if trainer.exists() else None,
        simulation=world.model_dump(mode="json"),
    )


def fail_a_fit(number: int) -> None:
    """Have one fit of this process fail, as a Cholesky may."""
    fits, beliefs_of = count(1), conclusions.beliefs_of

    def failing(*given: Any, **options: Any) -> Any:
        if next(fits) == number:
            raise np.linalg.LinAlgError("Singular matrix")
        return beliefs_of(*given, **options)

    conclusions.beliefs_of = failing


def main(what: str, database: str, ray_address: str | None = None, storage: str | None = None) -> int:
    """Run until the end or an interrupt, and return the exit code that the command line would."""
    ray_address = ray_address or None
    if FAILING_FIT in os.environ:
        fail_a_fit(int(os.environ[FAILING_FIT]))
    with Interrupts() as interrupts:

        def began(_: str) -> None:
            interrupts.patient = True

        if what == "start":
            asked = request(Path(database), SIMULATION, ray_address, storage)
            finished = start(replace(asked, db=database), interrupts=interrupts, began=began)
        else:
            finished = go_on(
                ResumeRequest(db=database, accept_changes=True, ray_address=ray_address),
                interrupts=interrupts,
                began=began,
            )
    return 130 if finished.interrupted else 5 if finished.failed_trials else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
