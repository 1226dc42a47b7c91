"""What must fit into the GPUs' memory, and what to change when it does not."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from budgets.errors import InfeasibleError
from budgets.execution import USUAL, Execution
from budgets.hardware import Gpu, Hardware, whole_share
from budgets.models import BYTES_PER_WEIGHT, ModelShape
from budgets.workload import RecipeTraits, Workload

# Mixed-precision Adam: bf16 weights and gradients, float32 master weights and two moments.
STATIC_BYTES, OPTIMIZER_BYTES = 2 + 2, 4 + 4 + 4
# Of a weight that adapters leave as it is: trainers load it in float32 (verl's fsdp.yaml, model_dtype: fp32; prime-rl's
# trainer.model.optimization_dtype).
FROZEN_BYTES = 4
# Of a layer, for each token and hidden number, without scores of attention (Korthikanti et al. 2022, equation 2).
LAYER_BYTES = 34
# Of a logit: nothing where the head is fused with the loss, the logit and its gradient where float32 copies are made in
# chunks, and the logit with float32 copies of both.
FUSED, CHUNKED, WHOLE = 0, 2 + 2, 2 + 4 + 4
TIGHT_MEMORY = 0.85  # of what is usable, for training; nobody is put there unasked
# Trainers leave at least half of an engine's memory to the cache, although larger engines would often be faster.
ENGINE_WEIGHT_SHARE = 0.5
MOST_ENGINE_GPUS = 64  # tensor, expert and pipeline parallel over nodes, where one node does not hold the weights


@dataclass(frozen=True, slots=True)
class Placement:
    """Which GPUs of a trial generate and which train; in a synchronous recipe all do both in turn."""

    generator_gpus: int
    trainer_gpus: int
    colocated: bool
    engine_gpus: int | None = None  # of each inference engine; None: as many as trainers take

    @property
    def gpus(self) -> int:
        """GPUs that the trial holds."""
        return self.generator_gpus if self.colocated else self.generator_gpus + self.trainer_gpus

    @property
    def training_share(self) -> float | None:
        """Share of the GPUs that train while the others generate; None where all do both in turn."""
        return None if self.colocated else self.trainer_gpus / self.gpus

    def on(self, gpus: int) -> "Placement":
        """Return the same on other GPUs: all of them in turn, or as many of each kind for one of the other."""
        if self.colocated:
            return Placement(gpus, gpus, True, self.engine_gpus)
        if self.generator_gpus * gpus % self.gpus or self.trainer_gpus * gpus % self.gpus:
            raise InfeasibleError(
                f"{gpus} GPUs cannot be split as {self.generator_gpus} generators and {self.trainer_gpus} trainers are"
            )
        generators, trainers = (share * gpus // self.gpus for share in (self.generator_gpus, self.trainer_gpus))
        return Placement(generators, trainers, False, self.engine_gpus)


def training_bytes(workload: Workload, traits: RecipeTraits, gpus: int, width: int = 1) -> float:
    """Return the bytes that training takes on each GPU: all share the states, and `width` of them each sequence."""
    return _state_bytes(workload, traits) / gpus + activation_bytes(workload, traits.execution, width)


def states(model: ModelShape, *, reference: bool, lora_rank: int | None) -> tuple[float, float]:
    """Return the bytes of weights and gradients, and of the optimizer; with LoRA what is trained is the adapters alone.

    The reference model is then the same weights without the adapters, and takes nothing.
    """
    if lora_rank is not None:
        adapters = model.adapter_parameters(lora_rank)
        return FROZEN_BYTES * model.parameters + STATIC_BYTES * adapters, OPTIMIZER_BYTES * adapters
    return model.parameters * (STATIC_BYTES + reference * BYTES_PER_WEIGHT), OPTIMIZER_BYTES * model.parameters


def _state_bytes(workload: Workload, traits: RecipeTraits) -> float:
    return sum(states(workload.model, reference=traits.reference_pass, lora_rank=traits.execution.lora_rank))


def checkpoint_bytes(model: ModelShape, lora_rank: int | None) -> float:
    """Return the bytes of a checkpoint: weights and optimizer of all that is trained."""
    return model.trained(lora_rank) * (BYTES_PER_WEIGHT + OPTIMIZER_BYTES)


def token_bytes(model: ModelShape, head: int, width: int = 1, *, tensor: bool = False) -> float:
    """Return the bytes of a token's activations on each GPU that shares it: checkpoints, one layer, and its logits.

    With `tensor` each GPU keeps the checkpoints whole.
    """
    checkpoints = model.layers * model.hidden * BYTES_PER_WEIGHT
    return checkpoints / (1 if tensor else width) + (LAYER_BYTES * model.hidden + head * model.vocabulary) / width


def activation_bytes(workload: Workload, execution: Execution = USUAL, width: int = 1) -> float:
    """Return the bytes of one longest sequence in training; without packing a micro-batch is padded to it."""
    sequences = 1 if execution.packing else execution.padded_to
    return sequences * workload.longest_sequence * token_bytes(workload.model, CHUNKED, width)


def cache_room(workload: Workload, gpu: Gpu, gpus_per_engine: int, execution: Execution = USUAL) -> float:
    """Return the bytes that one engine has for caches beside the weights; negative if these do not fit."""
    return gpus_per_engine * gpu.usable_bytes - workload.model.engine_bytes(fp8=execution.fp8_rollouts)


def engine_sizes(workload: Workload, gpu: Gpu, gpus: int, execution: Execution = USUAL) -> list[int]:
    """List the numbers of GPUs, powers of two unless one is given, that an inference engine for this workload can span.

    It stays within one node where that holds the weights and one longest sequence.
    """
    most, configured = min(gpus, widest_engine(gpu)), execution.engine_gpus
    sizes = (
        [2**power for power in range(int(math.log2(most)) + 1)]
        if configured is None
        else [configured] * (configured <= most)
    )
    needed = _engine_bytes(workload, execution)  # once: a grid asks thousands of times
    fitting = [size for size in sizes if size * gpu.usable_bytes >= needed]
    return [size for size in fitting if size <= gpu.gpus_per_node] or fitting


def widest_engine(gpu: Gpu) -> int:
    """Return the most GPUs that one engine may span."""
    return gpu.gpus_per_node if gpu.one_process else max(gpu.gpus_per_node, MOST_ENGINE_GPUS)


def usual_engine(workload: Workload, gpu: Gpu, sizes: list[int]) -> int:
    """Return the engine that trainers take.

    Weights count in bf16: what fp8 leaves free is taken to go to the cache, and to no smaller engine.
    """
    return roomiest(workload.model, gpu.memory_gb * 1e9, sizes or [widest_engine(gpu)])


def roomiest(model: ModelShape, memory: float, sizes: list[int]) -> int:
    """Return the smallest of engines whose weights fill at most half of its GPUs' memory, or the largest."""
    roomy = (size for size in sizes if model.weight_bytes <= ENGINE_WEIGHT_SHARE * size * memory)
    return next(roomy, sizes[-1])


