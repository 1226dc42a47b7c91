"""Hands a script to Slurm."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from budgets.errors import InputError


def require_sbatch() -> None:
    """Raise InputError where jobs cannot be submitted."""
    if shutil.which("sbatch") is None:
        raise InputError(
            "there is no sbatch on this machine: give the command on a login node of the cluster, or write the job "
            "with --dry-run and submit it there"
        )


def submit(script: Path, environment: Mapping[str, str]) -> str:
    """Submit a job and return its id; InputError with Slurm's own words when it is refused."""
    command = ["sbatch", "--parsable", str(script)]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise InputError(
            f"Slurm has refused {script} ({said}): change [slurm] in rlplan.toml or give options of sbatch, and submit "
            "with `rlplan resume --slurm --sbatch=OPTION`"
        )
    return done.stdout.strip().partition(";")[0]
