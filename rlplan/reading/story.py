"""The story of a sweep at one moment, as rows tell it, and what is believed on their ground."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from planner.pooling.bands import Band
from planner.view import Configuration
from rlplan.reading.decisions import Decision
from rlplan.reading.finals import FinalStanding
from rlplan.reading.recommend_reading import Recommended
from rlplan.reading.sweep_picture import Picture, SegmentRow
from rlplan.wording.assumptions import Assumption
from rlplan.wording.formats import DEFAULT_DATABASE


@dataclass(frozen=True, slots=True)
class Charged:
    """GPU-hours of a worker that belong to no segment, such as waiting."""

    at: datetime
    worker: str
    kind: str
    gpu_hours: float


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
    segments: tuple[SegmentRow, ...] = field(repr=False)  # in the order of their start
    charges: tuple[Charged, ...] = field(repr=False)
    decisions: tuple[Decision, ...] = field(repr=False)  # oldest first
    planned: tuple[Configuration, ...] = field(repr=False)  # what the plan has, with or without a trial
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
