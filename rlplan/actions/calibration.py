"""Brings measured steps from the database to the cost model, says whose they are, and takes them back."""

import os
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row

from budgets import catalogue
from budgets.coefficients import RECOMPUTING, Coefficients
from budgets.errors import NotFoundError
from budgets.hardware import Gpu
from budgets.memory import Placement
from budgets.work import Phase
from budgets.workload import RecipeTraits, Workload
from planner.config.layers import Resolved, collapse_single_values, with_base_rate
from planner.proposals import Request
from planner.recipes import load_recipe, recipe_names
from planner.store import Store, open_store
from planner.store.costs import base_scores, counted_costs, forget_costs, sweeps_of
from planner.store.results import WHOLE
from planner.store.schema import CostRecord
from rlplan.actions.configuration import absent
from rlplan.wording.numbers import plural, some_of

if TYPE_CHECKING:
    from budgets.calibration import Calibration, MeasuredStep
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from budgets.errors import InputError
from planner.store.sweeps import sweep_named

MOST_RECORDS = 600  # that calibrate, half a second's work; the steps of one kind count as one, however many they are
ADOPTED = "adopted"  # begins the source of what such runs have taught
NAMED = 3  # runs whose steps calibrate; of more the longest
_PHASES = {phase.value for phase in Phase}
_TIMES_BOTH = {"nemo-rl", "openrlhf", "skyrl"}  # old and reference log-probabilities as one, where there are both


@dataclass(frozen=True)
class CostSource:
    """The measured costs of a database, or of one sweep in it."""

    store: Store
    sweep: str | None = None
    name: str = ""  # of a database other than the one that is worked with

    def steps(self, gpu: Gpu, model: str, traits: RecipeTraits) -> list["MeasuredStep"]:
        """Return the steps that were measured with a GPU and a model; of very many some."""
        records = self.store.cost_records(gpu=gpu.name, model=model, most=MOST_RECORDS, sweep=self.sweep)
        return measured_steps(records, traits, self.name)

    def evidence(self, gpu: Gpu, model: str) -> str:
        """Say whose steps they are."""
        with self.store.read() as session:
            counted = counted_costs(session, gpu.name, model, self.sweep)
            sweeps = sweeps_of(session, (row.trial_id for row in counted))
        text = evidence(counted, gpu, sweeps)
        return f"{text} in {self.name}" if text and self.name else text


def with_adopted_rate(sources: Sequence[CostSource], resolved: Resolved) -> Resolved:
    """Take as the base pass rate what adopted runs of the model scored before training, where nobody states one."""
    config = collapse_single_values(resolved).config
    model = catalogue.model(config.workload.model, config.models).name
    scores, texts = list[float](), list[str]()
    for source in sources if config.axes.models is None else ():
        with source.store.read() as session:
            found = base_scores(session, model, source.sweep)
        if found:
            scores += found.values()
            named = some_of([os.path.basename(path) for path in found], NAMED)
            texts.append(f"{named} in {source.name}" if source.name else named)
    mean = statistics.fmean(scores) if scores else None
    return with_base_rate(resolved, mean, f"{ADOPTED}: the scores before training of {'; '.join(texts)}")


def known_of(
    sources: Sequence[CostSource],
    workload: Workload,
    gpu: Gpu,
    traits: RecipeTraits,
    before: Coefficients,
    *,
    given_mean: bool,
) -> tuple[Coefficients, Workload]:
    """Return what measured steps teach of prices, and the workload with the mean response that they saw.

    A mean that the user gives stays. So does the expected one where responses were interrupted: how long they would
    have been, nobody saw.
    """
    model = workload.model.name
    steps = [step for source in sources for step in source.steps(gpu, model, traits)]
    if not steps:
        return before, workload
    calibrated = _calibrated(steps, workload, gpu, before)
    texts = filter(None, (source.evidence(gpu, model) for source in sources))
    known = replace(calibrated.coefficients, evidence="; ".join(texts))
    if given_mean or calibrated.mean_response is None:
        return replace(known, length_log_sd=before.length_log_sd), workload
    return replace(known, measured_lengths=True), workload.with_mean_response(calibrated.mean_response)


