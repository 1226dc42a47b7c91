"""What one update step asks of the hardware, phase by phase, as seconds at nominal efficiency.

Each term belongs to one coefficient of the cost model (`Driver`): a phase's seconds are Σ coefficient · base seconds,
so that measured steps can correct the coefficients one by one. Decoding reads the weights once per step of the batch
and every sequence's keys and values once per token; prefill and training are bound by operations.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from budgets.execution import USUAL, Execution
from budgets.hardware import Gpu
from budgets.lengths import ResponseLengths
from budgets.memory import cache_room, checkpoint_bytes, engine_sizes, usual_engine
from budgets.models import BYTES_PER_WEIGHT, ModelShape
from budgets.workload import RecipeTraits, Workload

# Nominal efficiencies: the shares of data-sheet peaks that well-kept engines and trainers reach. Coefficient 1 means
# exactly these; the prior around 1 is wide (`budgets.cost`).
DECODE_BANDWIDTH_USE = 0.65
DECODE_FLOPS_USE = 0.50
PREFILL_FLOPS_USE = 0.45
TRAINING_FLOPS_USE = 0.35
LINK_USE = 0.30
MOST_REFILLS = 10.0  # dynamic sampling gives up beyond this many times the batch

# What follows holds where an engine generates and a trainer trains (`one_process` is false).
# Training alternates between matrix products and all else (kernels, memory, messages): for each token and number of a
# layer's width the same on every GPU, since a B200 trained no faster than an H100 (prime-rl's benchmarks). Under this
# value the steps of left-out workloads, trainers and GPU generations are likeliest; from 1 to 2e-10 hardly less.
MATMUL_USE = 0.85
OTHER_SECONDS = 1.5e-10
# Sending tokens to experts and back, uneven loads, small products: operations at this speed on every GPU.
EXPERT_TFLOPS = 90.0
LORA_TIMES = 1.10  # a full update, in the mean of prime-rl's 13 pairs (0.96 to 1.25): adapters save memory alone
LAYER_ACROSS_NODES = 6.0  # times the overhead of a layer on one GPU, where an engine spans nodes; 2 within a node
WAKE_SECONDS = 2.5  # of an engine after training: its memory taken back, its graphs and caches made ready
RESHARD_GB_PER_S = 45.0  # gathering a trainer's shards, renaming them, sending and loading them
SEND_GB_PER_S = 70.0  # the same into engines on GPUs of their own: left-out workloads are likeliest at 60 to 75
# Writing a checkpoint while training waits, for each node: 7B in 149 s (pytorch.org/blog/reducing-checkpointing-times),
# 8B in 360 s (pytorch/torchtitan#1301) and 240 s (pytorch/pytorch#104081), 13B in 300 s (epfLLM/Megatron-LLM#69).
SAVE_GB_PER_S = 0.5


class Driver(StrEnum):
    """What a part of a step's time is proportional to."""

    DECODE_OVERHEAD = "decode_overhead"
    DECODE_BANDWIDTH = "decode_bandwidth"
    DECODE_COMPUTE = "decode_compute"
    PREFILL_COMPUTE = "prefill_compute"
    REWARD = "reward"
    TRAIN_COMPUTE = "train_compute"
    FIXED = "fixed"
    WEIGHT_SYNC = "weight_sync"
    SAVING = "saving"
    EXPERTS = "experts"


class Phase(StrEnum):
    """A part of a step that is timed by itself."""

    GENERATE = "generate"
    REWARD = "reward"
    OLD_LOG_PROBS = "old_log_probs"
    REFERENCE = "reference"
    TRAIN = "train"
    SYNC = "sync"
    EVALUATE = "evaluate"
    SAVE = "save"


Seconds = dict[Driver, float]


@dataclass(frozen=True, slots=True)
class StepLoad:
    """The rollouts of one update: what is asked for, generated and trained on."""

    prompts: float
    generated: float
    trained: float

    @classmethod
    def of(cls, rollouts_per_prompt: int, prompts: int, traits: RecipeTraits, signal: float) -> "StepLoad":
        """Count the rollouts that a recipe generates and keeps when only a share of the groups carries signal."""
        refills = min(MOST_REFILLS, 1 / max(signal, 1e-9)) if traits.refills_groups else 1.0
        share = signal if traits.drops_groups else 1.0
        rollouts = rollouts_per_prompt * prompts
        return cls(prompts=prompts * refills, generated=rollouts * refills, trained=rollouts * share)


