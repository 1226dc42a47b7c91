"""Prints the price of a step: as tables for a person, as JSON or CSV for a program."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from planner.pricing import Change, PhasePrice, Price
from planner.pricing.runs import PricedRun, Summary, summary
from rlplan.actions.pricing import Priced
from rlplan.reading.price_data import price_data, runs_data
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.next_steps import Invocation, NextStep, next_steps
from rlplan.wording.numbers import UNKNOWN, aligned_hours, some_of
from rlplan.wording.tables import Cells, Column, table_of
from rlplan.wording.terminal import Canvas

if TYPE_CHECKING:
    from rlplan.actions.calibrating import Forgotten  # opens the store, which takes longer to import than all else
    from rlplan.wording.assumptions import Assumption


def print_price(priced: Priced, format: Format, asked: Mapping[str, object], invocation: Invocation) -> None:
    """Print what a step of one configuration costs; as CSV, its phases. A plan can be asked for with `asked` too."""
    if format is Format.JSON:
        print_json(price_data(priced.price, priced.changes, priced.assumptions, priced.dollars))
    elif format is Format.CSV:
        rows = [
            {"phase": each.phase, "seconds": each.median, "low": each.low, "high": each.high, "limit": each.limit}
            for each in priced.price.phases
        ]
        print_csv(list(rows[0]), rows)
    else:
        budget = "0.3" if "task" in asked else "5000"
        words = [word for name, value in asked.items() for word in (f"--{name.replace('_', '-')}", _typed(value))]
        planned = NextStep(invocation.command("propose", shlex.join(["--budget", budget, *words])), "plans a budget")
        if invocation.explain:
            print_drawn(lambda canvas: _explained(priced, planned, canvas))
        else:
            print_drawn(lambda canvas: _screen(priced, planned, invocation, canvas))


def _typed(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def print_runs(runs: Sequence[PricedRun], format: Format) -> None:
    """Print what the rows of a table are priced at, beside what was measured."""
    if format is Format.JSON:
        print_json(runs_data(runs))
    elif format is Format.CSV:
        print_csv(list(COLUMNS), map(_row, runs))
    else:
        print_drawn(lambda canvas: _table(runs, canvas))


def print_forgotten(forgotten: "Forgotten", format: Format) -> None:
    """Print whose measured costs no longer count, and how many they were."""
    if format is Format.JSON:
        print_json(asdict(forgotten))
    elif format is Format.CSV:
        print_csv(list(asdict(forgotten)), [asdict(forgotten)])
    else:
        records = "1 record" if forgotten.records == 1 else f"{forgotten.records} records"
        said = f"{records} of {forgotten.run} removed: prices no longer rest on what its steps took."
        print_drawn(lambda canvas: canvas.lines(said))


NAMED = 3  # rows that cannot be priced for one reason
COLUMNS = ("row_id", "predicted_seconds", "low", "high", "measured_seconds", "ratio", "notes")


def _row(run: PricedRun) -> dict[str, object]:
    predicted = run.predicted or (None, None, None)
    values = (run.row_id, *predicted, run.measured, run.ratio, "; ".join(run.notes))
    return dict(zip(COLUMNS, values, strict=True))


def _table(runs: Sequence[PricedRun], canvas: Canvas) -> Iterator[Part]:
    yield table_of([run for run in runs if run.predicted], RUNS, canvas)
    yield ""
    refused: dict[str, list[str]] = {}
    for run in runs:
        if run.predicted is None:
            refused.setdefault("; ".join(run.notes), []).append(run.row_id)
    for why, rows in refused.items():
        yield from canvas.lines(f"{some_of(rows, NAMED)}: {why}", "dim")
    yield from canvas.lines(_told(summary(runs), len(runs)))


RUNS: Sequence[Column[PricedRun]] = (
    Column("run", lambda run: run.row_id, Cells.PATHS),
    Column("predicted s", lambda run: aligned_hours(run.predicted[0]) if run.predicted else UNKNOWN),
    Column("90 %", lambda run: "–".join(map(aligned_hours, run.predicted[1:])) if run.predicted else UNKNOWN),
    Column("measured", lambda run: aligned_hours(run.measured) if run.measured else UNKNOWN),
    Column("ratio", lambda run: f"{run.ratio:.2f}" if run.ratio else UNKNOWN),
)


def _told(found: Summary, rows: int) -> str:
    if found.typical_miss is None:
        return f"{rows} rows, none of them with seconds_per_step to compare with."
    return (
        f"{found.rows} of {rows} rows can be compared: a typical miss of × {found.typical_miss:.2f}, nine of ten "
        f"within × {found.within_90:.2f}, {found.inside_interval:.0%} inside their 90 % intervals."
    )


SHOWN_CHANGES = 3  # of what one change would do, the best first
LEAST_SHARE = 0.01  # of a step's time, from which on a phase is on the first screen


def _screen(priced: Priced, planned: NextStep, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Return the answer, the phases that take its time, and the changes that make a rollout cheaper."""
    price = priced.price
    least = LEAST_SHARE * sum(each.median for each in price.phases)
    yield from _answer(priced, [each for each in price.phases if each.median >= least], canvas)
    yield from canvas.lines(f"{_layout(price)[:-1]}; training takes {price.memory_used:.0%} of the memory.")
    cheaper = [each for each in priced.changes if each.price is not None and (each.saved or 0) > 0]
    if cheaper:
        yield ""
        yield canvas.line("What makes a rollout cheaper", "bold")
        yield table_of(cheaper[:SHOWN_CHANGES], CHANGES, canvas)
    yield from next_steps([planned, invocation.explained("every change, every assumption")], canvas)


