"""Submits a simulated sweep to Slurm: a program for tests."""

import sys
from pathlib import Path

from rlplan.actions.submitting import submit_new
from tests.faults.sweeper import SIMULATION, request


def main(database: str, pause: str, limit: str) -> None:
    world = SIMULATION.model_copy(update={"sleep_seconds_per_update": float(pause)})
    submit_new(request(Path(database), world, None), database, sbatch=[f"--time={limit}"])


if __name__ == "__main__":
    main(*sys.argv[1:])
