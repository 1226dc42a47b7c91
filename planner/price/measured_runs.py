"""Runs that somebody measured: rows of a table, as the cost model sees them, and how far its predictions are off.

The columns are those of `docs/costs-table.md`; a row says what was trained on what, and the seconds that a batch took.
A step of such a table is one batch of rollouts, whatever the number of optimizer updates that it is used for.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from budgets import catalogue
from budgets.coefficients import (
    LOOPING_EXPERTS,
    PADDING,
    RECOMPUTING,
    SENDING_ADAPTERS,
    Coefficients,
    prior,
)
from budgets.cost import StepCost, phase_seconds, step_cost
from budgets.errors import InputError, RlplanError
from budgets.execution import USUAL, Execution
from budgets.expected_lengths import SPREAD, a_model, expected_length
from budgets.hardware import Hardware
from budgets.lengths import ResponseLengths
from budgets.memory import Placement
from budgets.models import ModelShape
from budgets.signal import DIFFICULTIES
from budgets.work import Phase, Seconds, StepLoad, total
from budgets.workload import RecipeTraits, Turns, Validation, Workload
from planner.logs.trainers import sharding
from planner.price.open_facts import left_open, open_facts
from planner.price.step import Interval, interval_of

USUAL_PROMPT = 128.0  # of the runs that state it, which train on mathematics; the cost hardly depends on it
MODES = ("colocated_sync", "split_async", "split_sync")
NO_VALIDATION = Validation(1, 1, 10**9)  # the seconds of a table are without it

# The columns of a phase's seconds, and the phases that they cover; waiting for rollouts is not a phase.
PHASE_COLUMNS: dict[str, tuple[Phase, ...]] = {
    "generate_seconds": (Phase.GENERATE,),
    "old_logprob_seconds": (Phase.OLD_LOG_PROBS,),
    "reference_seconds": (Phase.REFERENCE,),
    "logprob_and_reference_seconds": (Phase.OLD_LOG_PROBS, Phase.REFERENCE),
    "update_seconds": (Phase.TRAIN,),
    "weight_sync_seconds": (Phase.SYNC,),
}
WITHOUT_ENGINES = ("hf", "transformers", "none")  # what a table calls generation by the trainer's own model
FACT_COLUMNS = {
    "micro_batch": "cost.micro_batch",
    "rollout_engine": "cost.inference_engine",
    "node_link_gb_per_s": "cost.node_link",
}
Row = Mapping[str, str]
_LARGEST = 1e12  # number of a table: of tokens, GPUs or seconds


@dataclass(frozen=True)
class MeasuredRun:
    """A run of a table: what it was, the seconds of a batch, and what had to be assumed."""

    name: str
    setup: str
    trainer: str
    workload: Workload
    hardware: Hardware
    traits: RecipeTraits
    rollouts_per_prompt: int
    prompts_per_update: int
    placement: Placement | None
    engine_gpus: int | None
    seconds: float | None
    seconds_by_column: Mapping[str, float]
    length_log_sd: float  # 0 where the mean response is known
    stated: frozenset[str]  # facts of `planner.price.open_facts`
    notes: tuple[str, ...]

    @property
    def coefficients(self) -> Coefficients:
        """What published runs say of this trainer, with the length as well as it is known here."""
        return self.opened(prior(self.hardware.gpu, self.trainer))

    def opened(self, coefficients: Coefficients) -> Coefficients:
        """Return coefficients as unsure as the facts that the row leaves blank make them."""

        def seconds(workload: Workload, execution: Execution) -> float:
            traits = replace(self.traits, execution=execution)
            return replace(self, workload=workload, traits=traits).cost(coefficients).step_seconds

        terms = (self.workload, self.traits.execution, self.trainer, self.stated, self.length_log_sd)
        unmodelled = math.hypot(coefficients.unmodelled_log_sd, left_open(open_facts(seconds, *terms)))
        return replace(coefficients, length_log_sd=self.length_log_sd, unmodelled_log_sd=unmodelled)

    def cost(self, coefficients: Coefficients | None = None) -> StepCost:
        """Price one update; a batch takes `traits.updates_per_batch` of them."""
        efficiencies = coefficients or prior(self.hardware.gpu, self.trainer)
        arguments = (
            self.workload,
            self.hardware,
            self.traits,
            self.rollouts_per_prompt,
            self.prompts_per_update,
            efficiencies,
        )
        return step_cost(*arguments, placement=self.placement, engine_gpus=self.engine_gpus)

    def batch_seconds(self, coefficients: Coefficients | None = None) -> float:
        """Return the expected seconds of a batch, as the table counts a step."""
        return self.traits.updates_per_batch * self.cost(coefficients).step_seconds

    def base_seconds(self, coefficients: Coefficients) -> dict[Phase, Seconds]:
        """Return the seconds of each phase of a batch, by what they are proportional to."""
        placement = self.cost(coefficients).placement
        rollouts = self.rollouts_per_prompt * self.prompts_per_update
        load = StepLoad(self.prompts_per_update, rollouts, rollouts)
        phases = phase_seconds(self.workload, self.hardware.gpu, placement, self.traits, load, coefficients)
        batches = self.traits.updates_per_batch
        return {phase: {driver: batches * part for driver, part in parts.items()} for phase, parts in phases.items()}


@dataclass(frozen=True, slots=True)
class PricedRun:
    """A row: what was predicted of a batch's seconds, None where it cannot be priced, and what was measured."""

    row_id: str
    predicted: Interval | None
    measured: float | None
    phases: Mapping[str, Interval] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Predicted ÷ measured."""
        return self.predicted[0] / self.measured if self.predicted and self.measured else None

    @property
    def inside(self) -> bool | None:
        """Whether the 90 % interval holds what was measured."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted[1] <= self.measured <= self.predicted[2]


