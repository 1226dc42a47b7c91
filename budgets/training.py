"""The seconds to train on rollouts, to score them, and to bring new weights into the engines."""

from budgets.execution import USUAL, Execution
from budgets.hardware import Gpu
from budgets.memory import Placement, states
from budgets.models import BYTES_PER_WEIGHT, ModelShape
from budgets.work import Driver, Seconds, StepLoad
from budgets.workload import RecipeTraits, Workload

TRAINING_FLOPS_USE = 0.35  # of the data-sheet peak, in one process
LINK_USE = 0.30

# What follows holds where an engine generates and a trainer trains (`one_process` is false).
# Training alternates between matrix products and all else (kernels, memory, messages): for each token and number of a
# layer's width the same on every GPU, since a B200 trained no faster than an H100 (prime-rl's benchmarks). Under this
# value the steps of left-out workloads, trainers and GPU generations are likeliest; from 1 to 2e-10 hardly less.
MATMUL_USE = 0.85
OTHER_SECONDS = 1.5e-10
# Sending tokens to experts and back, uneven loads, small products: operations at this speed on every GPU.
EXPERT_TFLOPS = 90.0
LOOPED_EXPERT_SECONDS = 1.5e-4  # of a pass through one expert of one layer, where Python goes from one to the next
LORA_TIMES = 1.10  # a full update, in the mean of prime-rl's 13 pairs (0.96 to 1.25): adapters save memory alone
WAKE_SECONDS = 2.5  # of an engine after training: its memory taken back, its graphs and caches made ready
RESHARD_GB_PER_S = 45.0  # gathering a trainer's shards, renaming them, sending and loading them
SEND_GB_PER_S = 70.0  # the same into engines on GPUs of their own: left-out workloads are likeliest at 60 to 75
PACKED_TOKENS = 16_384  # of a micro-batch, at least: verl's default (ppo_max_token_len_per_gpu)
GATHERED_TO_SCORE, GATHERED_TO_TRAIN, GATHERED_FOR_ADAPTERS = 1, 4, 2  # times the weights' bytes: each pass, gradients
# An Adam of PyTorch's on the CPUs of a node (ZeRO-Offload, arXiv 2101.06840, table 4: 10B in 14.8 s).
OFFLOADED_WEIGHTS_PER_S = 0.7e9


def train_seconds(workload: Workload, gpu: Gpu, gpus: int, load: StepLoad, traits: RecipeTraits) -> Seconds:
    """Return the seconds of one update: four forward passes' worth, one more when the old policy is scored anew."""
    # The backward pass takes two, and the forward pass is made anew for it, which spares memory; not in one process.
    passes = (3.0 if gpu.one_process else 4.0) + (traits.updates_per_batch > 1 and not traits.old_log_probs)
    if traits.execution.lora_rank is not None:
        passes *= LORA_TIMES
    seconds = forward_seconds(workload, gpu, gpus, load.trained, traits.execution, passes)
    seconds[Driver.FIXED] = gpu.fixed_overhead_s / (1 if gpu.one_process else traits.updates_per_batch)
    if traits.execution.offloads_optimizer and not gpu.one_process:
        nodes = max(1.0, gpus / gpu.gpus_per_node)
        weights = workload.model.trained(traits.execution.lora_rank)
        seconds[Driver.OFFLOADING] = weights / nodes / OFFLOADED_WEIGHTS_PER_S
    return seconds


