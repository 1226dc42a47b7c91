"""`rlplan price`: what a step of one configuration costs, or each row of a table of runs; or what is measured of it."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from budgets.coefficients import shipped
from budgets.errors import InputError
from budgets.memory import Placement
from budgets.memory_plan import MemoryPlan
from planner.config.trainer import COMMAND
from planner.metrics import Interval
from planner.percent import percent
from planner.price import Change, PhasePrice, Price
from planner.price.measured_runs import PricedRun, Summary, summary
from rlplan.actions.configuration import flag_of, flagged, load_configuration
from rlplan.actions.step_price import Priced, price_one, price_table
from rlplan.requests.plan import PriceRequest
from rlplan.wording.answers import Answer, Key, View, columns
from rlplan.wording.assumptions import ASSUMPTIONS, Assumption, narrowing
from rlplan.wording.numbers import UNKNOWN, aligned_hours, plural, some_of
from rlplan.wording.screen import Canvas, Cells, Column, Invocation, Part, next_steps, table_of

if TYPE_CHECKING:
    from rlplan.commands.price_measure import MeasuredSteps

SET_UP = ("model", "gpu", "gpus", "response_tokens", "mean_response_tokens", "from_log", "prompts")
# The flags that a plan can be asked for with too, and all that a price depends on.
OF_PLANS = ("task", *SET_UP, "recipe", "difficulty", "config")
SIZES = ("rollouts_per_prompt", "prompts_per_batch")
PRICED = (*SIZES, *SET_UP, "prompt_tokens", "recipe", "trainer", "difficulty", "task", "config")


def answer(request: PriceRequest) -> "StepPrice | RunPrices | ForgottenPrices | MeasuredSteps":
    """Price a step or a table of runs, train some steps to know it, or forget what was measured."""
    if request.forget is not None:
        _require_alone(request, "forget", "--forget")
        from rlplan.actions.calibration import forget_prices  # noqa: PLC0415 (opens the store, which takes long)

        return ForgottenPrices(*forget_prices(request.forget, request.db))
    if request.runs is not None:
        _require_alone(request, "runs", "a table of runs")
        return RunPrices(tuple(price_table(Path(request.runs))))
    described = request.trainer is not None and request.trainer.endswith(".toml")
    flags = {
        **flagged(request),
        "trainer.name": ("--trainer", COMMAND if described else request.trainer),
    }
    resolved = load_configuration(request.config, request.task, flags, request.from_log)
    n, B = request.rollouts_per_prompt, request.prompts_per_batch
    if not request.measure:
        return StepPrice(price_one(resolved, n, B, request.db), request)
    from rlplan.commands.price_measure import measure  # noqa: PLC0415 (what trains)
    from runner.sweep.plan import SweepChoice  # noqa: PLC0415

    file = request.trainer if described else None
    choice = SweepChoice(problems=request.problems, model=request.checkpoint, reward=request.reward, trainer=file)
    return replace(measure(resolved, n, B, choice, request.db), given=given(request, PRICED))


def _require_alone(request: PriceRequest, alone: str, what: str) -> None:
    """Refuse flags beside what takes none of them."""
    others = [flag_of(name) for name, value in vars(request).items() if name not in (alone, "db") and value]
    if others:
        raise InputError(f"{what} takes no {', '.join(others)}: leave {'it' if len(others) == 1 else 'them'} out")


def given(request: PriceRequest, names: Sequence[str]) -> list[str]:
    """Return those flags that were given, as words."""
    values = ((name, getattr(request, name)) for name in names)
    typed = ((name, f"{value:.12g}" if isinstance(value, float) else str(value)) for name, value in values)
    return [word for name, text in typed if getattr(request, name) is not None for word in (flag_of(name), text)]


class PhaseData(View[PhasePrice]):
    """What a phase takes, and what limits it."""

    phase = Key[str]("of.phase")
    seconds = Key[Interval](lambda phase: Interval(phase.of.median, phase.of.low, phase.of.high))
    limit = Key[str]("of.limit")


class MemoryData(View[Price]):
    """What training takes of a GPU, and what a trainer is given of it."""

    training_bytes_per_gpu = Key[float](
        lambda memory: memory.of.memory_used * memory.of.asked.hardware.gpu.usable_bytes
    )
    usable_bytes_per_gpu = Key[float]("of.asked.hardware.gpu.usable_bytes")
    head_room = Key[float](lambda memory: 1 - memory.of.memory_used)
    plan = Key[MemoryPlan]("of.memory")


class LayoutData(View[Placement]):
    """Which GPUs do what."""

    WHOLE = Placement
    gpus = Key[int]("of.gpus")


class ChangeData(View[Change]):
    """What one change would do."""

    what = Key[str]("of.what")
    seconds_per_step = Key[float | None](lambda change: change.of.price and _of_batch(change.of.price, "seconds")[0])
    gpu_hours_per_step = Key[float | None](
        lambda change: change.of.price and _of_batch(change.of.price, "gpu_hours")[0]
    )
    gpu_seconds_per_rollout_saved = Key[float | None]("of.saved", "as a share")
    rollouts_per_second_ratio = Key[float | None]("of.faster")
    refused = Key[str | None]("of.refused", "why it cannot be done")


class RunData(View[PricedRun]):
    """What a run is priced at, beside what was measured."""

    row_id = Key[str]("of.row_id")
    predicted_seconds = Key[Interval | None](lambda run: run.of.predicted and Interval(*run.of.predicted))
    measured_seconds = Key[float | None]("of.measured")
    ratio = Key[float | None]("of.ratio")
    phases = Key[Mapping[str, Interval]](
        lambda run: {name: Interval(*seconds) for name, seconds in run.of.phases.items()}
    )
    notes = Key[Sequence[str]]("of.notes")


@dataclass(frozen=True, repr=False)
class StepPrice(Answer):
    """What a step costs, what one change would do, and what that takes for granted."""

    COLUMNS = columns("phase seconds low high limit")

    priced: Priced = field(repr=False)
    asked: PriceRequest = field(repr=False)

    @property
    def listed(self) -> Sequence[Any]:
        """Its phases."""
        return [asdict(phase) | {"seconds": phase.median} for phase in _phases(self.priced.price)]

    rollouts_per_prompt = Key[int]("priced.price.asked.rollouts_per_prompt")
    prompts_per_batch = Key[int](lambda price: price.updates_per_batch * price.prompts_per_update)
    updates_per_batch = Key[int]("priced.price.asked.traits.updates_per_batch")
    prompts_per_update = Key[int]("priced.price.asked.prompts_per_batch")
    seconds_per_step = Key[Interval](lambda step: Interval(*_of_batch(step.priced.price, "seconds")), "of a batch")
    gpu_hours_per_step = Key[Interval](lambda step: Interval(*_of_batch(step.priced.price, "gpu_hours")))
    gpu_hours_per_update = Key[Interval](lambda step: Interval(*step.priced.price.gpu_hours), "a plan's steps")
    phases = Key[Sequence[PhaseData]](lambda step: list(map(PhaseData, _phases(step.priced.price))))
    tokens = Key[Mapping[str, float]](
        lambda step: {kind: step.updates_per_batch * count for kind, count in step.priced.price.asked.tokens.items()}
    )
    dollars_by_tokens = Key[float | None](
        lambda price: price.priced.dollars and price.updates_per_batch * price.priced.dollars
    )
    tokens_per_second_per_gpu = Key[float]("priced.price.tokens_per_second_per_gpu")
    gpu_seconds_per_rollout = Key[float]("priced.price.gpu_seconds_per_rollout")
    memory = Key[MemoryData](lambda step: MemoryData(step.priced.price))
    layout = Key[LayoutData](lambda step: LayoutData(step.priced.price.cost.placement))
    changes = Key[Sequence[ChangeData]](lambda price: list(map(ChangeData, price.priced.changes)))
    assumptions = Key[Sequence[Assumption]]("priced.assumptions")

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw it, and how a plan is asked for with it."""
        words = ["--budget", "5000" if self.asked.task is None else "0.3", *given(self.asked, OF_PLANS)]
        planned = invocation.step("propose", shlex.join(words), "plans a budget")
        yield from _answer(self.priced, canvas, in_full=invocation.explain)
        done = [change for change in self.priced.changes if change.price is not None]
        cheaper = [change for change in done if (change.saved or 0) > 0][:SHOWN_CHANGES]
        if shown := done if invocation.explain else cheaper:
            yield ""
            heading = "What one change would do" if invocation.explain else "What makes a rollout cheaper"
            yield canvas.line(heading, "bold")
            yield table_of(shown, CHANGES, canvas)
        for change in self.priced.changes if invocation.explain else ():
            if change.refused is not None:
                yield from canvas.lines(f"{change.what}: {change.refused}", "dim")
        if invocation.explain:
            yield ""
            yield canvas.line("What this takes for granted", "bold")
            yield table_of(self.priced.assumptions, ASSUMPTIONS, canvas, headed=False)
        more = [] if invocation.explain else [invocation.explained("every change, every assumption")]
        yield from next_steps([planned, *more], canvas)