@dataclass(frozen=True, slots=True)
class Summary:
    """Over all rows that are priced and measured; misses are factors either way."""

    rows: int
    typical_miss: float | None
    within_90: float | None  # the factor that nine of ten rows lie within
    inside_interval: float | None


def priced_runs(rows: Iterable[Row]) -> list[PricedRun]:
    """Price every row of a table, by its number where it has no name; one that cannot be says why in its notes."""
    return [_priced(row, row.get("row_id") or f"row {number}") for number, row in enumerate(rows, start=1)]


def summary(runs: Sequence[PricedRun]) -> Summary:
    """Say how far predictions were off."""
    misses = [abs(math.log(run.ratio)) for run in runs if run.ratio]
    inside = [run.inside for run in runs if run.inside is not None]
    if not misses:
        return Summary(0, None, None, None)
    import numpy as np  # noqa: PLC0415 (for tables alone)

    typical, most = np.exp(np.quantile(misses, [0.5, 0.9]))
    return Summary(len(misses), float(typical), float(most), sum(inside) / len(inside))


def _priced(row: Row, name: str) -> PricedRun:
    try:
        run = measured_run(row)
        coefficients = run.coefficients
        phases = {
            phase.value: interval_of(total(seconds), coefficients.log_sd(seconds))
            for phase, seconds in run.base_seconds(coefficients).items()
            if total(seconds) > 0
        }
        predicted = interval_of(run.batch_seconds(coefficients), run.cost(coefficients).log_sd)
    except RlplanError as error:
        return PricedRun(name, None, None, notes=(f"not priced: {error}",))
    return PricedRun(name, predicted, run.seconds, phases, run.notes)