def training_gpus(workload: Workload, traits: RecipeTraits, gpu: Gpu) -> int | None:
    """Return the fewest GPUs that training fits into, or None when one sequence alone is too large for a node."""
    counts = []
    for width in _widths(workload.model, gpu, gpu.gpus_per_node):
        room = gpu.usable_bytes - activation_bytes(workload, traits.execution, width)
        if room > 0:
            counts.append(max(width, math.ceil(_state_bytes(workload, traits) / room)))
    return min(counts, default=None)


def _widths(model: ModelShape, gpu: Gpu, gpus: int) -> list[int]:
    """List how many of so many GPUs of a node may share a sequence, as each has some of its heads: powers of two."""
    most = 1 if gpu.one_process else math.gcd(2 ** int(math.log2(min(gpus, gpu.gpus_per_node))), model.heads)
    return [2**power for power in range(int(math.log2(most)) + 1)]


@lru_cache(maxsize=64)  # the same for every cell of a grid
def fewest_gpus(workload: Workload, traits: RecipeTraits, gpu: Gpu) -> int | None:
    """Return the fewest GPUs of a kind that a trial can run on, or None when no number will do."""
    trainers = training_gpus(workload, traits, gpu)
    sizes = engine_sizes(workload, gpu, widest_engine(gpu), traits.execution)
    if trainers is None or not sizes:
        return None
    return trainers + sizes[0] if traits.asynchronous else max(trainers, sizes[0])


