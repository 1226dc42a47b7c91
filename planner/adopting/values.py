"""What a configuration says beyond a run's settings: lengths, epochs, memory, validation, checkpoints, schedule."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from planner.adopting.configuration import Flat
from planner.adopting.settings import GpuSplit, Known, Settings, known_of, named_by
from planner.logs.trainers import load_trainer

_AS_WRITTEN = (
    *("prompt_tokens", "update_steps", "epochs", "lora_rank", "train_tensor_parallel", "train_pipeline_parallel"),
    *("engine_memory_share", "micro_batch_tokens", "micro_batch_sequences", "validation_problems", "dataset_problems"),
    *("keep_checkpoints", "schedule_steps", "warmup_steps", "clip_low", "clip_high", "staleness", "kl", "dataset"),
    *("validation_every", "save_every"),
)
_TRUTHS = ("activation_checkpointing", "optimizer_offload", "parameter_offload", "filter_groups", "resume")
_NONE = ("", "none", "null", "false", "disable", "no", "off")
_PRECISIONS = {"bf16": "bf16", "bfloat16": "bf16", "fp8": "fp8", "e4m3": "fp8", "16": "fp16", "32": "fp32"}
_SCHEDULES = ("cosine", "linear", "wsd", "constant", "polynomial")
_NEEDED = (
    *("rollouts_per_prompt", "prompts_per_batch", "batch_rollouts", "device_batch", "learning_rate", "model", "gpus"),
    *("nodes", "gpus_per_node", "train_gpus", "infer_gpus", "response_tokens", "update_steps", "epochs"),
)
_PLACES = {  # other names by which one of ours may be said
    "gpus": ("train_gpus", "gpus_per_node"),
    "prompts_per_batch": ("batch_rollouts", "device_batch"),
    "response_tokens": ("total_tokens",),
    "sharding": ("zero_stage",),
    "engine_tensor_parallel": ("engine_gpus",),
    "warmup_steps": ("warmup_share",),
    "updates_per_batch": ("update_prompts", "update_rollouts", "batch_updates", "inner_epochs"),
}


def values_of(
    trainer: str | None, found: Flat, settings: Settings, split: GpuSplit
) -> tuple[dict[str, Any], dict[str, str], dict[str, Any], list[str]]:
    """Return the values by our names, the trainer's keys that said them, what was assumed, and what stayed open."""
    known = known_of(trainer, found, whole=True)
    values: Flat = {name: _plain(name, known.values.get(name)) for name in _AS_WRITTEN}
    values |= {name: _truth(known.values[name]) for name in _TRUTHS if name in known.values}
    values |= _derived(known.values, values, split, settings.prompts_per_batch)
    sharding = named_by(load_trainer(trainer).sharding if trainer else {}, found)
    values["sharding"] = sharding or values.get("sharding") or known.values.get("sharding")
    values = _drop_none(values)
    present = _drop_none({each.name: getattr(settings, each.name) for each in fields(Settings)}) | values
    keys = {name: key for name in present if (key := _place(name, known))}
    assumed = {name: value for name, value in present.items() if name not in keys and _default(name, known)}
    open_ = [f"{key}={found[key]}" for name, key in known.keys.items() if name in _NEEDED and _is_open(found[key])]
    return values, keys, assumed, open_


def _drop_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _is_open(value: object) -> bool:
    """Whether a value hangs on a variable that is not set, or on what would be run; of a path only its name counts."""
    return isinstance(value, str) and "$" in value.rstrip("/").rpartition("/")[2]


def _derived(known: Flat, values: Mapping[str, Any], split: GpuSplit, prompts: int | None) -> Flat:
    """Return what follows from several keys."""
    found: Flat = {"updates_per_batch": split.updates * (_plain("inner_epochs", known.get("inner_epochs")) or 1)}
    if values.get("update_steps") is None and (total := _plain("", known.get("total_prompts"))) and prompts:
        found["update_steps"] = total // prompts
    if tensor := _plain("", known.get("engine_tensor_parallel", known.get("engine_gpus"))):
        found["engine_tensor_parallel"] = tensor
    if (precision := known.get("precision")) is not None:
        text = "bf16" if precision is True else str(precision).casefold()
        found["precision"] = next((ours for name, ours in _PRECISIONS.items() if name in text), text)
    if _truth(known.get("fp8_on")):
        found["precision"] = "fp8"
    if "fp8" in str(known.get("rollout_precision")).casefold():
        found["rollout_precision"] = "fp8"
    if (schedule := known.get("lr_schedule")) is not None:
        text = str(schedule).casefold()
        found["lr_schedule"] = next((name for name in _SCHEDULES if name in text), text)
    if "lora_on" in known and not _truth(known["lora_on"]):
        found["lora_rank"] = None
    if (stage := _plain("", known.get("zero_stage"))) is not None:
        found["sharding"] = f"zero{stage}" if stage > 1 else "ddp"
    if "save_on" in known and not _truth(known["save_on"]):
        found["save_every"] = 0
    if "kl_on" in known and not _truth(known["kl_on"]):
        found["kl"] = 0.0
    if "dynamic_batches" in known:  # one of two ways
        found["micro_batch_sequences" if _truth(known["dynamic_batches"]) else "micro_batch_tokens"] = None
    share, steps = _plain("", known.get("warmup_share")), values.get("update_steps")
    if values.get("warmup_steps") is None and isinstance(share, int | float) and (share == 0 or steps):
        found["warmup_steps"] = round(share * (steps or 0))
    return found


def _plain(name: str, value: object) -> Any:
    """Return what is written; a negative number says that something never is, or that it was left open."""
    if name == "dataset":  # a path in a folder that is not known, or several
        return value
    if isinstance(value, list):
        return _plain(name, value[-1 if name == "clip_high" else 0]) if value else None
    if isinstance(value, bool) or (isinstance(value, str) and ("$" in value or not value)):
        return None
    if isinstance(value, int | float) and value < 0:
        return 0 if name.endswith("_every") else None
    return value


def _truth(value: object) -> bool:
    return bool(value) and str(value).casefold() not in _NONE


def _place(name: str, known: Known) -> str | None:
    return next((known.keys[each] for each in (name, *_PLACES.get(name, ())) if each in known.keys), None)


def _default(name: str, known: Known) -> bool:
    return any(each in known.assumed for each in (name, *_PLACES.get(name, ())))
