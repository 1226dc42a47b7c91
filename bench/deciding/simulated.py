"""Tables of the simulated suite: response surfaces around published constants (runner/simulation/surfaces.py)."""

import itertools
import zlib
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from bench.deciding.measuring import measured, places
from planner.replay.recorded import Recorded
from planner.view import Configuration
from runner.ports.trial import Pathologies, SimulationChoice
from runner.simulation.surfaces import Surface

CELLS: Final = tuple(itertools.product((8, 16, 32, 64, 128, 256, 512), (32, 64, 128, 256, 512)))


@dataclass(frozen=True)
class Scenario:
    """What a simulated table is drawn with; a step costs as many GPU-hours as its rollouts and `overhead` more."""

    difficulty: Literal["easy", "hard"] = "easy"
    pathologies: Pathologies = field(default_factory=Pathologies)
    score_noise: float = 0.02
    target: float = 1000.0  # GPU-hours
    target_rollouts: float = 3e6  # that a cell without overhead makes by then
    overhead: float = 0.0  # rollouts that the fixed time of an update would have made
    seeds: int = 2
    points: int = 40
    answers: int = 1200  # 300 problems, four samples each


SCENARIOS: Final = {
    "easy": Scenario(),
    "hard": Scenario("hard", target_rollouts=2e6),
    "noisy": Scenario(answers=200, seeds=3),
    "no-noise": Scenario(score_noise=0.0, answers=100_000, seeds=1),
    "crossing": Scenario(pathologies=Pathologies(crossing=0.4)),
    "collapse": Scenario(pathologies=Pathologies(collapse=0.15), seeds=3),
    "slides": Scenario(pathologies=Pathologies(slide=0.25, second_rise=0.15)),
    "late-starts": Scenario(pathologies=Pathologies(late_start=0.3), seeds=1),
    "unequal-costs": Scenario(overhead=4000.0, target=200.0),
    "short-target": Scenario(target=20.0, target_rollouts=8e5, points=25, answers=500),
    "long-target": Scenario(target=100_000.0, target_rollouts=1e7, points=50, seeds=1),
    "everything": Scenario(
        pathologies=Pathologies(late_start=0.1, second_rise=0.1, slide=0.1, crossing=0.15, collapse=0.05),
        overhead=1500.0,
        target=5000.0,
    ),
}


def simulated(name: str, seed: int, points: int | None = None) -> tuple[Recorded, float]:
    """Return a drawn table and its target; its runs have so many points, the scenario's own number without it."""
    scenario = SCENARIOS[name]
    choice = SimulationChoice(
        seed=zlib.crc32(f"{name} {seed}".encode()),
        difficulty=scenario.difficulty,
        score_noise=scenario.score_noise,
        pathologies=scenario.pathologies,
    )
    surface, rng = Surface(choice), np.random.default_rng([seed, *name.encode()])
    at, per_hour = places(points or scenario.points, scenario.target), scenario.target_rollouts / scenario.target
    runs = []
    for (n, B), run in itertools.product(CELLS, range(scenario.seeds)):
        shape = surface.run(n, B, run)
        rollouts = at * per_hour * (n * B / (n * B + scenario.overhead))
        mean = np.array([shape.score(float(count)) for count in rollouts])
        runs.append(measured(Configuration(n, B), run, at, mean, scenario.answers, rng))
    return Recorded(tuple(runs)), scenario.target