def memory_share(workload: Workload, traits: RecipeTraits, gpu: Gpu, trainer_gpus: int) -> float:
    """Return the share of the usable memory that training takes at least on each GPU."""
    widest = _widths(workload.model, gpu, trainer_gpus)[-1]
    return training_bytes(workload, traits, trainer_gpus, widest) / gpu.usable_bytes


def require_fit(workload: Workload, traits: RecipeTraits, hardware: Hardware, others: Iterable[Gpu] = ()) -> None:
    """Raise InfeasibleError, with the shortfall and what would mend it, unless a trial fits its GPUs."""
    needed = fewest_gpus(workload, traits, hardware.gpu)
    if needed is not None and needed <= hardware.gpus_per_trial:
        return
    shortfall = f"{workload.model.name} does not fit {hardware.gpus_per_trial} {hardware.gpu.name}"
    reason = _shortfall(workload, traits, hardware)
    raise InfeasibleError(f"{shortfall}: {reason}. {_remedy(workload, traits, hardware, needed, others)}")


def _shortfall(workload: Workload, traits: RecipeTraits, hardware: Hardware) -> str:
    """Say what is needed and what is usable: of the training's memory, or of the engine's when only that is short."""
    gpu, gpus = hardware.gpu, hardware.gpus_per_trial
    sequence = f"a sequence of {workload.longest_sequence:,.0f} tokens"
    sizes = engine_sizes(workload, gpu, gpus, traits.execution)
    trainers = max(1, gpus - sizes[0]) if traits.asynchronous and sizes else gpus
    training = trainers * memory_share(workload, traits, gpu, trainers) * gpu.usable_bytes
    engine = _gigabytes(_engine_bytes(workload, traits.execution))
    if not sizes and training <= trainers * gpu.usable_bytes:
        widest = traits.execution.engine_gpus or 2 ** int(math.log2(min(gpus, widest_engine(gpu))))
        span = f"the {widest} GPUs that one may span" if widest > 1 else "the GPU that it may span"
        usable = _gigabytes(widest * gpu.usable_bytes)
        return f"an engine needs {engine} (weights, {sequence}), {usable} are usable on {span}"
    engine_part = f" and an engine {engine} on GPUs of its own" if traits.asynchronous else ""
    needs = f"{_gigabytes(training)} (states, activations of {sequence} or more){engine_part}"
    return f"training needs {needs}, {_gigabytes(gpus * gpu.usable_bytes)} are usable"


def _remedy(
    workload: Workload, traits: RecipeTraits, hardware: Hardware, needed: int | None, others: Iterable[Gpu]
) -> str:
    offers = []
    if needed is not None:
        offers.append(f"{whole_share(needed, hardware.gpu.gpus_per_node)} {hardware.gpu.name}")
    alternatives = (
        (whole_share(fewest, gpu.gpus_per_node), gpu.name)
        for gpu in others
        if gpu.name not in ("cpu", hardware.gpu.name) and (fewest := fewest_gpus(workload, traits, gpu)) is not None
    )
    offers += [f"{fewest} {name}" for fewest, name in sorted(alternatives)[:2]]
    if needed is None:
        lead = f"No number of {hardware.gpu.name} will do"
        shorter = "shorten the response or the model"
        if traits.execution.engine_gpus is not None:
            shorter = f"give a larger [cost] engine_gpus than {traits.execution.engine_gpus}, or {shorter}"
        return f"{lead}; it fits {' or '.join(offers)}" if offers else f"{lead}; {shorter}"
    return f"It fits {' or '.join(offers)}, or a smaller model"


def _engine_bytes(workload: Workload, execution: Execution) -> float:
    model = workload.model
    return model.engine_bytes(fp8=execution.fp8_rollouts) + model.cache_bytes(workload.longest_sequence)


def _gigabytes(amount: float) -> str:
    return f"{amount / 1e9:,.0f} GB" if amount >= 1e10 else f"{amount / 1e9:,.2g} GB"
