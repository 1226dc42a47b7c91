"""Which GPUs a configuration trains on, and which only generate: by number, by node, by device, by allocation."""

import math
import re

from planner.adopting.known import Known

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
