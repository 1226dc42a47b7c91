"""What a script that starts a trainer already says of a plan, by key of the configuration: flags win over it."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from budgets import catalogue
from budgets.errors import InputError, NotFoundError, UnknownNameError
from planner.config.request import SCRIPT
from planner.scripts.launch import MEAN_PROMPT, configured
from planner.scripts.script import read_script
from planner.scripts.settings import ScriptFacts
from runner.tasks.task_loader import SUFFIXES
from runner.tasks.tokenizers import is_hub_name

Overrides = dict[str, tuple[str, Any]]  # by key of the configuration: who says it, and what

CAP = "workload.response_tokens"


def facts_of(files: list[Path], flags: Mapping[str, Any] | None = None) -> ScriptFacts:
    """Read a script, or several files that belong together; NotFoundError names one that is not there."""
    if missing := next((path for path in files if not path.is_file()), None):
        raise NotFoundError(f"there is no file {missing}: give a script, or a file of settings, that starts a trainer")
    return read_script(files, dict(flags or {}))


def known_name(model: str) -> str:
    """Return the name of a model whose shape is known, without a folder that is not here."""
    named = catalogue.model_named(model)
    return model if named == model or is_hub_name(model) else model.rstrip("/").rpartition("/")[2]


def name_in(named: str, file: Path) -> str:
    """Return the name of a script's model; InputError where no shape is known for it."""
    try:
        return known_name(named)
    except UnknownNameError:
        raise InputError(
            f"{file} trains {named}, whose shape is not known: give --model NAME, one of its size, a folder with its "
            "config.json, or the --task that it is trained on"
        ) from None


def model_of(facts: ScriptFacts, file: str | Path) -> str:
    """Return the model that a script names, or say what it has in its place."""
    if not facts.settings.model:
        left_open = next((f" ({line} is set by nobody)" for line in facts.unresolved if "model" in line), "")
        raise InputError(f"{file} names no model{left_open}: give --model NAME, or a folder with its config.json")
    return facts.settings.model


def overrides_of(facts: ScriptFacts, model: str, cap: tuple[str, Any] | None = None) -> Overrides:
    """Return what a script says; `cap` is what somebody else says of the longest response."""
    overrides = configured(facts, model)
    source, most = cap or overrides.get(CAP) or ("", 0)
    shape = catalogue.model(model)
    if most + MEAN_PROMPT > shape.context:  # the script's is a variant for longer sequences
        longer = asdict(replace(shape, context=most + MEAN_PROMPT))
        overrides[f"models.{shape.name}"] = (source, {name: value for name, value in longer.items() if name != "name"})
    return overrides


def trained_on(script: Path) -> dict[str, str]:
    """Return the trainer of a script, and the model and the problems that it names, where they can be loaded here."""
    facts = facts_of([script])
    model, dataset = facts.settings.model or "", facts.values.get("dataset")
    name = str(dataset[0] if isinstance(dataset, list) and len(dataset) == 1 else dataset or "")
    file = next((path_here for path_here in (Path(name), script.parent / name) if name and path_here.is_file()), None)
    of_hub = is_hub_name(name) and Path(name).suffix not in SUFFIXES
    values = {
        "trainer": facts.trainer if facts.trainer == facts.maker else None,
        "model": model if is_hub_name(model) or (model and Path(model).is_dir()) else None,
        "problems": str(file) if file else name if of_hub else None,
    }
    return {key: value for key, value in values.items() if value}


def with_script(
    flags: Mapping[str, tuple[str, Any]], script: str | Path | None, *, task: str | None = None
) -> Mapping[str, tuple[str, Any]]:
    """Return flags with what a script says beside them; its n, B and learning rate are the champion's.

    Of a task all else is known: the script's workload counts where none is model.
    """
    if script is None:
        return flags
    path, stated = Path(script), {key: flag for key, flag in flags.items() if flag[1] is not None}
    facts = facts_of([path], {"gpus": stated["hardware.gpus"][1]} if "hardware.gpus" in stated else None)
    overrides: Overrides = {}
    if task is None:
        model = stated["workload.model"][1] if "workload.model" in stated else model_of(facts, path)
        overrides = overrides_of(facts, name_in(model, path), stated.get(CAP))
    n, prompts = facts.settings.rollouts_per_prompt, facts.settings.prompts_per_batch
    if n and n > 1 and prompts:
        B = max(1, round(prompts / facts.split.updates))
        overrides["proposal.baseline"] = (f"{SCRIPT}{path.name}", f"n={n},B={B}")
        overrides["proposal.learning_rate"] = (path.name, facts.settings.learning_rate)
    return {**overrides, **stated}
