"""What a policy sees: the trials with their committed scores, the money that is left, and the workers that are free."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from budgets.errors import IllegalTransitionError


class TrialState(StrEnum):
    """Where a trial stands."""

    PLANNED = "planned"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    PRUNED = "pruned"
    FAILED = "failed"
    LOST = "lost"


S = TrialState

MOVES: dict[TrialState, frozenset[TrialState]] = {
    S.PLANNED: frozenset({S.RUNNING, S.PRUNED}),  # pruned here: it never started
    S.RUNNING: frozenset({S.PAUSED, S.FINISHED, S.PRUNED, S.FAILED, S.LOST}),
    S.PAUSED: frozenset({S.RUNNING, S.FINISHED, S.PRUNED}),
    S.FAILED: frozenset({S.PLANNED}),  # only by an explicit retry
    S.LOST: frozenset({S.PLANNED, S.PAUSED}),  # paused: it goes on from its checkpoint
    S.FINISHED: frozenset(),
    S.PRUNED: frozenset(),
}


def move(old: TrialState, new: TrialState) -> TrialState:
    """Return the new state, or raise IllegalTransitionError when it cannot be reached from the old one."""
    if new in MOVES[old]:
        return new
    allowed = ", ".join(sorted(MOVES[old])) or "nothing, it is a final state"
    raise IllegalTransitionError(f"a {old} trial cannot become {new}; from {old} it can become: {allowed}")


Cell = tuple[int, int]  # (n, B)
Axes = tuple[tuple[str, str | float], ...]  # what else tells configurations apart, such as ("recipe", "scalerl")


class Configuration(NamedTuple):
    """What is compared at the target: (n, B) and every further axis. Seeds are no axis."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    axes: Axes = ()


def octaves_apart(one: Configuration, other: Configuration) -> float:
    """Return the distance in n and B, in octaves."""
    return math.hypot(
        math.log2(other.rollouts_per_prompt / one.rollouts_per_prompt),
        math.log2(other.prompts_per_batch / one.prompts_per_batch),
    )


FINAL_POLICY = "final"  # what decides in the sweep that a final run is driven as
CHAMPION_POLICY = "champion"  # in one of a plan that has a champion
EXPLORING_POLICY = "rlplan"  # and in one of a plan that has none

# From these a trial can be given a segment.
READY = frozenset({TrialState.PLANNED, TrialState.PAUSED})
# From these it can still be given one some day.
ALIVE = frozenset({TrialState.PLANNED, TrialState.RUNNING, TrialState.PAUSED})


class ScorePoint(NamedTuple):
    """One score of a trial; there may be tens of thousands, and a tuple is made fastest."""

    step: int
    gpu_hours: float  # that its training so far takes on the final run's GPUs, where curves are compared
    score: float
    standard_error: float | None
    validation_gpu_hours: float = 0.0  # of those, that this score took; 0 where nobody says


@dataclass(frozen=True, slots=True)
class TrialView:
    """One trial as a policy sees it."""

    trial: int  # its id in the database
    name: str
    rollouts_per_prompt: int
    prompts_per_batch: int
    seed: int
    state: TrialState
    step: int  # updates that are committed
    pilot_steps: int  # what the plan grants it
    segment_steps: int  # the plan's step from one decision to the next
    most_steps: int  # the length of the final run: no trial needs to go farther
    gpu_hours_per_step: float  # measured as soon as it can be, the plan's price before
    start_up_gpu_hours: float
    gpu_hours_spent: float
    scores: tuple[ScorePoint, ...] = ()
    resting: bool = False  # it failed a moment ago and waits before it is tried again
    proposed: bool = False  # by the policy, during the sweep; not by the plan
    axes: Axes = ()
    compared_per_gpu_hour: float = 1.0  # GPU-hours of the final run for the updates of one of its own
    # (n, B) with the further axes; made once, for a decision looks at that of every trial several times.
    configuration: Configuration = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        configuration = Configuration(self.rollouts_per_prompt, self.prompts_per_batch, self.axes)
        object.__setattr__(self, "configuration", configuration)

    @property
    def cell(self) -> Cell:
        """(n, B)."""
        return self.rollouts_per_prompt, self.prompts_per_batch

    @property
    def ready(self) -> bool:
        """Whether a segment could start now."""
        return self.state in READY and not self.resting and self.step < self.most_steps

    @property
    def compared_per_step(self) -> float:
        """GPU-hours that a step takes on the final run's GPUs."""
        return self.gpu_hours_per_step * self.compared_per_gpu_hour

    def price(self, to_step: int) -> float:
        """Return the GPU-hours that training up to a step is expected to take, with a start-up."""
        return self.start_up_gpu_hours + max(0, to_step - self.step) * self.gpu_hours_per_step


