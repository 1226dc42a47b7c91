"""The world that a trial's configuration names."""

from functools import lru_cache
from pathlib import Path

from budgets.errors import InputError
from runner.ports.simulation import SimulationChoice
from runner.ports.trial import TrialConfig
from runner.simulation.recorded_world import RecordedWorld, read_recordings
from runner.simulation.surface_world import SurfaceWorld
from runner.simulation.world import World


def world_of(config: TrialConfig) -> World:
    """Return the world of a trial, the same object for trials of the same choice."""
    if config.simulation is None:
        raise InputError("the trial's configuration has no section 'simulation', so it belongs to no simulated world")
    return open_world(config.simulation)


def open_world(choice: SimulationChoice) -> World:
    """Return the world of a choice, the same object for equal ones; a table is read again when it has changed."""
    if choice.table is None:
        return _surface(choice)
    path = Path(choice.table)
    changed = path.stat().st_mtime_ns if path.exists() else 0
    return _recorded(choice, changed)


_surface = lru_cache(maxsize=64)(SurfaceWorld)


@lru_cache(maxsize=16)
def _recorded(choice: SimulationChoice, changed: int) -> RecordedWorld:
    return RecordedWorld(read_recordings(Path(str(choice.table))), choice)
