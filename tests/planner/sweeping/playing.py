"""Plays a policy to the end of its money over courses whose truth is known, as a driver with several workers would."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bench.synthetic import courses
from planner.sweeping.actions import Action, Advance, Finish, Policy, Propose, Prune, Stop
from planner.sweeping.grants import Grant, grant
from planner.trials import TrialState, move
from planner.view import Cell, Configuration, OpenCell, Seen, TrialView, View
from tests.planner.sweeping.views import CELLS

ANSWERS = 500  # behind each score


@dataclass
class World:
    """Cells with their true courses over the share of the target, played with a policy."""

    truth: dict[Cell, Callable[[float], float]]
    planned: int
    budget: float
    target: float = 100.0
    workers: int = 2
    seed: int = 0
    failing: float = 0.0
    spent: float = 0.0
    decisions: list[tuple[View, list[Action]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.cells = list(self.truth)
        self.trials: dict[int, TrialView] = {}
        self.running: list[tuple[float, int, Grant]] = []
        self.clock = 0.0
        for cell in self.cells[: self.planned]:
            self._add(cell, proposed=False)

    def view(self) -> View:
        reserved = sum(granted.gpu_hours for _, _, granted in self.running)
        taken = {trial.cell for trial in self.trials.values()}
        return View(
            trials=dict(self.trials),
            gpu_hours_left=self.budget - self.spent - reserved,
            target_gpu_hours=self.target,
            free_workers=self.workers - len(self.running),
            seed=self.seed,
            open_cells={
                Configuration(*cell): OpenCell(*cell, 5, 0.5, 0.05) for cell in self.cells if cell not in taken
            },
        )

    def play(self, policy: Policy, keep: bool = True) -> None:
        stopped = False
        for _ in range(100_000):
            view = self.view()
            actions = [] if stopped else list(policy.decide(view))
            if keep:
                self.decisions.append((view, actions))
            stopped = stopped or any(isinstance(action, Stop) for action in actions)
            for action in actions:
                self._apply(action)
            if any(isinstance(action, Propose) for action in actions):
                continue
            if not self.running:
                return
            self._end_one()
        raise AssertionError("the policy does not come to an end")

    def score(self, cell: Cell) -> float:
        return self.truth[cell](1.0)

    @property
    def best(self) -> float:
        return max(self.score(cell) for cell in self.cells[: self.planned])

    def _add(self, cell: Cell, *, proposed: bool) -> None:
        number = len(self.trials) + 1
        self.trials[number] = TrialView(
            number, f"t{number}", *cell, 0, TrialState.PLANNED, 0, 20, 5, 200, 0.5, 0.05, 0.0, proposed=proposed
        )

    def _apply(self, action: Action) -> None:
        if isinstance(action, Propose):
            self._add((action.rollouts_per_prompt, action.prompts_per_batch), proposed=True)
        elif isinstance(action, Prune | Finish):
            to = TrialState.PRUNED if isinstance(action, Prune) else TrialState.FINISHED
            trial = self.trials[action.trial]
            self.trials[action.trial] = replace(trial, state=move(trial.state, to))
        elif isinstance(action, Advance):
            trial = self.trials[action.trial]
            granted = grant(trial, action.to_step, self.view().gpu_hours_left)
            assert granted is not None, f"{action} cannot be paid for"
            self.trials[trial.trial] = replace(trial, state=move(trial.state, TrialState.RUNNING))
            takes = trial.price(granted.to_step) * self.rng.uniform(0.8, 1.2)
            self.running.append((self.clock + takes, trial.trial, granted))

    def _end_one(self) -> None:
        self.running.sort(key=lambda one: one[0])
        self.clock, number, granted = self.running.pop(0)
        trial = self.trials[number]
        charge = min(trial.price(granted.to_step) * self.rng.uniform(0.8, 1.2), granted.gpu_hours)
        self.spent += charge
        fails = self.rng.random() < self.failing
        to = TrialState.FAILED if fails else TrialState.PAUSED
        steps = () if fails else range(trial.step if trial.step == 0 else trial.step + 1, granted.to_step + 1)
        self.trials[number] = replace(
            trial,
            state=move(trial.state, to),
            step=trial.step if fails else granted.to_step,
            gpu_hours_spent=trial.gpu_hours_spent + charge,
            scores=trial.scores + tuple(self._seen(trial, step) for step in steps),
        )

    def _seen(self, trial: TrialView, step: int) -> Seen:
        x = step * trial.gpu_hours_per_step
        p = float(np.clip(self.truth[trial.cell](x / self.target), 0, 1))
        score = float(self.rng.binomial(ANSWERS, p) / ANSWERS)
        return Seen(step, x, score, float(np.sqrt(max(p * (1 - p), 0.25 / ANSWERS) / ANSWERS)))


def surface(seed: int, cells: Sequence[Cell] = CELLS) -> dict[Cell, Callable[[float], float]]:
    """Draw sigmoids of which A and C_mid are smooth functions of log n and log B, with a scatter about them."""
    rng = np.random.default_rng(seed)
    best = rng.uniform(2, 6), rng.uniform(4, 8)
    curvature, start = rng.uniform(0.003, 0.03, size=2), rng.uniform(0.1, 0.4)
    top, middle, slope = rng.uniform(0.6, 0.9), rng.uniform(0.02, 0.3), rng.normal(size=2) * 0.2

    def course(cell: Cell) -> Callable[[float], float]:
        away = np.log2(cell) - best
        asymptote = max(start, top - float(curvature @ away**2) + rng.normal() * 0.01)
        own, exponent = middle * float(np.exp(slope @ away + 0.2 * rng.normal())), rng.uniform(1, 2.5)
        return lambda u: start + (asymptote - start) / (1 + (own / max(u, 1e-9)) ** exponent)

    return {cell: course(cell) for cell in cells}


def unrelated(seed: int, cells: Sequence[Cell] = CELLS) -> dict[Cell, Callable[[float], float]]:
    """Draw a course of any rising shape for each cell, with no relation between them."""
    rng = np.random.default_rng(seed)
    kinds = (courses.sigmoid, courses.saturating, courses.power_law, courses.shoulder, courses.late_start)

    def course() -> Callable[[float], float]:
        mean = kinds[rng.integers(len(kinds))](rng).mean
        return lambda u: float(mean(np.array([u]))[0])

    return {cell: course() for cell in cells}
