"""Submits a simulated sweep to Slurm: a program for tests."""

import sys
from dataclasses import replace
from pathlib import Path

from rlplan.actions.slurm_job import submit_job
from tests.faults.sweeper import SIMULATION, request


def main(database: str, pause: str, limit: str) -> None:
    world = SIMULATION.model_copy(update={"sleep_seconds_per_update": float(pause)})
    submit_job(replace(request(Path(database), world, None), sbatch=[f"--time={limit}"], db=database))


if __name__ == "__main__":
    main(*sys.argv[1:])