def forward_seconds(
    workload: Workload, gpu: Gpu, gpus: int, scored: float, execution: Execution, passes: float = 1.0
) -> Seconds:
    """Return the seconds of trainers' forward passes over rollouts; sending tokens to experts comes on top.

    A pass takes 2·N operations per token and the causal attention's 2·layers·width·length² per sequence.
    """
    model, lengths, prompt = workload.model, workload.responses, workload.prompt_tokens
    prompt += workload.turns.tokens  # what tools answer is read with it
    rollouts, padded = passes * scored, 1 if execution.packing else execution.padded_to  # to the longest of so many
    mean, mean_square = lengths.longest_of(padded), lengths.longest_square_of(padded)
    tokens, squared = prompt + mean, prompt**2 + 2 * prompt * mean + mean_square
    products = rollouts / gpus * 2 * model.matmul_parameters * tokens
    extra_flops = model.attention_flops(tokens, squared) + model.encoder_flops(workload.image_tokens)
    flops = products + rollouts / gpus * extra_flops
    if gpu.one_process:
        return {Driver.TRAIN_COMPUTE: flops / (gpu.dense_tflops * 1e12 * TRAINING_FLOPS_USE)}
    times = gpu.fp8_times if execution.fp8_training else 1.0
    other = rollouts / gpus * tokens * model.layers * model.hidden * OTHER_SECONDS
    seconds = {Driver.TRAIN_COMPUTE: flops / (times * gpu.dense_tflops * 1e12 * MATMUL_USE) + other}
    micro_batches = _micro_batches(workload, execution, scored / gpus)
    if model.experts:
        seconds[Driver.EXPERTS] = products / (EXPERT_TFLOPS * 1e12)
        if execution.loops_experts:
            looped = model.expert_layers * model.experts * LOOPED_EXPERT_SECONDS
            seconds[Driver.EXPERTS] += micro_batches * passes * looped
    gathering = _between_seconds(workload, gpu, gpus, micro_batches, execution, training=passes > 1)
    beyond = gathering - sum(seconds.values())  # the next layer's weights come while one is computed
    if beyond > 0:
        seconds[Driver.GATHERING] = beyond
    return seconds


def _micro_batches(workload: Workload, execution: Execution, rollouts: float) -> float:
    """Return the micro-batches of a GPU's rollouts: packed ones, which hold a longest sequence, unless it is known."""
    if execution.micro_batch or not execution.packing:
        return max(1.0, rollouts / execution.padded_to)
    mean = workload.prompt_tokens + workload.turns.tokens + workload.responses.mean
    return max(1.0, rollouts * mean / max(PACKED_TOKENS, workload.longest_sequence))


def _shared_out(model: ModelShape, gpu: Gpu, execution: Execution) -> bool:
    """Tell whether each GPU that trains holds a part of the weights alone."""
    if execution.sharding != "needed":
        return execution.sharding == "always"
    return sum(states(model, reference=False, lora_rank=execution.lora_rank)) > gpu.usable_bytes


def _between_seconds(
    workload: Workload, gpu: Gpu, gpus: int, micro_batches: float, execution: Execution, *, training: bool
) -> float:
    """Return the seconds to gather the weights that GPUs share out, once for each pass of each micro-batch."""
    if gpus < 2 or not _shared_out(workload.model, gpu, execution):
        return 0.0
    times = GATHERED_TO_SCORE
    if training:
        times = GATHERED_TO_TRAIN if execution.lora_rank is None else GATHERED_FOR_ADAPTERS
    speed = gpu.link_gb_per_s * LINK_USE if gpus <= gpu.gpus_per_node else execution.node_link_gb_per_s
    return micro_batches * times * workload.model.weight_bytes * (1 - 1 / gpus) / (speed * 1e9)


def sync_seconds(workload: Workload, gpu: Gpu, placement: Placement, execution: Execution = USUAL) -> Seconds:
    """Return the seconds to bring new weights into the engines; those that trainers' GPUs share were asleep.

    Weights that are shared out layer by layer are gathered first, and then sent to the nodes of the engines.
    """
    if not (execution.engines or gpu.one_process):
        return {}
    weights = workload.model.weight_bytes
    if execution.lora_rank is not None and execution.sends_adapters:
        weights = BYTES_PER_WEIGHT * workload.model.adapter_parameters(execution.lora_rank)
    if gpu.one_process:
        return {Driver.WEIGHT_SYNC: weights / (gpu.link_gb_per_s * 1e9 * LINK_USE)}
    if placement.colocated:
        return {Driver.WEIGHT_SYNC: WAKE_SECONDS + weights / (RESHARD_GB_PER_S * 1e9)}
    between = placement.gpus > gpu.gpus_per_node and _shared_out(workload.model, gpu, execution)
    return {Driver.WEIGHT_SYNC: weights / ((execution.node_link_gb_per_s / 2 if between else SEND_GB_PER_S) * 1e9)}
