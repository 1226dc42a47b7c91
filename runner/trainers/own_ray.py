"""A trainer that brings a Ray of its own, in any version, gets one that spans its trial's hosts and nothing else."""

import json
from dataclasses import replace
from pathlib import Path

from runner.trainers.driver import Attempt, Launch

_SCRIPT = Path(__file__).with_name("in_own_ray.py")


def in_own_ray(launch: Launch, attempt: Attempt, rank: int, python: str, gpus: int) -> Launch:
    """Return what to start on the host of a rank: a node of the trial's own Ray, and on the head the command in it.

    The command runs once, on the head, and finds that Ray by RAY_ADDRESS. `python` is the trainer's interpreter, `gpus`
    what each host has.
    """
    given = {
        "address": attempt.hosts[rank],
        "nodes": len(attempt.hosts),
        "gpus": gpus,
        "meeting": str(attempt.folder / f"attempt-{attempt.number}.ray.json"),
    }
    argv = (python, str(attempt.folder / _SCRIPT.name), json.dumps(given), *(launch.argv if rank == 0 else ()))
    return replace(launch, argv=argv, files={**launch.files, _SCRIPT.name: _SCRIPT.read_text(encoding="utf-8")})