@dataclass(frozen=True, slots=True)
class OpenCell:
    """A configuration of the plan that has no trial in the sweep.

    Where the learning rate is searched for, one of each (n, B) and other axes is always open: a trial of it may have
    any factor within `learning_rates`, and the one in `axes` stands for all of them.
    """

    rollouts_per_prompt: int
    prompts_per_batch: int
    pilot_steps: int  # of the shortest pilot that is worth starting
    gpu_hours_per_step: float
    start_up_gpu_hours: float
    axes: Axes = ()
    learning_rates: tuple[float, float] | None = None  # least and largest factor on the rule's rate
    compared_per_gpu_hour: float = 1.0  # as of a trial

    @property
    def cell(self) -> Cell:
        """(n, B)."""
        return self.rollouts_per_prompt, self.prompts_per_batch

    @property
    def configuration(self) -> Configuration:
        """(n, B) with the further axes."""
        return Configuration(self.rollouts_per_prompt, self.prompts_per_batch, self.axes)

    @property
    def compared_per_step(self) -> float:
        """GPU-hours that a step takes on the final run's GPUs."""
        return self.gpu_hours_per_step * self.compared_per_gpu_hour

    @property
    def price(self) -> float:
        """GPU-hours of its shortest pilot."""
        return self.start_up_gpu_hours + self.pilot_steps * self.gpu_hours_per_step


PARTS = (1 / 64, 1 / 16, 1 / 4, 1.0)  # of the target's GPU-hours, where a plan says what a run will have gained


@dataclass(frozen=True, slots=True)
class PlanPrior:
    """What the plan expected before any pilot: gains of runs by each study of its prior, as shares of what is lacking.

    What a base model lacks is what its score falls short of 1.
    """

    weights: tuple[float, ...]  # of the studies
    gains: Mapping[Configuration, tuple[tuple[float, ...], ...]]  # studies × PARTS


@dataclass(frozen=True, slots=True)
class Champion:
    """The configuration whose own run is the final run unless a challenger replaces it, and what challengers may take.

    Several configurations are candidates that a race is to choose from, such as base models.
    """

    candidates: tuple[Configuration, ...]
    total_gpu_hours: float  # of everything: the champion's run to its end, and what challengers take of that
    usual: tuple[Configuration, ...] = ()  # what somebody would run who tries nothing, of each model and recipe
    challenger_share: float = 0.05  # of all GPU-hours, the most that challengers get
    alarm_share: float = 0.10  # and where the champion's start gives alarm

    @property
    def alone(self) -> bool:
        """Whether the champion is to have all GPU-hours, whatever its start shows."""
        return self.challenger_share <= 0


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a decision may rest on; two equal views get equal decisions.

    `trials` is in the order in which they were planned. Between two decisions only trials that something happened to
    are new objects, so that what was computed from a `TrialView` may be kept by its identity or by its scores.
    """

    trials: Mapping[int, TrialView]
    gpu_hours_left: float  # neither spent nor reserved
    target_gpu_hours: float  # of the final run: where configurations are compared
    free_workers: int
    seed: int
    open_cells: Mapping[Configuration, OpenCell] = field(default_factory=dict)
    rest_to_final: bool = False  # whether what pilots leave over lengthens the final run
    continues_pilot: bool = False  # whether the pilot of what is chosen does, which the final run goes on from
    replicates: bool = False  # whether further seeds of a configuration can be proposed
    plan_prior: PlanPrior | None = None  # recorded runs that belong to no plan have none
    champion: Champion | None = None  # None where the whole grid is explored

    @property
    def final_gpu_hours(self) -> float:
        """Of the final run if no pilot is trained any more, beside those of the pilot that it goes on from."""
        return self.target_gpu_hours + (self.gpu_hours_left if self.rest_to_final else 0.0)

    def final_run(self, chosen: Configuration) -> float:
        """GPU-hours of a configuration's final run, with those of the longest pilot that it then goes on from."""
        pilots = (
            trial.scores[-1].gpu_hours
            for trial in self.trials.values()
            if trial.configuration == chosen and trial.scores
        )
        return self.final_gpu_hours + (max(pilots, default=0.0) if self.continues_pilot else 0.0)


def by_configuration(trials: Iterable[TrialView]) -> dict[Configuration, list[TrialView]]:
    """Return the trials of each configuration, in their order."""
    by_choice: dict[Configuration, list[TrialView]] = {}
    for trial in trials:
        by_choice.setdefault(trial.configuration, []).append(trial)
    return by_choice


def has_curve(trial: TrialView) -> bool:
    """Whether the trial was scored after training had begun."""
    return any(point.step > 0 for point in trial.scores)
