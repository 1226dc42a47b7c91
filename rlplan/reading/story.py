"""The story of a sweep at one moment, as rows tell it, and what is believed on their ground."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from planner.pooling.bands import Band
from planner.store.schema import SegmentOutcome
from planner.view import Axes
from rlplan.reading.decisions import WholeDecision
from rlplan.reading.finals import FinalStanding
from rlplan.reading.recommend_reading import Recommended
from rlplan.reading.sweep_picture import Picture
from rlplan.wording.assumptions import Assumption
from rlplan.wording.formats import DEFAULT_DATABASE


@dataclass(frozen=True, slots=True)
class Stretch:
    """One segment of a trial on the worker that ran it; the time axis of the budget."""

    worker: str
    trial: int
    name: str  # the trial's
    number: int
    attempt: int
    from_step: int
    to_step: int
    started_at: datetime
    ended_at: datetime | None  # None while it is under way
    outcome: SegmentOutcome
    reserved_gpu_hours: float
    charged_gpu_hours: float | None


@dataclass(frozen=True, slots=True)
class Charged:
    """GPU-hours of a worker that belong to no segment, such as waiting."""

    at: datetime
    worker: str
    kind: str
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class Cell:
    """One configuration of the plan, with or without a trial."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    axes: Axes
    gpu_hours_per_step: float
    update_steps: int  # that the final run would have, as planned
    signal_fraction: float | None
    pilot_steps: int  # 0 for none
    pilot_reason: str | None
    learning_rate: float


class Health(StrEnum):
    """How much a flag matters."""

    GOOD = "good"
    MIND = "mind"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Flag:
    """One sign of health or the lack of it."""

    health: Health
    text: str


@dataclass(frozen=True, slots=True)
class Story:
    """A sweep as its rows tell it; everything is read in one transaction."""

    picture: Picture
    stretches: tuple[Stretch, ...] = field(repr=False)  # in the order of their start
    charges: tuple[Charged, ...] = field(repr=False)
    decisions: tuple[WholeDecision, ...] = field(repr=False)  # oldest first
    cells: tuple[Cell, ...] = field(repr=False)
    assumptions: tuple[Assumption, ...] = field(repr=False)
    flags: tuple[Flag, ...] = field(repr=False)
    created_at: datetime
    read_at: datetime
    budget_gpu_hours: float
    final_gpu_hours: float
    target_gpu_hours: float
    final: FinalStanding | None = None  # its newest final run
    database: str = DEFAULT_DATABASE  # as it is typed here


@dataclass(frozen=True, slots=True)
class Beliefs:
    """What all curves together let one believe: seconds of work for a large sweep, so who shows it keeps it."""

    recommended: Recommended | None
    why_not: str | None  # why there is no recommendation
    bands: Mapping[int, Band] = field(repr=False)  # by trial
    cuts: Mapping[int, float] = field(repr=False)  # GPU-hours from which on scores count as collapsed, by trial
