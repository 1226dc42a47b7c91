"""What `rlplan price --measure` finds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.metrics import Interval
from planner.price import Price
from rlplan.wording.answers import Answer
from rlplan.wording.documents import Key
from rlplan.wording.row_columns import columns

STEPS = 3  # batches that count; one before them warms up


@dataclass(frozen=True)
class MeasuredPhase:
    """A part of a step: what it is priced at, with responses as long as they were, and what it took."""

    phase: str
    priced_seconds: float
    measured_seconds: float

    ratio = Key[float](lambda each: each.priced_seconds / each.measured_seconds)


@dataclass(frozen=True, repr=False)
class MeasuredSteps(Answer):
    """A set-up of which steps were measured, its price before and with them, and the flags that describe it."""

    DRAWN = "rlplan.commands.measured"
    COLUMNS = columns("phase priced_seconds measured_seconds ratio")
    ROWS = "phases"

    source: str  # by which they are taken back
    trainer: str
    response_tokens: float | None  # on average; None where the trainer does not say
    phases: tuple[MeasuredPhase, ...]  # the whole step last
    before: Price = field(repr=False)
    after: Price = field(repr=False)
    given: Sequence[str] = field(default=(), repr=False)

    steps = Key[int](lambda _: STEPS)
    rollouts_per_prompt = Key[int]("before.asked.rollouts_per_prompt")
    prompts_per_batch = Key[int]("before.asked.prompts_per_batch")
    seconds_per_step = Key[Interval](lambda each: Interval(*each.after.seconds))
    seconds_per_step_before = Key[Interval](lambda each: Interval(*each.before.seconds))