def with_measured(sources: Sequence[CostSource], request: Request, *, given_mean: bool) -> Request:
    """Price from the steps that were measured with this GPU and each model; by the prior where there are none."""
    known: dict[str, tuple[Coefficients, Workload]] = {}
    for variant in request.all_variants:
        if (name := variant.workload.model.name) not in known:
            terms = (variant.workload, request.hardware.gpu, variant.traits, variant.coefficients)
            known[name] = known_of(sources, *terms, given_mean=given_mean)

    def mean(workload: Workload) -> Workload:
        return workload.with_mean_response(known[workload.model.name][1].responses.mean)

    variants = (
        replace(variant, coefficients=known[variant.workload.model.name][0], workload=mean(variant.workload))
        for variant in request.variants
    )
    return replace(
        request,
        coefficients=known[request.workload.model.name][0],
        workload=mean(request.workload),
        variants=tuple(variants),
    )


def calibration_of(
    records: Sequence[CostRecord],
    workload: Workload,
    gpu: Gpu,
    traits: RecipeTraits,
    before: Coefficients | None = None,
) -> "Calibration":
    """Return what the recorded steps teach about this hardware and workload.

    A recipe that is not a shipped one is taken to cost what the requested one does: its file may have changed since.
    """
    calibrated = _calibrated(measured_steps(records, traits), workload, gpu, before)
    return replace(calibrated, coefficients=replace(calibrated.coefficients, evidence=evidence(records, gpu, {})))


def _calibrated(
    steps: Sequence["MeasuredStep"], workload: Workload, gpu: Gpu, before: Coefficients | None
) -> "Calibration":
    from budgets.calibration import calibrate  # noqa: PLC0415 (for measured steps alone)

    calibrated = calibrate(workload, gpu, steps, before)
    interrupted = any(step.traits.interrupted_from for step in steps)
    return replace(calibrated, mean_response=None if interrupted else calibrated.mean_response)


def measured_steps(records: Sequence[CostRecord], traits: RecipeTraits, database: str = "") -> list["MeasuredStep"]:
    """Return recorded steps as the cost model counts them; `traits` are those of recipes that are not shipped.

    How they were executed (adapters, precision, the reward) is not recorded: as it is to be now. Trials of different
    databases have the same numbers, which `database` tells apart.
    """
    shipped_recipes = {record.recipe for record in records}.intersection(recipe_names())
    shipped = {name: replace(load_recipe(name).traits(), execution=traits.execution) for name in shipped_recipes}
    return [_measured_step(record, shipped.get(record.recipe, traits), database) for record in records]


def evidence(records: Iterable[CostRecord | Row[*tuple[Any, ...]]], gpu: Gpu, sweeps: Mapping[int, str]) -> str:
    """Say whose steps they are: "400 steps of verl.log, 8 h100"."""
    steps: Counter[tuple[str, int]] = Counter()
    for record in records:
        name = os.path.basename(record.source or "") or sweeps.get(record.trial_id or 0, "")
        placement = Placement(record.generator_gpus, record.trainer_gpus, record.colocated)
        steps[name, placement.gpus] += record.steps or 1
    parts = [
        f"{plural(count, 'step' if name else 'measured step')}{f' of {name}' if name else ''}, {gpus} {gpu.name}"
        for (name, gpus), count in steps.most_common()
    ]
    rest = len(parts) - NAMED
    return "; ".join([*parts[:NAMED], *([f"and {rest} more"] if rest > 0 else [])])


