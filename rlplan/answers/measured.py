"""`rlplan price --measure`: what a few steps took beside their price, and what a step is priced at now."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.metrics import Interval
from planner.pricing import Price
from rlplan.actions.measured_steps import STEPS, Measured, MeasuredPhase
from rlplan.wording.answers import Answer
from rlplan.wording.console import Part
from rlplan.wording.documents import Key, View, plain
from rlplan.wording.frames import MEASURED
from rlplan.wording.next_steps import Invocation, NextStep, next_steps
from rlplan.wording.numbers import aligned_hours
from rlplan.wording.tables import Cells, Column, table_of
from rlplan.wording.terminal import Canvas


class PhaseRatio(View[MeasuredPhase]):
    """A phase as it was priced and measured."""

    WHOLE = MeasuredPhase
    ratio = Key[float](lambda each: each.of.priced_seconds / each.of.measured_seconds)


@dataclass(frozen=True, repr=False)
class MeasuredSteps(Answer):
    """What was measured, and the flags that describe the set-up."""

    COLUMNS = MEASURED

    measured: Measured = field(repr=False)
    given: Sequence[str] = field(repr=False)

    source = Key[str]("measured.source")
    trainer = Key[str]("measured.trainer")
    steps = Key[int](lambda _: STEPS)
    rollouts_per_prompt = Key[int]("measured.before.asked.rollouts_per_prompt")
    prompts_per_batch = Key[int]("measured.before.asked.prompts_per_batch")
    response_tokens = Key[float | None]("measured.response_tokens")
    phases = Key[Sequence[PhaseRatio]](lambda each: list(map(PhaseRatio, each.measured.phases)))
    seconds_per_step = Key[Interval](lambda each: Interval(*each.measured.after.seconds))
    seconds_per_step_before = Key[Interval](lambda each: Interval(*each.measured.before.seconds))

    @property
    def listed(self) -> Sequence[Any]:
        """Its phases."""
        return [plain(each) for each in self.phases]

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw what the steps took, and what a step is priced at now."""
        return _drawn(self.measured, self.given, invocation, canvas)


PHASES: Sequence[Column[MeasuredPhase]] = (
    Column("phase", lambda each: each.phase, Cells.NAMES),
    Column("priced s", lambda each: aligned_hours(each.priced_seconds)),
    Column("measured", lambda each: aligned_hours(each.measured_seconds)),
    Column("ratio", lambda each: f"{each.priced_seconds / each.measured_seconds:.2f}"),
)


def _drawn(measured: Measured, given: Sequence[str], invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    asked, before, after = measured.before.asked, measured.before, measured.after
    hardware = asked.hardware
    yield from canvas.lines(
        f"{STEPS} steps of {asked.workload.model.name} by {measured.trainer} on {hardware.gpus_per_trial} "
        f"{hardware.gpu.name}: n = {asked.rollouts_per_prompt}, B = {asked.prompts_per_batch}",
        "bold",
    )
    yield ""
    yield table_of(measured.phases, PHASES, canvas)
    yield ""
    if measured.response_tokens is not None:
        mean = asked.workload.under(asked.traits).responses.mean
        yield from canvas.lines(
            f"Responses: {measured.response_tokens:,.4g} tokens on average; the price before had {mean:,.4g}."
        )
    yield from canvas.lines(
        f"A step is priced at {_interval(after)} now, before at {_interval(before)}, validations and saves included."
    )
    yield from canvas.lines("The steps are stored: prices and plans of this model on these GPUs count them.")
    steps = [
        NextStep(invocation.command("price", shlex.join(given)), "the price as it is now"),
        NextStep(invocation.command("price", shlex.join(["--forget", measured.source])), "takes this back"),
    ]
    yield from next_steps(steps, canvas)


def _interval(price: Price) -> str:
    middle, low, high = map(aligned_hours, price.seconds)
    return f"{middle} s ({low}–{high}, a factor of {price.factor:.2g})"