def _answer(priced: Priced, phases: Sequence[PhasePrice], canvas: Canvas) -> Iterator[Part]:
    price = priced.price
    yield from canvas.lines(_title(price), "bold")
    yield from canvas.lines(_summary(price))
    if priced.dollars is not None:
        yield from canvas.lines(
            f"By tokens: ${aligned_hours(priced.dollars)} a step, whatever the GPUs ([cost] per_million)."
        )
    evidence = price.asked.coefficients.evidence
    measured = f"by {evidence}" if evidence else "no step of this set-up was measured yet"
    yield from canvas.lines(f"Known within × {price.factor:.2g} (90 %): {measured}.")
    yield ""
    yield table_of(phases, PHASES, canvas)
    yield ""


def _explained(priced: Priced, planned: NextStep, canvas: Canvas) -> Iterator[Part]:
    yield from _answer(priced, priced.price.phases, canvas)
    yield from canvas.lines(_layout(priced.price))
    yield from canvas.lines(_memory(priced.price))
    yield ""
    yield canvas.line("What one change would do", "bold")
    yield table_of([each for each in priced.changes if each.price is not None], CHANGES, canvas)
    for each in priced.changes:
        if each.refused is not None:
            yield from canvas.lines(f"{each.what}: {each.refused}", "dim")
    yield ""
    yield canvas.line("What this takes for granted", "bold")
    yield table_of(priced.assumptions, ASSUMPTIONS, canvas, headed=False)
    yield from next_steps([planned], canvas)


PHASES: Sequence[Column[PhasePrice]] = (
    Column("phase", lambda each: each.phase, Cells.NAMES),
    Column("seconds", lambda each: aligned_hours(each.median)),
    Column("90 %", lambda each: f"{aligned_hours(each.low)}–{aligned_hours(each.high)}"),
    Column("limited by", lambda each: each.limit, Cells.TEXTS),
)
CHANGES: Sequence[Column[Change]] = (
    Column("change", lambda each: each.what, Cells.NAMES),
    Column("s/step", lambda each: _first(each, "seconds")),
    Column("GPU-h/step", lambda each: _first(each, "gpu_hours")),
    Column("price of a rollout", lambda each: UNKNOWN if each.saved is None else f"{-each.saved:+.0%}"),
    Column("rollouts a second", lambda each: UNKNOWN if each.faster is None else f"× {each.faster:.2f}"),
)
ASSUMPTIONS: "Sequence[Column[Assumption]]" = (
    Column("what", lambda each: each.what, Cells.NAMES),
    Column("value", lambda each: each.value, Cells.TEXTS),
    Column("source", lambda each: each.source, Cells.TEXTS, gives_way=True),
)


def _first(change: Change, name: str) -> str:
    return UNKNOWN if change.price is None else aligned_hours(getattr(change.price, name)[0])


def _title(price: Price) -> str:
    asked = price.asked
    hardware = asked.hardware
    return (
        f"A step of {asked.workload.model.name} on {hardware.gpus_per_trial} {hardware.gpu.name}: n = "
        f"{asked.rollouts_per_prompt}, B = {asked.prompts_per_batch} ({asked.rollouts:,} rollouts), recipe "
        f"{asked.traits.name}"
    )


def _summary(price: Price) -> str:
    seconds, low, high = map(aligned_hours, price.seconds)
    hours, least, most = map(aligned_hours, price.gpu_hours)
    return (
        f"{seconds} s ({low}–{high}), {hours} GPU-hours ({least}–{most}); {price.tokens_per_second_per_gpu:,.0f} "
        f"tokens a second on each GPU"
    )


def _layout(price: Price) -> str:
    placement = price.cost.placement
    if placement.colocated:
        return f"Layout: all {placement.gpus} GPUs generate, then train."
    return f"Layout: {placement.generator_gpus} GPUs generate while {placement.trainer_gpus} train."


def _memory(price: Price) -> str:
    plan, usable = price.memory, price.asked.hardware.gpu.usable_bytes / 1e9
    states, activations = plan.state_bytes / 1e9, plan.activation_bytes / 1e9
    width = f", shared by {plan.width} GPUs" if plan.width > 1 else ""
    beside = "after the training's states have left" if plan.sleep else "beside the training's states"
    engines = f"Engines of {plan.engine_gpus} GPU{'s' * (plan.engine_gpus > 1)} take {plan.engine_share:.0%} of a GPU"
    return (
        f"Memory: training takes {states + activations:,.0f} of {usable:,.0f} GB usable on each GPU, "
        f"{1 - price.memory_used:.0%} to spare: {states:,.1f} for weights, gradients and optimizer, {activations:,.1f} "
        f"for one sequence of {plan.tokens:,} tokens{width}. {engines}"
        f"{f', {beside}' if price.cost.placement.colocated else ''}."
    )