def _measured_step(record: CostRecord, traits: RecipeTraits, database: str) -> "MeasuredStep":
    from budgets.calibration import OUTSIDE, MeasuredStep  # noqa: PLC0415

    updates = record.updates_per_step or 1
    by_phase = {Phase(name): took for name, took in record.seconds.items() if name in _PHASES}
    timed = {phase: took if phase in OUTSIDE else took / updates for phase, took in by_phase.items()}
    traits = _as_it_ran(record, traits, timed)
    together: dict[tuple[Phase, ...], float] = {}
    if record.trainer in _TIMES_BOTH and traits.reference_pass and Phase.REFERENCE not in timed:
        took = timed.pop(Phase.OLD_LOG_PROBS, 0.0)
        together = {(Phase.OLD_LOG_PROBS, Phase.REFERENCE): took} if took else {}
    whole = record.seconds.get(WHOLE)
    return MeasuredStep(
        rollouts_per_prompt=record.rollouts_per_prompt,
        placement=Placement(record.generator_gpus, record.trainer_gpus, record.colocated, record.engine_gpus),
        traits=traits,
        generated_rollouts=record.generated_rollouts / updates,
        trained_rollouts=record.trained_rollouts / updates,
        mean_prompt_tokens=record.mean_prompt_tokens,
        mean_response_tokens=record.mean_response_tokens,
        response_known=not record.response_assumed,
        seconds=timed,
        together=together,
        whole=whole / updates if whole else None,
        run=record.source or f"{database} trial {record.trial_id}",
    )


def _as_it_ran(record: CostRecord, traits: RecipeTraits, timed: Mapping[Phase, float]) -> RecipeTraits:
    """Return a recipe's traits as a run elsewhere had them: its passes, whether it waited, its updates of a batch."""
    if record.source is None and record.trainer is None:
        return traits
    reference = traits.reference_pass
    if record.trainer not in _TIMES_BOTH and Phase.TRAIN in timed:  # a pass that it makes it times
        reference = Phase.REFERENCE in timed
    overlaps = traits.asynchronous if record.asynchronous is None else record.asynchronous
    return replace(
        traits,
        reference_pass=reference,
        old_log_probs=Phase.OLD_LOG_PROBS in timed or record.trainer in RECOMPUTING,
        staleness_bound=max(1, traits.staleness_bound) if overlaps else 0,
        updates_per_batch=record.updates_per_step or 1,
    )


def forget_prices(run: str, database: str) -> tuple[str, int]:
    """Remove the measured costs of an adopted run, by its path or name, or of a sweep; its curve stays.

    Return the name that it was stored under, and how many records there were.
    """
    if (place := absent(database)) is not None:
        raise NotFoundError(f"nothing was measured of '{run}': there is no database {place}; give --db")
    with open_store(database) as store, store.write() as session:
        return forget_costs(session, run)


NONE: Final = "none"  # nothing measured: prices are the prior's
ALLOWED: Final = "give a database, a sweep of this one, or none"
SQLITE: Final = b"SQLite format 3"


def cost_sources(names: Sequence[str] | None, store: Store | None, opened: ExitStack) -> list[CostSource]:
    """Return the databases and sweeps that are named, by default the store itself; none where it is not there yet.

    What is opened stays so until `opened` is closed.
    """
    if names is None:
        return [] if store is None else [CostSource(store)]
    if NONE in names:
        if others := [name for name in names if name != NONE]:
            raise InputError(f"--learn-from none is given beside {', '.join(others)}: leave out the one or the other")
        return []
    return list(_opened(dict.fromkeys(map(str, names)), store, opened))


def _opened(names: Iterable[str], store: Store | None, opened: ExitStack) -> Iterator[CostSource]:
    for name in names:
        path = Path(name).expanduser()
        if "://" in name:
            other = opened.enter_context(open_store(name, read_only=True))
            yield CostSource(other, name=other.location)
        elif path.is_file():
            with path.open("rb") as file:
                if file.read(len(SQLITE)) != SQLITE:
                    raise InputError(f"--learn-from {name} is no database: {ALLOWED}")
            yield CostSource(opened.enter_context(open_store(path, read_only=True)), name=path.name)
        elif store is None:
            raise InputError(f"--learn-from {name}: there is no such file, and no sweep in a new database; {ALLOWED}")
        else:
            try:
                with store.read() as session:
                    yield CostSource(store, sweep=sweep_named(session, name).name)
            except NotFoundError as error:
                raise InputError(f"--learn-from {name}: there is no such file, and {error}; {ALLOWED}") from None
