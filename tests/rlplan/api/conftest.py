from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import rlplan
from rlplan.actions import sweeping
from rlplan.actions.interrupts import Interrupts
from rlplan.actions.sweeping import Finished
from rlplan.api.results import Book
from rlplan.live.sweep_running import Began
from rlplan.requests.run import SweepRequest
from runner.ports.trial import SimulationChoice
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.sweep_rows import ready
from tests.rlplan.test_sweeping import COSTS, simulate


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test works in an empty folder, with the database that is taken by default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLPLAN_DB", raising=False)
    return tmp_path


@pytest.fixture
def book(tmp_path: Path) -> Book:
    """Open a database with a sweep whose rows were written by hand, recommendation included."""
    ready(tmp_path / "rlplan.db")
    return rlplan.open()


@pytest.fixture
def sweep(tmp_path: Path) -> rlplan.Sweep:
    """Read a sweep of a simulated world that has ended; everything can be worked out of it."""
    ended(tmp_path / "rlplan.db")
    return rlplan.open().sweep()


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[Interrupts], None]]:
    """Let sweeps train in a simulated world; what is put into the list is called as soon as one has begun."""
    simulate(monkeypatch)
    calls: list[Callable[[Interrupts], None]] = []
    real = sweeping.start

    def start(request: SweepRequest, *, interrupts: Interrupts, began: Began) -> Finished:
        def told(sweep: str) -> None:
            began(sweep)
            for call in calls:
                call(interrupts)

        simulation = SimulationChoice(costs=COSTS).model_dump(mode="json")
        simulated = replace(request, simulation=simulation)
        return real(simulated, interrupts=interrupts, began=told)

    monkeypatch.setattr(sweeping, "start", start)
    return calls
