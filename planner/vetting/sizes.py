"""Sizes that a trainer's own assertions refuse, at its start or at its first update: what has to divide what; pure.

verl 0.9 (utils/config.py, workers/engine_workers.py, utils/tensordict_utils.py), TRL 1.16 (GRPOConfig), OpenRLHF 0.11
and DeepSpeed's batch of micro-batches; SkyRL and NeMo RL ask for whole updates too.
"""

from collections.abc import Iterator

from planner.vetting.launch import Launch

WHOLE_UPDATES = ("verl", "openrlhf", "skyrl", "nemo-rl")


def refused_sizes(launch: Launch) -> Iterator[str]:
    """Yield what does not go with what, in the units of the trainer."""
    if launch.trainer == "trl":
        yield from _of_trl(launch)
    elif launch.trainer in WHOLE_UPDATES and not launch.traits.asynchronous:
        yield from _of_updates(launch)


def _of_trl(launch: Launch) -> Iterator[str]:
    n, gpus = launch.rollouts_per_prompt, launch.trainers
    rollouts = launch.batch_rollouts or n * launch.prompts_per_batch
    if rollouts % n:
        yield f"{rollouts:,} rollouts a batch are no multiple of n = {n}"
    if launch.device_batch and rollouts % (launch.device_batch * gpus):
        yield f"{rollouts:,} rollouts a batch are no multiple of {launch.device_batch} on each of {gpus} GPUs"
    if launch.validates and launch.device_validation:
        asked, answers = launch.device_validation * gpus, launch.workload.validation.samples
        samples = answers if "validation_samples" in launch.explicit else n
        if asked % samples:
            yield f"{asked:,} rollouts of a validation batch are no multiple of {samples} a problem"


def _of_updates(launch: Launch) -> Iterator[str]:
    n, B = launch.rollouts_per_prompt, launch.prompts_per_batch
    rollouts, update = n * B, launch.update_rollouts or launch.update.rollouts_per_step
    batch, part = (f"{rollouts:,} rollouts are", update) if update % n else (f"B = {B:,} is", update // n)
    if rollouts % update:
        yield f"{batch} {'less than' if rollouts < update else 'no multiple of'} the mini-batch of {part:,}"
    gpus = launch.trainers
    if launch.trainer == "verl" and rollouts % gpus:
        yield f"{n} × {B:,} = {rollouts:,} rollouts are not shared out evenly to {gpus} GPUs"
    ranks = max(1, gpus // (launch.model_parallel or 1 if launch.sharding == "megatron" else launch.width))
    micro = (launch.micro_batch_sequences or 1) if launch.trainer in ("verl", "openrlhf") else 1
    if update % (ranks * micro):
        passes = f" in passes of {micro}" if micro > 1 else ""
        yield f"{update:,} rollouts an update are not shared out evenly to {ranks} GPUs{passes}"