def generate_seconds(
    workload: Workload, gpu: Gpu, gpus: int, load: StepLoad, traits: RecipeTraits, engine_gpus: int | None = None
) -> Seconds:
    """Return the seconds to generate one update's rollouts, with engines as trainers size them.

    In one process there is nothing to size: it takes the fastest.
    """
    batches = traits.updates_per_batch
    fitting = engine_sizes(workload, gpu, gpus, traits.execution)
    sizes = fitting if gpu.one_process else [min(engine_gpus or usual_engine(workload, gpu, fitting), gpus)]
    options = (
        _engine_seconds(workload, gpu, size, gpus // size, batches * load.prompts, batches * load.generated, traits)
        for size in sizes
    )
    best = min(options, key=lambda seconds: sum(seconds.values()))
    return {driver: seconds / batches for driver, seconds in best.items()}


@lru_cache(maxsize=64)  # the same for every cell of a grid
def evaluate_seconds(
    workload: Workload, gpu: Gpu, gpus: int, engine_gpus: int | None = None, execution: Execution = USUAL
) -> Seconds:
    """Return the seconds of one validation: its rollouts are generated, and scored, like any others."""
    validation, traits = workload.validation, RecipeTraits("validation", execution=execution)
    load = StepLoad(validation.problems, validation.rollouts, 0)
    generating = generate_seconds(workload, gpu, gpus, load, traits, engine_gpus)
    return {**generating, **reward_seconds(load, traits)} if execution.slow_reward else generating


def train_seconds(workload: Workload, gpu: Gpu, gpus: int, load: StepLoad, traits: RecipeTraits) -> Seconds:
    """Return the seconds of one update: four forward passes' worth, one more when the old policy is scored anew."""
    # The backward pass takes two, and the forward pass is made anew for it, which spares memory; not in one process.
    passes = (3.0 if gpu.one_process else 4.0) + (traits.updates_per_batch > 1 and not traits.old_log_probs)
    if traits.execution.lora_rank is not None:
        passes *= LORA_TIMES
    updates = 1 if gpu.one_process else traits.updates_per_batch
    return {
        **forward_seconds(workload, gpu, gpus, passes * load.trained, traits.execution),
        Driver.FIXED: gpu.fixed_overhead_s / updates,
    }


def forward_seconds(workload: Workload, gpu: Gpu, gpus: int, rollouts: float, execution: Execution) -> Seconds:
    """Return the seconds of trainers' forward passes over so many rollouts; sending tokens to experts comes on top.

    A pass takes 2·N operations per token and the causal attention's 2·layers·width·length² per sequence.
    """
    model, lengths, prompt = workload.model, workload.responses, workload.prompt_tokens
    padded = 1 if execution.packing else execution.micro_batch  # to the longest of so many
    mean, mean_square = lengths.longest_of(padded), lengths.longest_square_of(padded)
    tokens, squared = prompt + mean, prompt**2 + 2 * prompt * mean + mean_square
    products = rollouts / gpus * 2 * model.matmul_parameters * tokens
    flops = products + rollouts / gpus * model.attention_flops(tokens, squared)
    if gpu.one_process:
        return {Driver.TRAIN_COMPUTE: flops / (gpu.dense_tflops * 1e12 * TRAINING_FLOPS_USE)}
    times = gpu.fp8_times if execution.fp8_training else 1.0
    other = rollouts / gpus * tokens * model.layers * model.hidden * OTHER_SECONDS
    seconds = {Driver.TRAIN_COMPUTE: flops / (times * gpu.dense_tflops * 1e12 * MATMUL_USE) + other}
    if model.experts:
        seconds[Driver.EXPERTS] = products / (EXPERT_TFLOPS * 1e12)
    return seconds


def sync_seconds(workload: Workload, gpu: Gpu, execution: Execution = USUAL, *, colocated: bool = True) -> Seconds:
    """Return the seconds to bring new weights into the engines; those that trainers' GPUs share were asleep."""
    weights = workload.model.weight_bytes
    if execution.lora_rank is not None and execution.sends_adapters:
        weights = BYTES_PER_WEIGHT * workload.model.adapter_parameters(execution.lora_rank)
    if gpu.one_process:
        return {Driver.WEIGHT_SYNC: weights / (gpu.link_gb_per_s * 1e9 * LINK_USE)}
    awake = weights / (SEND_GB_PER_S * 1e9)
    return {Driver.WEIGHT_SYNC: WAKE_SECONDS + weights / (RESHARD_GB_PER_S * 1e9) if colocated else awake}


def save_seconds(workload: Workload, gpu: Gpu, gpus: int, execution: Execution) -> Seconds:
    """Return the seconds of one checkpoint, which the nodes that train write together."""
    nodes = max(1.0, gpus / gpu.gpus_per_node)
    written = checkpoint_bytes(workload.model, execution.lora_rank)
    return {Driver.SAVING: written / (nodes * SAVE_GB_PER_S * 1e9)}


def reward_seconds(load: StepLoad, traits: RecipeTraits) -> Seconds:
    """Return the seconds to score one update's rollouts, so many at once, after the batch was generated."""
    turns = max(1 / traits.updates_per_batch, load.generated / traits.execution.reward_parallel)
    return {Driver.REWARD: turns * traits.execution.reward_seconds}


def total(seconds: Mapping[Driver, float]) -> float:
    """Sum the drivers at coefficient 1."""
    return sum(seconds.values())


def _engine_seconds(
    workload: Workload, gpu: Gpu, size: int, engines: int, prompts: float, rollouts: float, traits: RecipeTraits
) -> Seconds:
    model, lengths, execution = workload.model, workload.responses, traits.execution
    share = rollouts / engines
    resident = workload.prompt_tokens + lengths.mean_square / (2 * lengths.mean)
    fits = max(1.0, cache_room(workload, gpu, size, execution) / model.cache_bytes(resident))
    running = min(_in_flight(share, lengths, traits), fits)
    steps = _decode_steps(share, running, engines, lengths, streaming=traits.asynchronous)
    cached = share * lengths.mean * model.cache_bytes(resident)
    bandwidth = size * gpu.bandwidth_gb_per_s * 1e9 * DECODE_BANDWIDTH_USE
    weights = steps * model.bytes_read(share * lengths.mean / steps, fp8=execution.fp8_rollouts) / bandwidth
    flops = _product_flops(model, gpu, execution) * share * lengths.mean
    compute = flops / (size * gpu.dense_tflops * 1e12 * DECODE_FLOPS_USE)
    across = LAYER_ACROSS_NODES if size > gpu.gpus_per_node else 2.0
    layer_us = gpu.layer_overhead_us * (1.0 if size == 1 else across)  # an all-reduce beside each kernel
    bound_by_weights, times = weights >= compute, execution.speculation
    prompt = workload.prompt_tokens  # read once for a group, which shares its prefix
    prompt_flops = _product_flops(model, gpu, execution) * prompt + model.attention_flops(prompt, prompt**2)
    prefill_flops = prompts / engines * prompt_flops
    return {
        Driver.DECODE_OVERHEAD: steps * (gpu.decode_overhead_ms * 1e-3 + model.layers * layer_us * 1e-6) / times,
        Driver.DECODE_BANDWIDTH: (cached / bandwidth + (weights if bound_by_weights else 0.0)) / times,
        Driver.DECODE_COMPUTE: 0.0 if bound_by_weights else compute / times,
        Driver.PREFILL_COMPUTE: prefill_flops / (size * gpu.dense_tflops * 1e12 * PREFILL_FLOPS_USE),
    }


def _in_flight(share: float, lengths: ResponseLengths, traits: RecipeTraits) -> float:
    """Return the sequences an engine may have under way: a batch, or what the staleness bound allows.

    A sequence of the longest length must end within k updates, and a generator-bound update takes mean/in-flight of
    the decoding steps of a batch; hence in-flight ≤ k · batch · mean / longest. It is never under the
    batch: going one step off gains published runs more than even so.
    """
    if not traits.asynchronous:
        return max(1.0, share)
    return max(1.0, share, traits.staleness_bound * share * lengths.mean / lengths.cap)


def _decode_steps(share: float, running: float, engines: int, lengths: ResponseLengths, *, streaming: bool) -> float:
    """Return how many times an engine steps: sequences leave and enter until the last ones run out.

    A synchronous step waits for the longest of what all engines have under way then; a streaming one for nobody.
    """
    if streaming:
        return share * lengths.mean / running
    refilling = max(0.0, share - running) * lengths.mean / running
    return refilling + lengths.longest_of(max(1.0, min(share, running) * engines))


def _product_flops(model: ModelShape, gpu: Gpu, execution: Execution) -> float:
    """Return an engine's operations per token, as many of bf16 as take the time; the head is never in fp8."""
    if not execution.fp8_rollouts:
        return 2 * model.matmul_parameters
    return 2 * ((model.matmul_parameters - model.head_parameters) / gpu.fp8_times + model.head_parameters)
