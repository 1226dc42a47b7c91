"""What a batch and an update of it are made of, however a trainer counts: prompts, rollouts, shares of GPUs."""

import math

from planner.adopting.gpus import beside, gpus_of, trained_on
from planner.adopting.known import Known


def of_update(known: Known, n: int | None, prompts: int | None) -> tuple[int | None, int]:
    """Return the prompts of an update, and how many updates a batch of so many prompts makes."""
    size = known.count("update_prompts")  # several updates of a batch are another recipe than one
    rollouts = None if size is not None else known.count("update_rollouts")
    if size is None and n and rollouts:
        size = max(1, rollouts // n)
    if size is None and n and "train_devices" in known and "device_batch" in known:
        width = math.prod(known.count(f"train_{kind}_parallel") or 1 for kind in ("tensor", "pipeline"))
        share = math.prod(known.count(name) or 1 for name in ("device_batch", "accumulation"))
        size = max(1, trained_on(known) // width * share // n)
    if size is None and prompts and (updates := known.count("batch_updates")):
        size = max(1, prompts // updates)
    if n and prompts and rollouts:
        return size, max(1, math.ceil(n * prompts / rollouts))
    return size, max(1, math.ceil(prompts / size)) if prompts and size else 1


def batch_rollouts(known: Known) -> int | None:
    """Return the rollouts of a batch, where they are given as such or by device.

    A device's share are prompts before TRL 0.15, whose later ones refuse rollouts that are no multiple of a group;
    Unsloth raises what is no multiple of a group to one group.
    """
    rollouts, n = known.count("batch_rollouts"), known.count("rollouts_per_prompt") or 1
    if rollouts is None and "device_batch" not in known and (of_update := known.count("update_rollouts")):
        return of_update * (known.count("batch_updates") or 1)
    gpus = (gpus_of(known) or 0) - beside(known)
    if rollouts is None and "device_batch" in known and "accumulation" in known and gpus > 0:
        share, counted = known.count("device_batch") or 1, known.values.get("share_of")
        share = n if counted == "groups" and share % n else share
        least = math.ceil((known.count("rollouts_per_batch_at_least") or 1) / (gpus * share))
        rollouts = gpus * share * ((known.count("accumulation") or 1) if "accumulation" in known.keys else least)
        said = "gpus" in known.keys or "gpus_per_node" in known.keys
        return (
            rollouts * n
            if counted == "prompts" or (said and counted not in (None, "groups") and rollouts % n)
            else rollouts
        )
    return rollouts
