"""`rlplan price --measure`: what a few steps took beside their price, and what a step is priced at now."""

import shlex
from collections.abc import Iterator, Sequence
from operator import attrgetter

from planner.price import Price
from rlplan.actions.measured_steps import STEPS, MeasuredPhase, MeasuredSteps
from rlplan.wording.draw import Canvas, Cells, Column, Invocation, Part, next_steps, table_of
from rlplan.wording.numbers import aligned_hours

PHASES: Sequence[Column[MeasuredPhase]] = (
    Column("phase", attrgetter("phase"), Cells.NAMES),
    Column("priced s", lambda each: aligned_hours(each.priced_seconds)),
    Column("measured", lambda each: aligned_hours(each.measured_seconds)),
    Column("ratio", lambda each: f"{each.ratio:.2f}"),
)


def parts(measured: MeasuredSteps, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw what the steps took, and what a step is priced at now."""
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
        invocation.step("price", shlex.join(measured.given), "the price as it is now"),
        invocation.step("price", shlex.join(["--forget", measured.source]), "takes this back"),
    ]
    yield from next_steps(steps, canvas)


def _interval(price: Price) -> str:
    middle, low, high = map(aligned_hours, price.seconds)
    return f"{middle} s ({low}–{high}, a factor of {price.factor:.2g})"
