"""The seconds to generate rollouts: with inference engines or without, and with turns in an environment.

An engine's decoding step reads the weights once and every sequence's keys and values; prefill is bound by operations.
Without an engine the trainer's own model writes a few sequences at a time, and each lot waits for its longest.
"""

import math
from functools import lru_cache

from budgets.execution import USUAL, Execution
from budgets.hardware import Gpu
from budgets.lengths import ResponseLengths
from budgets.memory import cache_room, engine_sizes, usual_engine
from budgets.models import ModelShape
from budgets.work import Driver, Seconds, StepLoad, reward_seconds
from budgets.workload import RecipeTraits, Turns, Workload

# Nominal efficiencies: the shares of data-sheet peaks that well-kept engines reach. Coefficient 1 means exactly these;
# the prior around 1 is wide (`budgets.coefficients`).
DECODE_BANDWIDTH_USE = 0.65
DECODE_FLOPS_USE = 0.50
PREFILL_FLOPS_USE = 0.45
LAYER_ACROSS_NODES = 6.0  # times the overhead of a layer on one GPU, where an engine spans nodes; 2 within a node

# Without an engine a layer's kernels are started from Python for every token, adapters beside each product, and each
# expert that a token goes to by itself.
LAYER_SECONDS, ADAPTED_LAYER_TIMES, EXPERT_SECONDS = 0.45e-3, 1.75, 3e-5
WITHOUT_ENGINE = 4  # sequences that are written together, where the micro-batch is not known

# What trajectories wait for tools, as shares of the mean. Assumed: sums over turns differ less than lengths do.
TOOL_SPREAD = 0.3
_SLOWEST = ResponseLengths(1.0, 100, TOOL_SPREAD)


def generate_seconds(
    workload: Workload, gpu: Gpu, gpus: int, load: StepLoad, traits: RecipeTraits, engine_gpus: int | None = None
) -> Seconds:
    """Return the seconds to generate one update's rollouts, with engines as trainers size them.

    In one process there is nothing to size: it takes the fastest.
    """
    batches = traits.updates_per_batch
    prompts, rollouts = batches * load.prompts, batches * load.generated
    if not (traits.execution.engines or gpu.one_process):
        best = _without_engine(workload, gpu, gpus, rollouts, traits.execution)
    else:
        fitting = engine_sizes(workload, gpu, gpus, traits.execution)
        sizes = fitting if gpu.one_process else [min(engine_gpus or usual_engine(workload, gpu, fitting), gpus)]
        options = (_engine_seconds(workload, gpu, size, gpus // size, prompts, rollouts, traits) for size in sizes)
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


def _engine_seconds(
    workload: Workload, gpu: Gpu, size: int, engines: int, prompts: float, rollouts: float, traits: RecipeTraits
) -> Seconds:
    model, lengths, execution = workload.model, workload.responses, traits.execution
    share = rollouts / engines
    resident = workload.prompt_tokens + workload.turns.tokens / 2 + lengths.mean_square / (2 * lengths.mean)
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
    prompt_flops += model.encoder_flops(workload.image_tokens)
    read_again = workload.turns.read_again(workload.prompt_tokens, lengths.mean)
    prefill_flops = prompts / engines * prompt_flops + share * read_again * _product_flops(model, gpu, execution)
    seconds = {
        Driver.DECODE_OVERHEAD: steps * (gpu.decode_overhead_ms * 1e-3 + model.layers * layer_us * 1e-6) / times,
        Driver.DECODE_BANDWIDTH: (cached / bandwidth + (weights if bound_by_weights else 0.0)) / times,
        Driver.DECODE_COMPUTE: 0.0 if bound_by_weights else compute / times,
        Driver.PREFILL_COMPUTE: prefill_flops / (size * gpu.dense_tflops * 1e12 * PREFILL_FLOPS_USE),
    }
    if workload.turns.waited:
        waiting, under_way = lengths.longest_of(share * engines) - lengths.mean, running * engines
        excess = None if traits.asynchronous else waiting * sum(seconds.values()) / steps
        seconds[Driver.TOOLS] = _tool_seconds(workload.turns, share * engines, under_way, excess)
    return seconds


def _without_engine(workload: Workload, gpu: Gpu, gpus: int, rollouts: float, execution: Execution) -> Seconds:
    """Return the seconds where the trainer's own model writes, on each GPU a few sequences at a time."""
    model, lengths = workload.model, workload.responses
    share = rollouts / gpus
    together = min(share, float(execution.micro_batch or WITHOUT_ENGINE))
    steps = share / together * lengths.longest_of(together)
    layer = LAYER_SECONDS * (ADAPTED_LAYER_TIMES if execution.lora_rank is not None else 1.0)
    overhead = model.layers * layer + model.expert_layers * model.experts_touched(together) * EXPERT_SECONDS
    weights = model.bytes_read(together, fp8=False) / (gpu.bandwidth_gb_per_s * 1e9 * DECODE_BANDWIDTH_USE)
    prompt = workload.prompt_tokens  # read for each sequence
    prompt_flops = 2 * model.matmul_parameters * prompt + model.attention_flops(prompt, prompt**2)
    prompt_flops += model.encoder_flops(workload.image_tokens)
    return {
        Driver.DECODE_OVERHEAD: steps * overhead,
        Driver.DECODE_BANDWIDTH: steps * max(0.0, weights - overhead),
        Driver.PREFILL_COMPUTE: share * prompt_flops / (gpu.dense_tflops * 1e12 * PREFILL_FLOPS_USE),
        Driver.TOOLS: _tool_seconds(workload.turns, rollouts, together * gpus, 0.0),
    }


def _tool_seconds(turns: Turns, rollouts: float, at_once: float, excess: float | None) -> float:
    """Return what a batch waits for its environments beside the decoding.

    So many trajectories are under way at once. A synchronous step ends with the slowest of them: `excess` is what the
    longest response takes beyond the mean one, and of two independent tails the longer hides most of the shorter.
    A streaming step, without `excess`, waits for nobody.
    """
    if not turns.waited:
        return 0.0
    waves = max(1.0, rollouts / min(at_once, turns.environments or at_once))
    if excess is None:
        return waves * turns.waited
    slowest = turns.waited * (_SLOWEST.longest_of(rollouts) - 1)
    return waves * turns.waited + math.hypot(excess, slowest) - excess


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
