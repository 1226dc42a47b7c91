"""What `rlplan price --measure` finds."""

from dataclasses import dataclass

from planner.pricing import Price

STEPS = 3  # batches that count; one before them warms up


@dataclass(frozen=True, slots=True)
class MeasuredPhase:
    """A part of a step: what it is priced at, with responses as long as they were, and what it took."""

    phase: str
    priced_seconds: float
    measured_seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A set-up of which steps were measured, and its price before and with them."""

    source: str  # by which they are taken back
    trainer: str
    response_tokens: float | None  # on average; None where the trainer does not say
    phases: tuple[MeasuredPhase, ...]  # the whole step last
    before: Price
    after: Price
