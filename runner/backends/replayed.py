"""The backend that replays a recorded run, found in a table by the trial's (n, B, seed)."""

from pathlib import Path

from runner.backends.simulated import SimulatedBackend
from runner.ports.simulation import SimulationChoice
from runner.simulation.opening import open_world


class ReplayedBackend(SimulatedBackend):
    """One recorded trial at a time, point by point."""

    def __init__(self, table: Path | None = None) -> None:
        """Take the table of all trials; without one, each trial's configuration names its own."""
        super().__init__(None if table is None else open_world(SimulationChoice(kind="table", table=str(table))))
