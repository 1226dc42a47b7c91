"""How the training and the engines of a trial share its GPUs' memory: what every driver turns into its keys.

Weights, gradients and optimizer are spread over all GPUs that train; with Megatron the optimizer alone. Activation
checkpointing is no choice: every trainer's own scripts from 1.5 billion weights on have it, and prices count it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from budgets.hardware import USABLE_MEMORY
from budgets.memory import CHUNKED, MOST_ENGINE_GPUS, TIGHT_MEMORY, Placement, roomiest, states, token_bytes
from budgets.models import BYTES_PER_WEIGHT, ModelShape


@dataclass(frozen=True, slots=True)
class Means:
    """What a trainer can do to make a trial fit."""

    # How GPUs share a sequence: its tokens (Ulysses, ring), each matrix, both as Megatron does it, or not at all.
    shares: Literal["sequence", "tensor", "megatron"] | None = "sequence"
    heads: tuple[int, ...] = (CHUNKED,)  # bytes that it can keep of a logit, in the order in which they are tried
    offloads: bool = True  # the optimizer's states may stay in the host's memory
    sleeps: bool | None = True  # states leave the GPUs while engines generate; None: where that is asked for
    engine_share: float = 0.6  # of GPUs that train too, in the trainer's own scripts: verl's and NeMo-RL's
    # Of GPUs that engines have to themselves: new weights arrive beside full caches. The most that NeMo-RL's, slime's
    # and SkyRL's own scripts give.
    own_share: float = 0.8


@dataclass(frozen=True, slots=True)
class Demand:
    """What is to fit: a model with its longest sequence, on GPUs of so many bytes, of which a node has so many."""

    model: ModelShape
    longest: float
    placement: Placement
    memory: float
    per_node: int
    reference: bool = False
    lora_rank: int | None = None
    tokens: float = 0  # wanted in a micro-batch; it never has fewer than the longest sequence

    @property
    def usable(self) -> float:
        """Bytes of a GPU that weights, caches and states may fill."""
        return USABLE_MEMORY * self.memory


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What is to be set, and the bytes that it takes on each GPU."""

    width: int  # GPUs that share one sequence
    experts: int  # GPUs that experts are spread over, with Megatron
    head: int  # bytes of a logit
    offload: bool  # whether the optimizer's states stay in the host's memory
    sleep: bool  # whether states leave the GPUs while engines generate
    tokens: int  # of a micro-batch, on all GPUs that share it
    engine_gpus: int
    engine_share: float  # of a GPU's memory
    state_bytes: float
    activation_bytes: float
    engine_bytes: float  # its weights and one longest sequence
    short_bytes: float  # that lack; 0: it fits


def plan_memory(demand: Demand, means: Means) -> MemoryPlan:
    """Return the plan that costs the least time and leaves some room, then one that fits, or that which lacks least."""
    plans = [plan for most in (TIGHT_MEMORY, 1.0) for plan in _plans(demand, means, most * demand.usable)]
    return next((plan for plan in plans if not plan.short_bytes), min(plans, key=lambda plan: plan.short_bytes))


def _plans(demand: Demand, means: Means, most: float) -> Iterator[MemoryPlan]:
    """Yield plans within so many bytes of training: with a micro-batch as it is wanted, then of one sequence."""
    heads = demand.model.heads if means.shares == "sequence" else demand.model.kv_heads
    widest = math.gcd(demand.placement.trainer_gpus, demand.per_node, heads) if means.shares else 1
    widths = [2**power for power in range(widest.bit_length()) if widest % 2**power == 0]
    for width in widths if means.shares == "megatron" else widths[:1]:
        for head in means.heads:
            yield _plan(demand, means, most, (head, width, False), max(demand.longest, demand.tokens))
    for offload in (False, True) if means.offloads else (False,):
        # Megatron's own scripts that offload spread the weights as far as they can.
        for width in reversed(widths) if offload and means.shares == "megatron" else widths:
            yield _plan(demand, means, most, (means.heads[-1], width, offload), demand.longest)


def _plan(demand: Demand, means: Means, most: float, way: tuple[int, int, bool], tokens: float) -> MemoryPlan:
    model, (head, width, offload), gpus = demand.model, way, demand.placement.trainer_gpus
    static, optimizer = states(model, reference=demand.reference, lora_rank=demand.lora_rank)
    experts = math.gcd(min(demand.per_node, gpus), model.experts or 1)
    if means.shares == "megatron":
        spread = model.expert_weights / model.parameters
        static += BYTES_PER_WEIGHT * model.parameters  # gradients are summed in float32
        static *= gpus * ((1 - spread) / width + spread / experts)
    resident = (static + (0 if offload else optimizer)) / gpus
    sleep = means.sleeps if demand.placement.colocated else False
    if sleep is None:  # where an engine of the usual size has no room beside what stays
        sleep = resident > demand.usable - means.engine_share * demand.memory
    training_bytes = resident if demand.placement.colocated and not sleep else 0.0
    engine_gpus, share, needed = _engines(demand, means, demand.usable - training_bytes)
    per_token = token_bytes(model, head, width, tensor=means.shares == "tensor")
    filled = max(tokens, min(demand.tokens, (most - resident) / per_token))
    short = max(resident + filled * per_token - most, needed + training_bytes - demand.usable, 0.0)
    counts = (width, experts, head, offload, sleep, math.ceil(filled), engine_gpus, share)
    return MemoryPlan(*counts, resident, filled * per_token, needed, short)


def _engines(demand: Demand, means: Means, room: float) -> tuple[int, float, float]:
    """Return the GPUs of an engine, its share of their memory, and the bytes that it needs on each."""
    gpus, memory = demand.placement.generator_gpus, demand.memory
    most = means.engine_share if demand.placement.colocated else means.own_share
    sizes = [2**power for power in range(min(gpus, MOST_ENGINE_GPUS).bit_length()) if gpus % 2**power == 0]
    whole = demand.model.weight_bytes + demand.model.cache_bytes(demand.longest)
    fitting = [size for size in sizes if whole / size <= room] or sizes[-1:]
    size = demand.placement.engine_gpus or roomiest(demand.model, memory, fitting)
    share = math.floor(100 * min(most, room / memory)) / 100
    return size, max(share, min(math.ceil(100 * whole / size / memory) / 100, USABLE_MEMORY)), whole / size
