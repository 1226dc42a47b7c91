"""`rlplan price --measure`: trains a few steps here, compares them with their price, and stores what they took."""

import shlex
import shutil
import statistics
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

from budgets.allocation import Allocation
from budgets.calibration import OUTSIDE, priced_phases
from budgets.errors import InputError
from budgets.hardware import Hardware
from budgets.work import Phase, total
from budgets.workload import RecipeTraits
from planner.config import Resolved, embedded_tasks
from planner.config.request import difficulty_and_rates
from planner.config.trainer import BUILTIN, STANDIN, chosen_trainer
from planner.disk import why
from planner.metrics import Interval
from planner.price import Price, PriceQuery
from planner.proposals import Request
from planner.store import open_store
from planner.store.costs import replace_costs
from planner.store.results import WHOLE
from planner.store.schema import CostRecord
from planner.store.sweeps import add_cost_records
from planner.view import Configuration
from rlplan.actions.calibration import measured_steps
from rlplan.actions.machine import list_gpus
from rlplan.actions.runs_plan import given_candidate, given_plan
from rlplan.actions.step_price import price_one
from rlplan.actions.sweep_request import machine, own_folder
from rlplan.wording.answers import Answer, Key, columns
from rlplan.wording.numbers import aligned_hours
from rlplan.wording.screen import Canvas, Cells, Column, Invocation, Part, next_steps, table_of, tell
from runner.backends import open_backend
from runner.ports.backend import Point, Segment
from runner.ports.trial import TrialConfig
from runner.sweep.plan import SweepChoice, sweep_spec
from runner.sweep.plan_rows import CPU
from runner.trainers.catalogue import always_apart, driver_of
from runner.trainers.driver import Rehearsing

STEPS = 3  # batches that count; one before them warms up


@dataclass(frozen=True)
class MeasuredPhase:
    """A part of a step: what it is priced at, with responses as long as they were, and what it took."""

    phase: str
    priced_seconds: float
    measured_seconds: float

    ratio = Key[float](lambda phase: phase.priced_seconds / phase.measured_seconds)