def measured_run(row: Row) -> MeasuredRun:
    """Read one row, assuming what it leaves blank; InputError says why a row cannot be priced."""
    notes: list[str] = []
    for column in ("model_shape", "gpu_kind", "gpu_count"):
        if not row.get(column, "").strip():
            raise InputError(f"no {column} is given")
    model, kind = catalogue.model(row["model_shape"].strip().rstrip("~")), catalogue.gpu(row["gpu_kind"].strip())
    # "verl (a fork)" is verl.
    gpus, trainer = _whole(row, "gpu_count") or 1, row.get("framework", "").partition("(")[0].strip().casefold()
    mode = row.get("mode", "") or "colocated_sync"
    if mode not in MODES:
        raise InputError(f"mode '{mode}' is not priced: {', '.join(MODES[:-1])} and {MODES[-1]} are")
    engine = re.search(r"tp\D*(\d+)", row.get("rollout_parallel", ""))  # as in `tp8`, `tp16`, `tp1 x 8`
    n, prompts, updates = _batch(row, notes)
    workload, length_log_sd = _workload(row, model, notes)
    traits = RecipeTraits(
        name=row.get("row_id", "") or "row",
        reference_pass=_flag(row, "reference_pass", False, notes),
        staleness_bound=max(1, round(_number(row, "staleness_steps") or 1)) if mode == "split_async" else 0,
        updates_per_batch=updates,
        old_log_probs=_flag(row, "old_logprob_pass", trainer in RECOMPUTING, notes),
        execution=_execution(row, trainer),
    )
    return MeasuredRun(
        name=row.get("row_id", ""),
        setup=row.get("setup_id", "") or row.get("row_id", ""),
        trainer=trainer,
        workload=workload,
        hardware=Hardware(kind, gpus, gpus),
        traits=traits,
        rollouts_per_prompt=n,
        prompts_per_update=prompts,
        placement=_placement(row, mode, gpus, notes),
        engine_gpus=int(engine[1]) if engine else None,
        seconds=_number(row, "seconds_per_step"),
        seconds_by_column={
            column: seconds for column in PHASE_COLUMNS if (seconds := _number(row, column)) is not None and seconds > 0
        },
        length_log_sd=length_log_sd,
        stated=frozenset(key for column, key in FACT_COLUMNS.items() if row.get(column, "").strip()),
        notes=tuple(notes),
    )


def _workload(row: Row, model: ModelShape, notes: list[str]) -> tuple[Workload, float]:
    """Return what is trained, and how unsure its mean response is."""
    prompt = _number(row, "mean_prompt_tokens")
    if prompt is None:
        prompt = USUAL_PROMPT
        notes.append(f"prompts taken to have {prompt:.0f} tokens")
    responses, length_log_sd = _responses(row, prompt, model, notes)
    if responses.cap + prompt > model.context:  # somebody ran it
        model = replace(model, context=math.ceil(responses.cap + prompt))
    # A table gives what a whole trajectory waits, which one turn stands for.
    turns = Turns(1, _number(row, "tool_seconds") or 0.0, environments=_whole(row, "rewards_at_once"))
    return Workload(model, prompt, responses, 10**6, DIFFICULTIES["mixed"], NO_VALIDATION, turns), length_log_sd


def _placement(row: Row, mode: str, gpus: int, notes: list[str]) -> Placement | None:
    """Return who generates and who trains; None for a split that the row leaves open."""
    if not mode.startswith("split"):
        return Placement(gpus, gpus, colocated=True)
    generators, trainers = _whole(row, "generator_gpus"), _whole(row, "trainer_gpus")
    if generators and trainers:
        return Placement(generators, trainers, colocated=False)
    if mode == "split_sync":
        raise InputError("mode 'split_sync' needs generator_gpus and trainer_gpus")
    notes.append("generators and trainers split the best way")
    return None


