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


def gpus_of(configuration: Known) -> int | None:
    """Return the GPUs of a run: those that train and those beside them, once where they take turns."""
    gpus = configuration.count("gpus")
    if gpus is None and (trained := _devices(configuration, "train")):
        return len(trained | _devices(configuration, "infer"))
    if gpus is None and (parts := allocated(configuration.values.get("allocation"))):
        return sum(parts)
    training = (
        configuration.count("train_gpus")
        if "train_gpus" in configuration and "nodes" not in configuration
        else on_nodes(configuration, "")
    )
    if gpus is not None:  # by TRL's launcher those that train
        launched = configuration.keys.get("infer_gpus") == "served_gpus" and configuration.keys["gpus"] != "gpus"
        return gpus + (beside(configuration) if launched else 0)
    return None if training is None else training + beside(configuration)


def beside(configuration: Known) -> int:
    """Return the GPUs that only generate, beside those that train; none where all take turns."""
    if trained := _devices(configuration, "train"):
        return len(_devices(configuration, "infer") - trained)
    if len(parts := allocated(configuration.values.get("allocation"))) > 1:
        return parts[0]
    if take_turns(configuration):
        return 0
    engines = (configuration.count("engines") or 0) * (configuration.count("engine_gpus") or 1)
    several = (
        "nodes" in configuration and "train_gpus" in configuration
    )  # where whole nodes train, whole nodes generate
    if several or "infer_gpus" not in configuration or "infer_nodes" in configuration:
        return (on_nodes(configuration, "infer_") if "infer_nodes" in configuration else 0) or (
            0 if several else engines
        )
    return configuration.count("infer_gpus") or engines


def trained_on(configuration: Known) -> int:
    """Return the GPUs that train, where they are listed by device."""
    return len(_devices(configuration, "train"))


def take_turns(configuration: Known) -> bool:
    """Whether the same GPUs generate and train; where both go on at once, only what trains is colocated."""
    return bool(configuration.values.get("colocated")) and not configuration.values.get("asynchronous")


def on_nodes(configuration: Known, kind: str) -> int | None:
    """Return the GPUs of some nodes, one node where their number is not given."""
    per_node, nodes = configuration.count(f"{kind}gpus_per_node"), configuration.count(f"{kind}nodes")
    return None if per_node is None else per_node * (1 if nodes is None else nodes)


def allocated(text: object) -> list[int]:
    """Return the GPUs of the parts of `sglang.d96p1t1+d32p1t1`: generation, training; one part where they share."""
    attention = re.sub(r"\|\s*ffn:[^)]*", "", str(text))
    parts = [part for part in attention.split("+") if _PARALLEL.search(part)]
    return [max(math.prod(map(int, _PARALLEL.findall(way))) for way in part.split("|")) for part in parts]


def _devices(configuration: Known, kind: str) -> set[object]:
    """Return the devices of `list(range(0, 16))`, of a list of their numbers, or of a part of an allocation."""
    value = configuration.values.get(f"{kind}_devices")
    if isinstance(value, list):
        return {device for device in value if isinstance(device, int)}
    if parts := allocated(value):
        return {(kind, device) for device in range(min(parts[0], _MOST))}
    ranges = [range(int(first or 0), min(int(end), _MOST)) for first, end in _RANGE.findall(str(value))]
    return {device for devices in ranges for device in devices}


