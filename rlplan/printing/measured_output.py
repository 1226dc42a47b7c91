"""Prints what a few steps took beside their price, and what a step is priced at now."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.pricing import Price
from rlplan.actions.configuring import flag_of
from rlplan.actions.measuring import STEPS, Measured, MeasuredPhase
from rlplan.reading.price_data import interval
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.next_steps import Invocation, NextStep, next_steps
from rlplan.wording.numbers import aligned_hours
from rlplan.wording.tables import Cells, Column, table_of
from rlplan.wording.terminal import Canvas


def print_measured(measured: Measured, given: Mapping[str, Any], format: Format, invocation: Invocation) -> None:
    """Print what was measured; as CSV, its phases. `given` are the flags' values that describe the set-up."""
    rows = [_row(each) for each in measured.phases]
    if format is Format.JSON:
        print_json(measured_data(measured))
    elif format is Format.CSV:
        print_csv(list(rows[0]), rows)
    else:
        print_drawn(lambda canvas: _drawn(measured, given, invocation, canvas))


def measured_data(measured: Measured) -> dict[str, Any]:
    """Return the document of `rlplan price --measure --format json`."""
    asked = measured.before.asked
    return {
        "source": measured.source,
        "trainer": measured.trainer,
        "steps": STEPS,
        "rollouts_per_prompt": asked.rollouts_per_prompt,
        "prompts_per_batch": asked.prompts_per_batch,
        "response_tokens": measured.response_tokens,
        "phases": [_row(each) for each in measured.phases],
        "seconds_per_step": interval(*measured.after.seconds),
        "seconds_per_step_before": interval(*measured.before.seconds),
    }


def _row(each: MeasuredPhase) -> dict[str, Any]:
    return {
        "phase": each.phase,
        "priced_seconds": each.priced_seconds,
        "measured_seconds": each.measured_seconds,
        "ratio": each.priced_seconds / each.measured_seconds,
    }


PHASES: Sequence[Column[MeasuredPhase]] = (
    Column("phase", lambda each: each.phase, Cells.NAMES),
    Column("priced s", lambda each: aligned_hours(each.priced_seconds)),
    Column("measured", lambda each: aligned_hours(each.measured_seconds)),
    Column("ratio", lambda each: f"{each.priced_seconds / each.measured_seconds:.2f}"),
)


def _drawn(measured: Measured, given: Mapping[str, Any], invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
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
        f"A step is priced at {_said(after)} now, before at {_said(before)}, validations and saves included."
    )
    yield from canvas.lines("The steps are stored: prices and plans of this model on these GPUs count them.")
    flags = [word for name, value in given.items() for word in (flag_of(name), str(value))]
    steps = [
        NextStep(invocation.command("price", shlex.join(flags)), "the price as it is now"),
        NextStep(invocation.command("price", shlex.join(["--forget", measured.source])), "takes this back"),
    ]
    yield from next_steps(steps, canvas)


def _said(price: Price) -> str:
    middle, low, high = map(aligned_hours, price.seconds)
    return f"{middle} s ({low}–{high}, a factor of {price.factor:.2g})"