def _execution(row: Row, trainer: str) -> Execution:
    """Read how the run was executed; what is blank is taken as today's trainers do it."""
    training = row.get("precision", "").strip().casefold()
    rollouts = row.get("rollout_precision", "").strip().casefold() or training
    return Execution(
        packing=_flag(row, "packing", trainer not in PADDING, []),
        micro_batch=_whole(row, "micro_batch"),
        lora_rank=_whole(row, "lora_rank"),
        sends_adapters=trainer in SENDING_ADAPTERS,
        speculation=_number(row, "speculation") or USUAL.speculation,
        fp8_rollouts=rollouts == "fp8",
        fp8_training=training == "fp8",
        node_link_gb_per_s=_number(row, "node_link_gb_per_s") or USUAL.node_link_gb_per_s,
        engines=row.get("rollout_engine", "").strip().casefold() not in WITHOUT_ENGINES,
        sharding=sharding(trainer, row.get("train_backend", "")),
        loops_experts=trainer in LOOPING_EXPERTS and "megatron" not in row.get("train_backend", "").casefold(),
        offloads_optimizer=_flag(row, "optimizer_offload", False, []),
        reward_seconds=_number(row, "seconds_per_reward") or USUAL.reward_seconds,
        reward_parallel=_whole(row, "rewards_at_once") or USUAL.reward_parallel,
    )


def _batch(row: Row, notes: list[str]) -> tuple[int, int, int]:
    """Return n, the prompts of an update, and the updates of a batch."""
    n, rollouts = _whole(row, "rollouts_per_prompt"), _whole(row, "rollouts_per_step")
    prompts = _whole(row, "prompts_per_batch")
    if n is None or (prompts is None and rollouts is None):
        raise InputError("rollouts_per_prompt, and prompts_per_batch or rollouts_per_step, are needed")
    whole = prompts if prompts is not None else max(1, round((rollouts or 0) / n))
    updates = _whole(row, "optimizer_updates_per_step")
    if updates is None:
        notes.append("one update a batch")
        updates = 1
    return n, max(1, round(whole / updates)), updates


def _responses(row: Row, prompt: float, model: ModelShape, notes: list[str]) -> tuple[ResponseLengths, float]:
    mean = _number(row, "mean_response_tokens")
    cap, whole = _number(row, "max_response_tokens"), _number(row, "max_sequence_tokens")
    if cap is None:
        cap = whole - prompt if whole is not None else None
    if cap is None:
        if mean is None:
            raise InputError("neither mean_response_tokens nor max_response_tokens is given")
        cap = 4 * mean
        notes.append(f"responses cut at {cap:,.0f} tokens, four times their mean")
    cap = max(mean or 0.0, min(cap, model.context - prompt))
    if cap < 1 or (mean is not None and mean < 1):
        raise InputError("responses have less than one token: mend mean_response_tokens, or what bounds them")
    if mean is None:
        columns = ("tokens_per_second_per_gpu", "seconds_per_step", "gpu_count", "rollouts_per_step")
        speed, seconds, gpus, rollouts = (_number(row, column) for column in columns)
        if speed and seconds and gpus and rollouts and (tokens := speed * seconds * gpus / rollouts - prompt) > 0:
            mean = tokens
            notes.append(f"mean response of {mean:,.0f} tokens from the published tokens per second")
    if mean is None:
        expected = expected_length(row.get("model") or model.name, cap)
        notes.append(f"mean response of {expected.mean:,.0f} tokens expected of {a_model(expected.kind)}")
        return ResponseLengths(expected.mean, int(cap), SPREAD), expected.log_sd
    return ResponseLengths(min(mean, int(cap)), int(cap), SPREAD), 0.0


def _number(row: Row, column: str) -> float | None:
    text = (row.get(column) or "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _LARGEST:
        raise InputError(f"{column} is '{text[:20]}': a number between 0 and {_LARGEST:.0e} is needed")
    return value


def _whole(row: Row, column: str) -> int | None:
    value = _number(row, column)
    if value is not None and (value < 1 or value != int(value)):
        raise InputError(f"{column} is {value:g}: a whole number of at least 1 is needed")
    return None if value is None else int(value)


def _flag(row: Row, column: str, otherwise: bool, notes: list[str]) -> bool:
    text = (row.get(column) or "").strip().casefold()
    if text not in ("", "yes", "no"):
        raise InputError(f"{column} is '{text}': yes or no is needed")
    if not text:
        notes.append(f"{column} taken as {'yes' if otherwise else 'no'}")
    return text == "yes" if text else otherwise