@dataclass(frozen=True, repr=False)
class RunPrices(Answer):
    """What the rows of a table are priced at, beside what was measured."""

    COLUMNS = columns("row_id predicted_seconds low high measured_seconds ratio notes")

    runs: tuple[PricedRun, ...] = field(repr=False)

    rows = Key[Sequence[RunData]](lambda prices: list(map(RunData, prices.runs)))
    totals = Key[Summary](lambda prices: summary(prices.runs), name="summary")

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each run."""
        return [
            {"row_id": run.row_id, "measured_seconds": run.measured, "ratio": run.ratio, "notes": "; ".join(run.notes)}
            | dict(zip(("predicted_seconds", "low", "high"), run.predicted or (), strict=False))
            for run in self.runs
        ]

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw the rows, what could not be priced and why, and how far the others are off."""
        most = len(self.runs) if invocation.explain else SHOWN_ROWS
        found, number = summary(self.runs), len(self.runs)
        if found.typical_miss is None or found.inside_interval is None:
            yield from canvas.lines(f"{number} rows, none of them with seconds_per_step to compare with.")
        else:
            yield from canvas.lines(
                f"{found.rows} of {number} rows can be compared: a typical miss of × {found.typical_miss:.2f}, nine of "
                f"ten within × {found.within_90:.2f}, {percent(found.inside_interval)} inside their 90 % intervals."
            )
        yield ""
        refused: dict[str, list[str]] = {}
        for run in self.runs:
            if run.predicted is None:
                refused.setdefault("; ".join(run.notes), []).append(run.row_id)
        priced = [run for run in self.runs if run.predicted]
        yield table_of(priced[:most], RUN_COLUMNS, canvas)
        if len(priced) > most:
            yield canvas.line(f"{plural(len(priced) - most, 'more row')}: --explain", "dim")
        if len(self.runs) <= most:
            for why, rows in refused.items():
                yield from canvas.lines(f"{some_of(rows, NAMED)}: {why}", "dim")
        elif refused:
            left_out = plural(sum(map(len, refused.values())), "row")
            yield canvas.line(f"{left_out} without a price: --explain says why", "dim")
        rest = [] if invocation.explain else [invocation.explained("every row, and why some have no price")]
        yield from next_steps([*rest, invocation.with_flags("each row by phase", "--format", "json")], canvas)