@dataclass(frozen=True, repr=False)
class MeasuredSteps(Answer):
    """A set-up of which steps were measured, its price before and with them, and the flags that describe it."""

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
    seconds_per_step = Key[Interval](lambda steps: Interval(*steps.after.seconds))
    seconds_per_step_before = Key[Interval](lambda steps: Interval(*steps.before.seconds))

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw what the steps took, and what a step is priced at now."""
        query, before, after = self.before.asked, self.before, self.after
        hardware = query.hardware
        yield from canvas.lines(
            f"{STEPS} steps of {query.workload.model.name} by {self.trainer} on {hardware.gpus_per_trial} "
            f"{hardware.gpu.name}: n = {query.rollouts_per_prompt}, B = {query.prompts_per_batch}",
            "bold",
        )
        yield ""
        yield table_of(self.phases, PHASES, canvas)
        yield ""
        if self.response_tokens is not None:
            mean = query.workload.under(query.traits).responses.mean
            yield from canvas.lines(
                f"Responses: {self.response_tokens:,.4g} tokens on average; the price before had {mean:,.4g}."
            )
        yield from canvas.lines(
            f"A step is priced at {_interval(after)} now, before at {_interval(before)}, validations and saves "
            "included."
        )
        yield from canvas.lines("The steps are stored: prices and plans of this model on these GPUs count them.")
        steps = [
            invocation.step("price", shlex.join(self.given), "the price as it is now"),
            invocation.step("price", shlex.join(["--forget", self.source]), "takes this back"),
        ]
        yield from next_steps(steps, canvas)


_PROBLEMS = 4  # of the validation at the start, which no trainer leaves out
_NEVER = 10**6  # updates between two validations


def measure(resolved: Resolved, n: int | None, B: int | None, choice: SweepChoice, database: str) -> MeasuredSteps:
    """Train a few steps and store what they took, in place of an earlier measurement of the same set-up."""
    before = price_one(resolved, n, B, database).price
    query, chosen = before.asked, chosen_trainer(choice.trainer, resolved.config.trainer.model_dump())
    trainer = BUILTIN if chosen is None else chosen.name
    _require_measurable(trainer, query.traits)
    _require_machine(query.hardware)
    known = resolved.config.workload.task or resolved.config.task.data
    if (chosen is None or chosen.takes_problems) and choice.problems is None and not known:
        raise InputError(
            "no step can be trained without problems: give --problems FILE.jsonl and --checkpoint FOLDER (a local "
            f"model), or an embedded task, such as --task {next(iter(embedded_tasks()))}"
        )
    config, folder = _configuration(resolved, query, choice, database)
    driver = driver_of(config) if config.trainer is not None else None
    if isinstance(driver, Rehearsing) and (refused := driver.rehearse(config)):  # it looks at it itself, where it can
        raise InputError(f"{driver.name} cannot train it here: {'; '.join(refused)}")
    updates = query.traits.updates_per_batch
    points = _trained(config, folder, (1 + STEPS) * updates)
    counted = [point for point in points if point.optimizer_step > updates]
    took = _seconds(counted, updates)
    selected = {WHOLE} if trainer != BUILTIN else took.keys() - {WHOLE}  # others cut phases in their own way
    record = _record(query, trainer, counted)
    record.seconds = {name: seconds for name, seconds in took.items() if name in selected}
    with open_store(database) as store, store.write() as session:
        replace_costs(session, str(record.source))
        add_cost_records(session, [record])
    tokens = None if record.response_assumed else record.mean_response_tokens
    after = price_one(resolved, n, B, database).price
    return MeasuredSteps(str(record.source), trainer, tokens, tuple(_compared(query, record, took)), before, after)


def _configuration(
    resolved: Resolved, query: PriceQuery, choice: SweepChoice, database: str
) -> tuple[TrialConfig, Path]:
    """Return the trial that a sweep would run of a plan of this one configuration, and a folder for it.

    A recipe that the trainer does nearly is measured so: what differs takes no time.
    """
    difficulty, _ = difficulty_and_rates(resolved.config)
    request = Request(1.0, query.workload, query.hardware, query.traits, difficulty)
    n, B, price = query.rollouts_per_prompt, query.prompts_per_batch, query.cost().gpu_hours_per_step
    size, variant, pilot = Allocation(n, B, _NEVER), request.all_variants[0], (STEPS, STEPS, 1.0)
    candidate = given_candidate(request, variant, size, (price, price, price), 1.0, pilot, "measured")
    plan = given_plan(request, resolved, [candidate], 1.0, 1.0)
    plan.name = "the set-up"
    plan.config.pop("axes", None)
    plan.config["validation"] |= {"problems": _PROBLEMS, "samples": 1, "every_steps": _NEVER, "every_rollouts": None}
    plan.config["validation"] |= {"metric": "mean", "metric_k": None}
    folder = (own_folder(None, database) or Path("rlplan-sweeps")).absolute() / f"measured-{uuid.uuid4().hex[:8]}"
    spec = sweep_spec(plan, choice.model_copy(update={"folder": folder, "approximate": True}))
    recipe = resolved.config.recipe
    rate = size.learning_rate(recipe.learning_rate, recipe.learning_rate_rollouts)
    return spec.trial(Configuration(n, B), rate, spec.seed), folder


def _require_measurable(trainer: str, traits: RecipeTraits) -> None:
    """Refuse a trainer whose words do not tell what a step of this recipe takes."""
    if trainer == STANDIN:
        raise InputError("a stand-in trains nothing that could be measured: name a trainer by --trainer")
    reason = None
    if trainer != BUILTIN and (traits.asynchronous or always_apart(trainer)):
        reason = "generates while it trains, which three steps do not tell apart"
    elif trainer != BUILTIN and traits.refills_groups:
        reason = f"does not say how many rollouts it generates with recipe {traits.name}"
    if reason is not None:
        raise InputError(f"{trainer} {reason}: adopt a log of it instead, rlplan adopt RUN")


def _require_machine(hardware: Hardware) -> None:
    """Refuse what this machine has not."""
    needed, kind, (cpus, gpus) = hardware.gpus_per_trial, hardware.gpu.name, machine()
    there = cpus if kind == CPU else gpus
    if needed > there:
        what = "cores" if kind == CPU else "GPUs"
        raise InputError(
            f"a step cannot be measured here: it needs {needed} {kind}, and this machine has {there:g} {what}. Measure "
            "on a machine that has them, or price what this one can train, such as --task sum-easy"
        )
    names = {gpu.name for gpu in list_gpus()[0]} if kind != CPU else set()
    if names and not any(kind.partition("-")[0] in name.casefold() for name in names):
        raise InputError(f"this machine has {', '.join(sorted(names))}, no {kind}: give the kind by --gpu")


def _trained(config: TrialConfig, folder: Path, last: int) -> list[Point]:
    """Train up to an update and return the points; the folder is removed, also where it is interrupted."""
    tell(f"training {last} updates, the first for warming up …")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be made ({why(error, folder)}): name a database elsewhere by --db"
        ) from error
    points: list[Point] = []
    try:
        with closing(open_backend(config)) as backend:
            backend.start(config, folder)
            for point in backend.advance(Segment(2 * last)):  # ended before it would save
                points.append(point)
                if point.optimizer_step >= last:
                    return points
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            folder.parent.rmdir()  # where nothing else lies
    raise InputError(f"the trainer ended after update {points[-1].optimizer_step if points else 0} of {last}")


def _seconds(points: Sequence[Point], updates: int) -> dict[str, float]:
    """Return what a typical batch took, by phase and as a whole; start, validations and saves are left out."""
    outside = {"start", "start_up", *(phase.value for phase in OUTSIDE)}
    took: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for point in points:
        for name, seconds in point.metrics["seconds"].items():
            for each in (name, WHOLE) if name not in outside else ():
                took[each][(point.optimizer_step - 1) // updates] += seconds
    typical = {name: statistics.median(batches.values()) for name, batches in took.items()}
    if not typical.get(WHOLE):
        raise InputError("the trainer does not say what its updates take: adopt a log of it, rlplan adopt RUN")
    return {name: seconds for name, seconds in typical.items() if seconds > 0}


def _record(query: PriceQuery, trainer: str, points: Sequence[Point]) -> CostRecord:
    """Return what was measured but for the seconds; of several updates a batch it is of the batch."""
    workload, gpu, gpus = query.workload, query.hardware.gpu.name, query.hardware.gpus_per_trial
    n, B, updates = query.rollouts_per_prompt, query.prompts_per_batch, query.traits.updates_per_batch
    lengths = [point.metrics["response_tokens"] for point in points if point.metrics.get("response_tokens")]
    mean = statistics.fmean(lengths) if lengths else workload.responses.mean
    longest = (point.metrics.get("longest_response_tokens", 0.0) for point in points)
    generated, trained = (
        round(updates * statistics.fmean(point.metrics.get(name, n * B) for point in points))
        for name in ("generated_rollouts", "trained_rollouts")
    )
    return CostRecord(
        at=datetime.now(UTC),
        gpu=gpu,
        generator_gpus=gpus,
        trainer_gpus=gpus,
        colocated=True,
        model=workload.model.name,
        recipe=query.traits.name,
        rollouts_per_prompt=n,
        prompts_per_batch=B,
        generated_rollouts=generated,
        trained_rollouts=trained,
        mean_prompt_tokens=workload.prompt_tokens,
        mean_response_tokens=mean,
        longest_response_tokens=max(mean, *longest),
        source=f"{trainer}-{Path(workload.model.name).name}-{gpus}x{gpu}-n{n}-B{B}",
        trainer=None if trainer == BUILTIN else trainer,
        steps=STEPS,
        updates_per_step=updates,
        response_assumed=not lengths,
    )


def _compared(query: PriceQuery, record: CostRecord, took: Mapping[str, float]) -> Iterator[MeasuredPhase]:
    """Compare an update with its price, phase by phase; what is not timed apart stands beside the training."""
    (step,) = measured_steps([record], query.traits)
    base = priced_phases(query.workload, query.hardware.gpu, step, query.coefficients)
    priced = {phase: total(parts) for phase, parts in base.items() if total(parts) > 0 and phase not in OUTSIDE}
    measured = {name: seconds / query.traits.updates_per_batch for name, seconds in took.items()}
    beside = [phase for phase in priced if phase not in measured or phase is Phase.TRAIN]
    others = sum(measured[phase] for phase in priced if phase not in beside)
    for phase, seconds in priced.items():
        if phase not in beside:
            yield MeasuredPhase(phase.value, seconds, measured[phase])
        elif phase is Phase.TRAIN and phase in measured:
            name = phase.value if beside == [phase] else "train and the rest"
            yield MeasuredPhase(name, sum(priced[each] for each in beside), measured[WHOLE] - others)
    yield MeasuredPhase("a step", sum(priced.values()), measured[WHOLE])


PHASES: Sequence[Column[MeasuredPhase]] = (
    Column("phase", attrgetter("phase"), Cells.NAMES),
    Column("priced s", lambda phase: aligned_hours(phase.priced_seconds)),
    Column("measured", lambda phase: aligned_hours(phase.measured_seconds)),
    Column("ratio", lambda phase: f"{phase.ratio:.2f}"),
)


def _interval(price: Price) -> str:
    middle, low, high = map(aligned_hours, price.seconds)
    return f"{middle} s ({low}–{high}, a factor of {price.factor:.2g})"
