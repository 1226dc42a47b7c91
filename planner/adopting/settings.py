"""What a run was configured to do, by the keys of its trainer: n, B, rate, model, recipe, GPUs and their use."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from budgets.errors import InputError
from planner.adopting.configuration import Flat
from planner.logs.trainers import load_trainer

_NEEDED = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate", "model", "gpus")


@dataclass(frozen=True)
class Settings:
    """What a run was configured to do, as far as it is known."""

    rollouts_per_prompt: int | None = None
    prompts_per_batch: int | None = None
    learning_rate: float | None = None
    model: str | None = None
    recipe: str | None = None
    gpus: int | None = None
    seed: int | None = None
    response_tokens: int | None = None  # the most of a response
    validation_samples: int | None = None
    notes: tuple[str, ...] = ()

    def with_given(self, given: Mapping[str, Any]) -> "Settings":
        """Return the same with what the user says instead; None is nothing said."""
        known = {each.name for each in fields(self)}
        return replace(self, **{name: value for name, value in given.items() if name in known and value is not None})

    def missing(self) -> list[str]:
        """Return what must be known and is not, by the names of its flags."""
        return [f"--{name.replace('_', '-')}" for name in _NEEDED if getattr(self, name) is None]


@dataclass(frozen=True, slots=True)
class GpuSplit:
    """How a run's GPUs were used, as far as its settings say; all took turns where they say nothing."""

    generator_gpus: int | None = None  # None: all of them
    engine_gpus: int | None = None  # of one inference engine
    asynchronous: bool = False
    updates: int = 1  # of a batch

    def of(self, gpus: int) -> tuple[int, int, bool]:
        """Return how many of a run's GPUs generated, how many trained, and whether they are the same."""
        if self.generator_gpus is None or not 0 < self.generator_gpus < gpus:
            return gpus, gpus, True
        return self.generator_gpus, gpus - self.generator_gpus, False


@dataclass(frozen=True, slots=True)
class Known:
    """What a configuration says by our names."""

    values: Flat
    keys: dict[str, str]  # of the trainer, that said them
    assumed: Flat  # what the trainer takes where nothing is said


def settings_of(trainer: str | None, found: Flat, *, whole: bool = False) -> Settings:
    """Return what a configuration says, by the keys of its trainer, or by our own names for them.

    Of a whole configuration the trainer's own defaults are taken where it is silent; a log may show only a part.
    """
    known = known_of(trainer, found, whole=whole).values
    n = _count(known, "rollouts_per_prompt")
    notes: list[str] = []
    try:
        prompts = _prompts(known, n)
    except InputError as error:
        if not whole:
            raise
        prompts, notes = None, [str(error)]
    updates, of_update = _updates(known, n, prompts)
    rate = _number(known, "learning_rate")
    recipes = load_trainer(trainer).recipes if trainer is not None else {}  # the nearest by its names
    return Settings(
        rollouts_per_prompt=n,
        prompts_per_batch=prompts,
        learning_rate=rate if rate and rate > 0 else None,
        model=_named(known.get("model")),
        recipe=str(known["recipe"]) if isinstance(known.get("recipe"), str) else named_by(recipes, found),
        gpus=_gpus(known),
        seed=_count(known, "seed"),
        response_tokens=_count(known, "response_tokens") or _rest(known),
        validation_samples=_count(known, "validation_samples"),
        notes=(
            *notes,
            *(() if updates == 1 else (f"{updates} updates a batch ({of_update} of {prompts} prompts each)",)),
        ),
    )


def split_of(trainer: str | None, found: Flat, n: int | None, prompts: int | None, *, whole: bool = False) -> GpuSplit:
    """Return how a configuration uses the GPUs, and how often a batch, by the keys of its trainer."""
    known = known_of(trainer, found, whole=whole).values
    generators = _beside(known) or (None if _take_turns(known) else _on_nodes(known, "generator_"))
    return GpuSplit(
        generators or None,
        _count(known, "engine_gpus") or None,
        bool(known.get("asynchronous") and generators),
        _updates(known, n, prompts)[0],
    )


def known_of(trainer: str | None, found: Flat, *, whole: bool = False) -> Known:
    """Return what a configuration says by our names; what its trainer takes where it says nothing."""
    names = load_trainer(trainer) if trainer is not None else None
    patterns = names.keys if names else {}
    keys: dict[str, str] = {}
    engine = named_by(names.sharding if names else {}, found)
    for name in [*patterns, *(each.name for each in fields(Settings) if each.name not in ("notes", *patterns))]:
        # Of two ways to train, the keys of the one that is used.
        ways = sorted(patterns.get(name, ()), key=lambda key: ("megatron" in key) != (engine == "megatron"))
        if place := next((key for key in (name, *ways) if found.get(key) is not None), None):
            keys[name] = place
    defaults = {**names.defaults, **(names.assumed if whole else {})} if names and found else {}
    assumed = {name: value for name, value in defaults.items() if name not in keys}
    return Known(assumed | {name: found[key] for name, key in keys.items()}, keys, assumed)