@dataclass(frozen=True)
class ForgottenPrices(Answer):
    """Whose measured costs no longer count, and how many they were."""

    COLUMNS = columns("run records")

    run: str
    records: int

    def parts(self, _: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Say it."""
        text = f"{plural(self.records, 'record')} of {self.run} removed"
        yield from canvas.lines(f"{text}: prices no longer rest on what its steps took.")


NAMED = 3  # rows that cannot be priced for one reason
SHOWN_ROWS = 12


RUN_COLUMNS: Sequence[Column[PricedRun]] = (
    Column("run", lambda run: run.row_id, Cells.PATHS),
    Column("predicted s", lambda run: aligned_hours(run.predicted[0]) if run.predicted else UNKNOWN),
    Column("90 %", lambda run: "–".join(map(aligned_hours, run.predicted[1:])) if run.predicted else UNKNOWN),
    Column("measured", lambda run: aligned_hours(run.measured) if run.measured else UNKNOWN),
    Column("ratio", lambda run: f"{run.ratio:.2f}" if run.ratio else UNKNOWN),
)


def _of_batch(price: Price, name: Literal["seconds", "gpu_hours"]) -> tuple[float, float, float]:
    """Return what all updates of a batch take."""
    times = price.asked.traits.updates_per_batch
    median, low, high = price.seconds if name == "seconds" else price.gpu_hours
    return times * median, times * low, times * high


def _phases(price: Price) -> list[PhasePrice]:
    """Return the phases of a batch."""
    times = price.asked.traits.updates_per_batch
    return [
        replace(phase, median=times * phase.median, low=times * phase.low, high=times * phase.high)
        for phase in price.phases
    ]


SHOWN_CHANGES = 3  # of what one change would do, the best first
LEAST_SHARE = 0.01  # of a step's time, from which on a phase is on the first screen


def _answer(priced: Priced, canvas: Canvas, *, in_full: bool) -> Iterator[Part]:
    """Return what a step costs, the phases that take its time, the layout and the memory."""
    price = priced.price
    query, hardware = price.asked, price.asked.hardware
    updates = query.traits.updates_per_batch
    split = f", {updates} updates of {query.prompts_per_batch} prompts each" if updates > 1 else ""
    yield from canvas.lines(
        f"A {'batch' if updates > 1 else 'step'} of {query.workload.model.name} on {hardware.gpus_per_trial} "
        f"{hardware.gpu.name}: n = {query.rollouts_per_prompt}, B = {updates * query.prompts_per_batch} "
        f"({updates * query.rollouts:,} rollouts){split}, recipe {query.traits.name}",
        "bold",
    )
    seconds, low, high = map(aligned_hours, _of_batch(price, "seconds"))
    hours, least, most = map(aligned_hours, _of_batch(price, "gpu_hours"))
    yield from canvas.lines(
        f"{seconds} s ({low}–{high}), {hours} GPU-hours ({least}–{most}); {price.tokens_per_second_per_gpu:,.0f} "
        "tokens a second on each GPU"
    )
    if priced.dollars is not None:
        dollars = aligned_hours(priced.dollars)
        yield from canvas.lines(f"By tokens: ${dollars} a step, whatever the GPUs ([cost] per_million).")
    evidence = price.asked.coefficients.evidence
    measured = f"by {evidence}" if evidence else "no step of this set-up was measured yet"
    if priced.open_facts:
        inside, steps = shipped().held
        narrows = f"--measure, {narrowing(priced.open_facts)}"
        measured = f"{inside} of {steps} strangers' steps were. What narrows it: {narrows}"
    yield from canvas.lines(f"Known within × {price.factor:.2g} (90 %): {measured}.")
    yield ""
    phases = _phases(price)
    worth = 0.0 if in_full else LEAST_SHARE * sum(phase.median for phase in phases)
    yield table_of([phase for phase in phases if phase.median >= worth], PHASE_COLUMNS, canvas)
    yield ""
    used = f"; training takes {percent(price.memory_used)} of the memory."
    placement = price.cost.placement
    layout = f"Layout: {placement.generator_gpus} GPUs generate while {placement.trainer_gpus} train"
    if placement.colocated:
        layout = f"Layout: all {placement.gpus} GPUs generate, then train"
    yield from canvas.lines(layout + ("." if in_full else used))
    if in_full:
        yield from canvas.lines(_memory(price))


PHASE_COLUMNS: Sequence[Column[PhasePrice]] = (
    Column("phase", lambda price: price.phase, Cells.NAMES),
    Column("seconds", lambda price: aligned_hours(price.median)),
    Column("90 %", lambda price: f"{aligned_hours(price.low)}–{aligned_hours(price.high)}"),
    Column("limited by", lambda price: price.limit, Cells.TEXTS),
)
CHANGES: Sequence[Column[Change]] = (
    Column("change", lambda change: change.what, Cells.NAMES),
    Column("s/step", lambda change: _first(change, "seconds")),
    Column("GPU-h/step", lambda change: _first(change, "gpu_hours")),
    Column("price of a rollout", lambda change: UNKNOWN if change.saved is None else f"{-100 * change.saved:+.0f} %"),
    Column("rollouts a second", lambda change: UNKNOWN if change.faster is None else f"× {change.faster:.2f}"),
)


def _first(change: Change, name: Literal["seconds", "gpu_hours"]) -> str:
    return UNKNOWN if change.price is None else aligned_hours(_of_batch(change.price, name)[0])


def _memory(price: Price) -> str:
    plan, usable = price.memory, price.asked.hardware.gpu.usable_bytes / 1e9
    states, activations = plan.state_bytes / 1e9, plan.activation_bytes / 1e9
    width = f", shared by {plan.width} GPUs" if plan.width > 1 else ""
    beside = "after the training's states have left" if plan.sleep else "beside the training's states"
    engines = f"Engines of {plural(plan.engine_gpus, 'GPU')} take {percent(plan.engine_share)} of a GPU"
    return (
        f"Memory: training takes {states + activations:,.0f} of {usable:,.0f} GB usable on each GPU, "
        f"{percent(1 - price.memory_used)} to spare: {states:,.1f} for weights, gradients and optimizer, "
        f"{activations:,.1f} for one sequence of {plan.tokens:,} tokens{width}. {engines}"
        f"{f', {beside}' if price.cost.placement.colocated else ''}."
    )
