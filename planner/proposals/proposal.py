"""What a proposal answers with: the ranked candidates, and what they rest on."""

from dataclasses import dataclass

from planner.proposals.request import Gap, GapToFirst, PilotGrant, PricedCell, Request, StudyWeight
from planner.view import Axes, Champion, Configuration


@dataclass(frozen=True, slots=True)
class Candidate:
    """A priced cell with its place in the ranking, its pilot and what to mind about it."""

    rank: int
    cell: PricedCell
    pilot: PilotGrant
    learning_rate: float
    epochs: float
    notes: tuple[str, ...]
    standing: GapToFirst
    axes: Axes = ()
    against_champion: Gap | None = None  # None where the grid is explored


@dataclass(frozen=True, slots=True)
class OtherBudget:
    """The best cell if the budget were so many times as large, and the published n* at that compute."""

    factor: float
    budget_gpu_hours: float
    best: PricedCell | None
    published_rollouts_per_prompt: float | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The best cell for the same GPU-hours in other circumstances."""

    what: str
    best: PricedCell


@dataclass(frozen=True, slots=True)
class Layout:
    """The best cell on so many GPUs: more of them end sooner, fewer are cheaper, for a step waits for its longest."""

    gpus_per_trial: int
    at_once: int  # trials of that size that fit the machine side by side
    gpu_hours_per_step: float
    step_seconds: float
    update_steps: int
    final_wall_hours: float
    otherwise_gpu_hours_per_step: float | None  # split where the recipe works in turn, and in turn where it is split
    chosen: bool


@dataclass(frozen=True, slots=True)
class Deadline:
    """What being done by a time costs, against the same budget without it."""

    within_hours: float
    takes_hours: float  # of pilots and the first row's final run
    unspent_gpu_hours: float
    expected_score: float
    score_without: float
    gpus_without: int
    hours_without: float

    @property
    def cost(self) -> float:
        """What of the expected score the deadline costs."""
        return max(0.0, self.score_without - self.expected_score)


@dataclass(frozen=True, slots=True)
class PriceSensitivity:
    """What the 90 % interval of the price means for the answer."""

    fewest_steps: int  # of the first row, at the dearest
    most_steps: int  # and at the cheapest
    firm: int  # rows from the top whose place does not depend on it
    lost: float  # what the first row falls short of the best at the worse end; infinite if it buys no step of it
    first_if_dear: Configuration | None  # None where no cell could be bought
    first_if_cheap: Configuration


@dataclass(frozen=True, slots=True)
class ChampionPlan:
    """The row whose own run is the final run unless a challenger takes its place, and what may challenge it."""

    terms: Champion  # as the plan stores them
    source: str  # script, flag, usual or advised
    row: Candidate
    usual: Candidate
    look_gpu_hours: float  # of its first look
    challengers: tuple[Candidate, ...]

    @property
    def given(self) -> bool:
        """Whether it is the user's own."""
        return self.source in ("script", "flag")

    @property
    def usual_ahead(self) -> Gap | None:
        """How far the usual choice is ahead, where that is more than a standard deviation; else None."""
        gap = self.usual.against_champion
        return gap if self.usual is not self.row and gap is not None and gap.clear else None


@dataclass(frozen=True, slots=True)
class Proposal:
    """The ranked candidates, how the budget is split, and what other budgets would choose."""

    request: Request
    pilot_gpu_hours: float
    final_gpu_hours: float
    candidates: tuple[Candidate, ...]
    outlooks: tuple[OtherBudget, ...]
    layouts: tuple[Layout, ...]  # the widest first
    grounds: tuple[StudyWeight, ...]  # the weightiest first
    elsewhere: tuple[WhatIf, ...]
    pilot_wall_hours: float
    doubt: PriceSensitivity
    deadline: Deadline | None = None
    champion: ChampionPlan | None = None  # None where the whole grid is explored

    @property
    def run(self) -> Candidate:
        """The row that the final run is of, as far as is known: the champion's, or the first."""
        return self.candidates[0] if self.champion is None else self.champion.row

    @property
    def run_gpu_hours(self) -> float:
        """What the final run takes: all that it has, or less where more passes over the prompts should do harm."""
        cell = self.run.cell
        stops = cell.allocation.update_steps < cell.affordable_steps
        return cell.gpu_hours if stops else self.final_gpu_hours

    @property
    def spent_gpu_hours(self) -> float:
        """What pilots and final run take together: what a plan costs; a deadline has shortened the final run."""
        return self.pilot_gpu_hours + self.run_gpu_hours

    @property
    def level(self) -> tuple[Candidate, ...]:
        """The candidates that the prior can hardly tell from the first, which is one of them."""
        return tuple(candidate for candidate in self.candidates if candidate.standing.level)

    @property
    def usual(self) -> tuple[Candidate, ...]:
        """The usual choices, or the cells of the grid that are nearest to them, best first."""
        return tuple(candidate for candidate in self.candidates if candidate.standing.usual)