def _prompts(known: Flat, n: int | None) -> int | None:
    """Return B, where it is given as such or follows from the rollouts of a batch."""
    given = _count(known, "prompts_per_batch")
    if given == 0:  # what is drawn between two synchronizations
        parts = [_count(known, name) or 0 for name in ("update_prompts", "drawn_updates", "synced_draws")]
        return math.prod(parts) or None
    if given is not None or n is None:
        return given
    rollouts = _count(known, "batch_rollouts")
    if rollouts is None and {"device_batch", "accumulation"} <= known.keys() and (gpus := _gpus(known)):
        rollouts = gpus * math.prod(_count(known, name) or 1 for name in ("device_batch", "accumulation"))
    if rollouts is None:
        return None
    if rollouts % n:
        raise InputError(
            f"{rollouts} rollouts a batch are no multiple of {n} rollouts per prompt: say what B is with "
            "--prompts-per-batch"
        )
    return rollouts // n


def _updates(known: Flat, n: int | None, prompts: int | None) -> tuple[int, int | None]:
    """Return how many updates are made of a batch, several being another recipe than one, and the prompts of each."""
    of_update = _count(known, "update_prompts")
    if of_update is None and n and (rollouts := _count(known, "update_rollouts")):
        of_update = max(1, rollouts // n)
    if of_update is None and prompts and (updates := _count(known, "batch_updates")):
        of_update = max(1, prompts // updates)
    return (max(1, math.ceil(prompts / of_update)) if prompts and of_update else 1), of_update


def _gpus(known: Flat) -> int | None:
    """Return the GPUs of a run: those that train and those beside them, once where they take turns."""
    training = _count(known, "train_gpus") if "train_gpus" in known and "nodes" not in known else _on_nodes(known, "")
    given = _count(known, "gpus")
    return given if given is not None or training is None else training + _beside(known)


def _beside(known: Flat) -> int:
    """Return the GPUs that only generate, beside those that train; none where all take turns."""
    if _take_turns(known):
        return 0
    engines = (_count(known, "engines") or 0) * (_count(known, "engine_gpus") or 1)
    several = "nodes" in known and "train_gpus" in known  # where whole nodes train, whole nodes generate
    if several or "infer_gpus" not in known or "infer_nodes" in known:
        return (_on_nodes(known, "infer_") if "infer_nodes" in known else 0) or (0 if several else engines)
    return _count(known, "infer_gpus") or engines


def _take_turns(known: Flat) -> bool:
    """Whether the same GPUs generate and train; where both go on at once, only what trains is colocated."""
    return bool(known.get("colocated")) and not known.get("asynchronous")


def _on_nodes(known: Flat, kind: str) -> int | None:
    """Return the GPUs of some nodes, one node where their number is not given."""
    per_node, nodes = _count(known, f"{kind}gpus_per_node"), _count(known, f"{kind}nodes")
    return None if per_node is None else per_node * (1 if nodes is None else nodes)


def named_by(names: Mapping[str, Mapping[str, Any]], found: Flat) -> str | None:
    """Return the first name any of whose keys has its value, or one of its values; None where none has."""
    texts = {key: str(value).casefold() for key, value in found.items()}
    return next(
        (
            name
            for name, any_of in names.items()
            for key, values in any_of.items()
            for value in (values if isinstance(values, list) else [values])
            if key in texts and fnmatchcase(texts[key], str(value).casefold())
        ),
        None,
    )


def _named(value: object) -> str | None:
    """Return the name of a model; a sentence is none, nor a variable that is not known, unless only its folder is."""
    name = str(value or "")
    return None if not name or " " in name or "$" in name.rstrip("/").rpartition("/")[2] else name


def _rest(known: Flat) -> int | None:
    """Return what the whole length leaves for the response."""
    total = _count(known, "total_tokens")
    return None if total is None else max(0, total - (_count(known, "prompt_tokens") or 0)) or total


def _count(known: Flat, name: str) -> int | None:
    """Return a whole number of at least 0; None where none is given."""
    value = _number(known, name)
    return int(value) if value is not None and value >= 0 else None


def _number(known: Flat, name: str) -> float | None:
    value = known.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None