def of_update(configuration: Known, n: int | None, prompts: int | None) -> tuple[int | None, int]:
    """Return the prompts of an update, and how many updates a batch of so many prompts makes."""
    size = configuration.count("update_prompts")  # several updates of a batch are another recipe than one
    rollouts = None if size is not None else configuration.count("update_rollouts")
    if size is None and n and rollouts:
        size = max(1, rollouts // n)
    if size is None and n and "train_devices" in configuration and "device_batch" in configuration:
        width = math.prod(configuration.count(f"train_{kind}_parallel") or 1 for kind in ("tensor", "pipeline"))
        share = math.prod(configuration.count(name) or 1 for name in ("device_batch", "accumulation"))
        size = max(1, trained_on(configuration) // width * share // n)
    if size is None and prompts and (updates := configuration.count("batch_updates")):
        size = max(1, prompts // updates)
    if n and prompts and rollouts:
        return size, max(1, math.ceil(n * prompts / rollouts))
    return size, max(1, math.ceil(prompts / size)) if prompts and size else 1


def batch_rollouts(configuration: Known) -> int | None:
    """Return the rollouts of a batch, where they are given as such or by device.

    A device's share are prompts before TRL 0.15, whose later ones refuse rollouts that are no multiple of a group;
    Unsloth raises what is no multiple of a group to one group.
    """
    rollouts, n = configuration.count("batch_rollouts"), configuration.count("rollouts_per_prompt") or 1
    if (
        rollouts is None
        and "device_batch" not in configuration
        and (of_update := configuration.count("update_rollouts"))
    ):
        return of_update * (configuration.count("batch_updates") or 1)
    gpus = (gpus_of(configuration) or 0) - beside(configuration)
    if rollouts is None and "device_batch" in configuration and "accumulation" in configuration and gpus > 0:
        share, counted = configuration.count("device_batch") or 1, configuration.values.get("share_of")
        share = n if counted == "groups" and share % n else share
        least = math.ceil((configuration.count("rollouts_per_batch_at_least") or 1) / (gpus * share))
        rollouts = (
            gpus
            * share
            * ((configuration.count("accumulation") or 1) if "accumulation" in configuration.keys else least)
        )
        has_gpus = "gpus" in configuration.keys or "gpus_per_node" in configuration.keys
        return (
            rollouts * n
            if counted == "prompts" or (has_gpus and counted not in (None, "groups") and rollouts % n)
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
    read: Flat,
    flags: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    *,
    whole: bool = False,
    words: Sequence[str] = (),
) -> ScriptFacts:
    """Return what a configuration says, by the keys of its trainer; what is `given` by our own names wins.

    Of a whole configuration the trainer's own defaults are taken where it is silent; a log may show only a part.
    The `words` of a command say which fork of the trainer it starts.
    """
    stated = {**read, **_without_none(flags or {})}
    names = load_trainer(trainer).as_forked(words, stated) if trainer is not None else None
    unseen = False
    if names is not None and not words and "num_processes" in names.keys.get("gpus", ()):
        unseen = True
        names = replace(names, assumed={**names.assumed, "gpus_per_node": NODE_GPUS})  # a launcher that is not seen has
    configuration = Known(names, stated, flags or {}, whole=whole, silent=not read)
    settings, split = _settings(configuration, whole=whole)
    values = _further(configuration, split, settings.prompts_per_batch)
    present = _without_none({name: getattr(settings, name) for name in SETTINGS} | values)
    keys = {name: configuration.keys[place] for name in present if (place := _place(name, configuration.keys))}
    assumed = {
        name: value for name, value in present.items() if name not in keys and _place(name, configuration.assumed)
    }
    unsure = names.doubts if names and "served_gpus" not in stated else {}
    doubts = [text for text, when in unsure.items() if named_by({text: when}, stated)]
    if whole and unseen and assumed.pop("gpus", None):
        doubts.append(f"no launcher says how many GPUs: {NODE_GPUS} were taken, and B follows from them (--gpus)")
    trainers = split.of(settings.gpus or 1)[1]
    shares = math.prod(configuration.count(name) or 1 for name in ("device_batch", "accumulation")) * trainers
    if configuration.values.get("share_of") == "unsure" and shares % (settings.rollouts_per_prompt or 1) == 0:
        doubts.append(
            f"B is {shares:,} if a GPU's share is counted in prompts, as before TRL 0.15 (--prompts-per-batch)"
        )
    if values.get("save_async") and values.get("sharding") != "megatron":
        doubts.append(f"{keys['save_async']} is for Megatron alone: no restart finds what is saved otherwise")
    open_ = [
        f"{key}={stated[key]}"
        for name, key in configuration.keys.items()
        if name in _DECISIVE and configuration.left_open(name)
    ]
    return ScriptFacts(trainer, settings, split, values, keys, assumed, (*notes, *open_, *doubts), names)


def of_columns(trainer: str | None, columns: Mapping[str, Any], settings: Flat) -> tuple[str | None, Flat]:
    """Return what a run's files and the columns of its table say by its trainer's keys; files win.

    The trainer of a log that tells none is the one whose keys say n, most of all keys where several do. A column may
    be called by the last part of a key for n or B, and both by these letters.
    """

    def named(name: str) -> Flat:
        keys = load_trainer(name).keys
        ends = {key.rpartition(".")[2]: key for ours in _SIZES.values() for key in reversed(keys.get(ours, ()))}
        renamed = {ends.get(column, column): value for column, value in columns.items()}
        our_keys = {*SETTINGS, *(key for several in keys.values() for key in several)}
        return {key: value for key, value in renamed.items() if key in our_keys} | settings

    if trainer is None:
        counts = dict[str, int]()
        for name in trainer_names():
            keys, said = load_trainer(name).keys, named(name)
            if any(key in said for key in keys.get(_SIZES["n"], ())):
                counts[name] = sum(any(key in said for key in several) for several in keys.values())
        trainer = max(counts, key=lambda name: counts[name], default=None)
    letters = {ours: columns[letter] for letter, ours in _SIZES.items() if _SIZES.keys() <= columns.keys()}
    own = {name: columns[name] for name in SETTINGS if name in columns} | settings
    return trainer, letters | (named(trainer) if trainer else own)


def _settings(configuration: Known, *, whole: bool) -> tuple[Settings, GpuSplit]:
    n, notes = configuration.count("rollouts_per_prompt"), list[str]()
    prompts = _prompts(configuration, n, whole=whole)
    prompts_of_update, updates = of_update(configuration, n, prompts)
    if updates > 1:
        notes.append(f"{updates} updates a batch ({prompts_of_update} of {prompts} prompts each)")
    recipe, model = configuration.values.get("recipe"), str(configuration.values.get("model") or "")
    total = configuration.count("total_tokens")  # what it leaves beside the prompt is the response's
    rest = None if total is None else max(0, total - (configuration.count("prompt_tokens") or 0)) or total
    response = configuration.count("response_tokens") or rest
    if (turns := configuration.count("turns") or 1) > 1 and (
        of_turn := configuration.count("turn_tokens")
    ):  # of all turns
        response = min(turns * of_turn, rest or turns * of_turn)
    settings = Settings(
        rollouts_per_prompt=n,
        prompts_per_batch=prompts,
        learning_rate=configuration.number("learning_rate") or None,
        # A sentence is no name of a model.
        model=None if not model or " " in model or is_open(model) else model,
        recipe=recipe if isinstance(recipe, str) else configuration.recipe,
        gpus=gpus_of(configuration),
        seed=configuration.count("seed"),
        response_tokens=response,
        validation_samples=configuration.count("validation_samples"),
        notes=tuple(notes),
    )
    generators = (
        beside(configuration) or (None if take_turns(configuration) else on_nodes(configuration, "generator_")) or None
    )
    alone = bool(configuration.values.get("asynchronous") and generators)
    return settings, GpuSplit(generators, configuration.count("engine_gpus") or None, alone, updates)


def _prompts(configuration: Known, n: int | None, *, whole: bool) -> int | None:
    """Return B, where it is given as such or follows from the rollouts of a batch; of a whole script rounded down."""
    prompts = configuration.count("prompts_per_batch")
    if prompts == 0:  # what is drawn between two synchronizations
        parts = [configuration.count(name) or 0 for name in ("update_prompts", "drawn_updates", "synced_draws")]
        return math.prod(parts) or None
    if prompts is not None or not n:
        return prompts
    rollouts = batch_rollouts(configuration)
    if rollouts is None:
        return None
    if rollouts % n and not whole:
        raise InputError(
            f"{rollouts} rollouts a batch are no multiple of {n} rollouts per prompt: say what B is with "
            "--prompts-per-batch"
        )
    has_gpus = (
        "gpus" in configuration.keys or "gpus_per_node" in configuration.keys
    )  # else they may be more than are taken by default
    return None if rollouts % n and not has_gpus else max(1, rollouts // n)


def _further(configuration: Known, split: GpuSplit, prompts: int | None) -> Flat:
    """Return what is said beyond a run's settings: lengths, epochs, memory, validation, checkpoints, schedule."""
    further: Flat = {name: configuration.plain(name) for name in _FURTHER}
    further |= {name: configuration.holds(name) for name in _TRUTHS if name in configuration}
    if "prompts_per_batch" not in configuration:
        further["batch_rollouts"] = batch_rollouts(configuration)
    rollouts_of_update = (configuration.count("update_prompts") or 0) * (
        configuration.count("rollouts_per_prompt") or 0
    )
    further["update_rollouts"] = rollouts_of_update or configuration.count("update_rollouts")
    further["updates_per_batch"] = split.updates * (configuration.count("inner_epochs") or 1)
    further["no_thinking"] = "no_thinking" in configuration.keys or None
    alone = (further["turns"] or 1) == 1 and configuration.keys.get("turn_tokens") == configuration.keys.get(
        "response_tokens"
    )
    if alone or (configuration.count("turn_tokens") or 0) >= (
        configuration.count("total_tokens") or math.inf
    ):  # which bounds less
        further["turn_tokens"] = None
    total, n = configuration.count("total_prompts"), configuration.count("rollouts_per_prompt")
    if total is None and (rollouts := configuration.count("total_rollouts")):
        total = rollouts // (n or 1)
    if further["update_steps"] is None and total and prompts:
        further["update_steps"] = total // prompts
    tensor = "engine_tensor_parallel" if "engine_tensor_parallel" in configuration else "engine_gpus"
    further["engine_tensor_parallel"] = configuration.plain(tensor) or None
    precision = configuration.values.get("precision")
    text = "bf16" if precision is True else str(precision).casefold()
    further["precision"] = (
        None if precision is None else next((p for name, p in _PRECISIONS.items() if name in text), text)
    )
    if configuration.holds("fp8_on"):
        further["precision"] = "fp8"
    if "fp8" in str(configuration.values.get("rollout_precision")).casefold():
        further["rollout_precision"] = "fp8"
    schedule = str(configuration.values.get("lr_schedule") or "").casefold()
    further["lr_schedule"] = next((name for name in _SCHEDULES if name in schedule), schedule) or None
    stage = configuration.count("zero_stage")
    by_stage = None if stage is None else f"zero{stage}" if stage else "ddp"
    further["sharding"] = configuration.sharding or by_stage or configuration.values.get("sharding")
    for switch, name, value in _SWITCHED:
        if configuration.off(switch):
            further[name] = value
    if configuration.holds("kl_off"):
        further["kl"] = 0.0
    if "dynamic_batches" in configuration:  # one of two ways
        further["micro_batch_sequences" if configuration.holds("dynamic_batches") else "micro_batch_tokens"] = None
    share = configuration.number("warmup_share")
    if further["warmup_steps"] is None and share is not None and (share == 0 or further["update_steps"]):
        further["warmup_steps"] = round(share * (further["update_steps"] or 0))
    return _without_none(further)


def _without_none(values: Mapping[str, Any]) -> Flat:
    return {name: value for name, value in values.items() if value is not None}


def _place(name: str, among: Mapping[str, Any]) -> str | None:
    return next((key for key in (name, *_PLACES.get(name, ())) if key in among), None)
