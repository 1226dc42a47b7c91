"""The facts of a run that its configuration holds: its GPUs and how they are split, its batches, its lengths."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from budgets.errors import InputError
from budgets.hardware import NODE_GPUS
from planner.logs.trainers import load_trainer, trainer_names
from planner.scripts.configuration import Flat
from planner.scripts.settings import SETTINGS, GpuSplit, Known, ScriptFacts, Settings, is_open, named_by

_PARALLEL = re.compile(r"(?<![A-Za-z])[dptc](\d+)")  # of AReaL: sglang.d4p1t2; experts (e) share the others' GPUs
_MOST = 2**20  # devices of a run
_RANGE = re.compile(r"range\((?:(\d+)\s*,)?\s*(\d+)\s*\)")


def gpus_of(known: Known) -> int | None:
    """Return the GPUs of a run: those that train and those beside them, once where they take turns."""
    given = known.count("gpus")
    if given is None and (trained := _devices(known, "train")):
        return len(trained | _devices(known, "infer"))
    if given is None and (parts := allocated(known.values.get("allocation"))):
        return sum(parts)
    training = known.count("train_gpus") if "train_gpus" in known and "nodes" not in known else on_nodes(known, "")
    if given is not None:  # by TRL's launcher those that train
        launched = known.keys.get("infer_gpus") == "served_gpus" and known.keys["gpus"] != "gpus"
        return given + (beside(known) if launched else 0)
    return None if training is None else training + beside(known)


def beside(known: Known) -> int:
    """Return the GPUs that only generate, beside those that train; none where all take turns."""
    if trained := _devices(known, "train"):
        return len(_devices(known, "infer") - trained)
    if len(parts := allocated(known.values.get("allocation"))) > 1:
        return parts[0]
    if take_turns(known):
        return 0
    engines = (known.count("engines") or 0) * (known.count("engine_gpus") or 1)
    several = "nodes" in known and "train_gpus" in known  # where whole nodes train, whole nodes generate
    if several or "infer_gpus" not in known or "infer_nodes" in known:
        return (on_nodes(known, "infer_") if "infer_nodes" in known else 0) or (0 if several else engines)
    return known.count("infer_gpus") or engines


def trained_on(known: Known) -> int:
    """Return the GPUs that train, where they are listed by device."""
    return len(_devices(known, "train"))


def take_turns(known: Known) -> bool:
    """Whether the same GPUs generate and train; where both go on at once, only what trains is colocated."""
    return bool(known.values.get("colocated")) and not known.values.get("asynchronous")


def on_nodes(known: Known, kind: str) -> int | None:
    """Return the GPUs of some nodes, one node where their number is not given."""
    per_node, nodes = known.count(f"{kind}gpus_per_node"), known.count(f"{kind}nodes")
    return None if per_node is None else per_node * (1 if nodes is None else nodes)


def allocated(text: object) -> list[int]:
    """Return the GPUs of the parts of `sglang.d96p1t1+d32p1t1`: generation, training; one part where they share."""
    attention = re.sub(r"\|\s*ffn:[^)]*", "", str(text))
    parts = [part for part in attention.split("+") if _PARALLEL.search(part)]
    return [max(math.prod(map(int, _PARALLEL.findall(way))) for way in part.split("|")) for part in parts]


def _devices(known: Known, kind: str) -> set[object]:
    """Return the devices of `list(range(0, 16))`, of a list of their numbers, or of a part of an allocation."""
    value = known.values.get(f"{kind}_devices")
    if isinstance(value, list):
        return {device for device in value if isinstance(device, int)}
    if parts := allocated(value):
        return {(kind, device) for device in range(min(parts[0], _MOST))}
    ranges = [range(int(first or 0), min(int(end), _MOST)) for first, end in _RANGE.findall(str(value))]
    return {device for devices in ranges for device in devices}


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


_FURTHER = (  # what is passed on beyond Settings, as it is written
    *("prompt_tokens", "update_steps", "epochs", "lora_rank", "train_tensor_parallel", "train_pipeline_parallel"),
    *("engine_memory_share", "micro_batch_tokens", "micro_batch_sequences", "validation_problems", "dataset_problems"),
    *("keep_checkpoints", "schedule_steps", "warmup_steps", "clip_low", "clip_high", "staleness", "kl", "dataset"),
    *("validation_every", "save_every", "device_batch", "device_validation"),
    *("max_pixels", "min_pixels", "turns", "turn_tokens", "tool_tokens", "tool_seconds"),
)
_TRUTHS = (
    *("activation_checkpointing", "optimizer_offload", "parameter_offload", "filter_groups", "resume"),
    *("validation_data", "save_async"),
)
_SWITCHED = (  # a key that is off, what it turns off, and the value of that then
    *(("lora_on", "lora_rank", None), ("save_on", "save_every", 0)),
    *(("validation_on", "validation_every", 0), ("kl_on", "kl", 0.0)),
)
_SIZES = {"n": "rollouts_per_prompt", "B": "prompts_per_batch"}
_PRECISIONS = {"bf16": "bf16", "bfloat16": "bf16", "fp8": "fp8", "e4m3": "fp8", "16": "fp16", "32": "fp32"}
_SCHEDULES = ("cosine", "linear", "wsd", "constant", "polynomial")
_DECISIVE = (  # where a variable that nobody sets is to be told of
    *("rollouts_per_prompt", "prompts_per_batch", "batch_rollouts", "device_batch", "learning_rate", "model", "gpus"),
    *("nodes", "gpus_per_node", "train_gpus", "infer_gpus", "response_tokens", "update_steps", "epochs"),
)
_PLACES = {  # other names by which one of ours may be said
    "gpus": ("allocation", "train_devices", "train_gpus", "gpus_per_node"),
    "prompts_per_batch": ("batch_rollouts", "device_batch"),
    "response_tokens": ("total_tokens",),
    "sharding": ("zero_stage",),
    "engine_tensor_parallel": ("engine_gpus",),
    "warmup_steps": ("warmup_share",),
    "updates_per_batch": ("update_prompts", "update_rollouts", "batch_updates", "inner_epochs"),
}


def facts_of(
    trainer: str | None,
    found: Flat,
    given: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    *,
    whole: bool = False,
    words: Sequence[str] = (),
) -> ScriptFacts:
    """Return what a configuration says, by the keys of its trainer; what is `given` by our own names wins.

    Of a whole configuration the trainer's own defaults are taken where it is silent; a log may show only a part.
    The `words` of a command say which fork of the trainer it starts.
    """
    said = {**found, **_without_none(given or {})}
    names = load_trainer(trainer).as_forked(words, said) if trainer is not None else None
    unseen = False
    if names is not None and not words and "num_processes" in names.keys.get("gpus", ()):
        unseen = True
        names = replace(names, assumed={**names.assumed, "gpus_per_node": NODE_GPUS})  # a launcher that is not seen has
    known = Known(names, said, given or {}, whole=whole, silent=not found)
    settings, split = _settings(known, whole=whole)
    values = _further(known, split, settings.prompts_per_batch)
    present = _without_none({name: getattr(settings, name) for name in SETTINGS} | values)
    keys = {name: known.keys[place] for name in present if (place := _place(name, known.keys))}
    assumed = {name: value for name, value in present.items() if name not in keys and _place(name, known.assumed)}
    unsure = names.doubts if names and "served_gpus" not in said else {}
    doubts = [text for text, when in unsure.items() if named_by({text: when}, said)]
    if whole and unseen and assumed.pop("gpus", None):
        doubts.append(f"no launcher says how many GPUs: {NODE_GPUS} were taken, and B follows from them (--gpus)")
    trainers = split.of(settings.gpus or 1)[1]
    shares = math.prod(known.count(name) or 1 for name in ("device_batch", "accumulation")) * trainers
    if known.values.get("share_of") == "unsure" and shares % (settings.rollouts_per_prompt or 1) == 0:
        doubts.append(
            f"B is {shares:,} if a GPU's share is counted in prompts, as before TRL 0.15 (--prompts-per-batch)"
        )
    if values.get("save_async") and values.get("sharding") != "megatron":
        doubts.append(f"{keys['save_async']} is for Megatron alone: no restart finds what is saved otherwise")
    open_ = [f"{key}={said[key]}" for name, key in known.keys.items() if name in _DECISIVE and known.left_open(name)]
    return ScriptFacts(trainer, settings, split, values, keys, assumed, (*notes, *open_, *doubts), names)


def of_columns(trainer: str | None, columns: Mapping[str, Any], found: Flat) -> tuple[str | None, Flat]:
    """Return what a run's files and the columns of its table say by its trainer's keys; files win.

    The trainer of a log that tells none is the one whose keys say n, most of all keys where several do. A column may
    be called by the last part of a key for n or B, and both by these letters.
    """

    def named(name: str) -> Flat:
        keys = load_trainer(name).keys
        ends = {key.rpartition(".")[2]: key for ours in _SIZES.values() for key in reversed(keys.get(ours, ()))}
        said = {ends.get(column, column): value for column, value in columns.items()}
        known = {*SETTINGS, *(key for several in keys.values() for key in several)}
        return {key: value for key, value in said.items() if key in known} | found

    if trainer is None:
        counts = dict[str, int]()
        for name in trainer_names():
            keys, said = load_trainer(name).keys, named(name)
            if any(key in said for key in keys.get(_SIZES["n"], ())):
                counts[name] = sum(any(key in said for key in several) for several in keys.values())
        trainer = max(counts, key=lambda name: counts[name], default=None)
    letters = {ours: columns[letter] for letter, ours in _SIZES.items() if _SIZES.keys() <= columns.keys()}
    own = {name: columns[name] for name in SETTINGS if name in columns} | found
    return trainer, letters | (named(trainer) if trainer else own)


def _settings(known: Known, *, whole: bool) -> tuple[Settings, GpuSplit]:
    n, notes = known.count("rollouts_per_prompt"), list[str]()
    prompts = _prompts(known, n, whole=whole)
    prompts_of_update, updates = of_update(known, n, prompts)
    if updates > 1:
        notes.append(f"{updates} updates a batch ({prompts_of_update} of {prompts} prompts each)")
    recipe, model = known.values.get("recipe"), str(known.values.get("model") or "")
    total = known.count("total_tokens")  # what it leaves beside the prompt is the response's
    rest = None if total is None else max(0, total - (known.count("prompt_tokens") or 0)) or total
    response = known.count("response_tokens") or rest
    if (turns := known.count("turns") or 1) > 1 and (of_turn := known.count("turn_tokens")):  # of all turns
        response = min(turns * of_turn, rest or turns * of_turn)
    settings = Settings(
        rollouts_per_prompt=n,
        prompts_per_batch=prompts,
        learning_rate=known.number("learning_rate") or None,
        # A sentence is no name of a model.
        model=None if not model or " " in model or is_open(model) else model,
        recipe=recipe if isinstance(recipe, str) else known.recipe,
        gpus=gpus_of(known),
        seed=known.count("seed"),
        response_tokens=response,
        validation_samples=known.count("validation_samples"),
        notes=tuple(notes),
    )
    generators = beside(known) or (None if take_turns(known) else on_nodes(known, "generator_")) or None
    alone = bool(known.values.get("asynchronous") and generators)
    return settings, GpuSplit(generators, known.count("engine_gpus") or None, alone, updates)


def _prompts(known: Known, n: int | None, *, whole: bool) -> int | None:
    """Return B, where it is given as such or follows from the rollouts of a batch; of a whole script rounded down."""
    given = known.count("prompts_per_batch")
    if given == 0:  # what is drawn between two synchronizations
        parts = [known.count(name) or 0 for name in ("update_prompts", "drawn_updates", "synced_draws")]
        return math.prod(parts) or None
    if given is not None or not n:
        return given
    rollouts = batch_rollouts(known)
    if rollouts is None:
        return None
    if rollouts % n and not whole:
        raise InputError(
            f"{rollouts} rollouts a batch are no multiple of {n} rollouts per prompt: say what B is with "
            "--prompts-per-batch"
        )
    said = "gpus" in known.keys or "gpus_per_node" in known.keys  # else they may be more than are taken by default
    return None if rollouts % n and not said else max(1, rollouts // n)


def _further(known: Known, split: GpuSplit, prompts: int | None) -> Flat:
    """Return what is said beyond a run's settings: lengths, epochs, memory, validation, checkpoints, schedule."""
    found: Flat = {name: known.plain(name) for name in _FURTHER}
    found |= {name: known.holds(name) for name in _TRUTHS if name in known}
    if "prompts_per_batch" not in known:
        found["batch_rollouts"] = batch_rollouts(known)
    rollouts_of_update = (known.count("update_prompts") or 0) * (known.count("rollouts_per_prompt") or 0)
    found["update_rollouts"] = rollouts_of_update or known.count("update_rollouts")
    found["updates_per_batch"] = split.updates * (known.count("inner_epochs") or 1)
    found["no_thinking"] = "no_thinking" in known.keys or None
    alone = (found["turns"] or 1) == 1 and known.keys.get("turn_tokens") == known.keys.get("response_tokens")
    if alone or (known.count("turn_tokens") or 0) >= (known.count("total_tokens") or math.inf):  # which bounds less
        found["turn_tokens"] = None
    total, n = known.count("total_prompts"), known.count("rollouts_per_prompt")
    if total is None and (rollouts := known.count("total_rollouts")):
        total = rollouts // (n or 1)
    if found["update_steps"] is None and total and prompts:
        found["update_steps"] = total // prompts
    tensor = "engine_tensor_parallel" if "engine_tensor_parallel" in known else "engine_gpus"
    found["engine_tensor_parallel"] = known.plain(tensor) or None
    precision = known.values.get("precision")
    text = "bf16" if precision is True else str(precision).casefold()
    found["precision"] = (
        None if precision is None else next((p for name, p in _PRECISIONS.items() if name in text), text)
    )
    if known.holds("fp8_on"):
        found["precision"] = "fp8"
    if "fp8" in str(known.values.get("rollout_precision")).casefold():
        found["rollout_precision"] = "fp8"
    schedule = str(known.values.get("lr_schedule") or "").casefold()
    found["lr_schedule"] = next((name for name in _SCHEDULES if name in schedule), schedule) or None
    stage = known.count("zero_stage")
    by_stage = None if stage is None else f"zero{stage}" if stage else "ddp"
    found["sharding"] = known.sharding or by_stage or known.values.get("sharding")
    for switch, name, value in _SWITCHED:
        if known.off(switch):
            found[name] = value
    if known.holds("kl_off"):
        found["kl"] = 0.0
    if "dynamic_batches" in known:  # one of two ways
        found["micro_batch_sequences" if known.holds("dynamic_batches") else "micro_batch_tokens"] = None
    share = known.number("warmup_share")
    if found["warmup_steps"] is None and share is not None and (share == 0 or found["update_steps"]):
        found["warmup_steps"] = round(share * (found["update_steps"] or 0))
    return _without_none(found)


def _without_none(values: Mapping[str, Any]) -> Flat:
    return {name: value for name, value in values.items() if value is not None}


def _place(name: str, among: Mapping[str, Any]) -> str | None:
    return next((each for each in (name, *_PLACES.get(name, ())) if each in among), None)
