"""A copy of a script in which the values of some keys are changed, and nothing else."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.adopting.settings import ScriptFacts
from planner.disk import unwritten
from planner.logs.trainers import load_trainer
from planner.vetting.changes import Improvement

# What one number in a script says; anything else (GPUs, adapters, sharding) takes more than a number to change.
NUMBERS = {
    *("rollouts_per_prompt", "prompts_per_batch", "updates_per_batch", "learning_rate", "response_tokens"),
    *("validation_every", "engine_tensor_parallel", "schedule_steps"),
}
# Of a word: arithmetic or a variable in braces, something in quotes, or all up to where a word ends.
_VALUE = r"""(\$\(\(.*?\)\)|\$\{[^}\n]*\}|"[^"\n]*"|'[^'\n]*'|[^\s,)\\"']+)"""
_TABLE = re.compile(r"^\s*\[([\w.-]+)\]")
_OPENED = re.compile(r"^(\s*)([\w.-]+):\s*(?:#.*)?$")
_LEAF = re.compile(r"^(\s*)([\w.-]+)(\s*=\s*|\s*:[ \t]+)([^#\n]*?)(\s*(?:#.*)?\n?)$")


@dataclass(frozen=True, slots=True)
class Fixed:
    """The copies that were written, what is changed in them, and what is left to be changed by hand."""

    paths: tuple[Path, ...]
    changed: tuple[str, ...]
    by_hand: tuple[str, ...]


def fixed_copy(files: Sequence[Path], facts: ScriptFacts, improvements: Sequence[Improvement]) -> Fixed:
    """Write NAME.checked.EXT beside each file in which a value is changed."""
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in files}
    changed: list[str] = []
    by_hand: list[str] = []
    for each in improvements:
        pairs = list(_pairs(each, facts)) if each.name in NUMBERS else []
        found = [f"{key} = {value}" for keys, value in pairs if (key := _change(texts, keys, value))]
        changed += found
        if not found:
            by_hand.append(f"{each.name} = {'none' if each.after is None else _written(each.after)}")
    written = []
    for path, text in texts.items():
        if text == path.read_text("utf-8", errors="replace"):
            continue
        copy = path.with_name(f"{path.stem}.checked{path.suffix}")
        if copy.exists() and copy.read_text("utf-8", errors="replace") != text:
            raise InputError(f"{copy} is there already, and differs: move it away, or check it instead")
        try:
            copy.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(unwritten(copy, error, "make its folder writable")) from error
        written.append(copy)
    return Fixed(tuple(written), tuple(changed), tuple(by_hand))


def _pairs(each: Improvement, facts: ScriptFacts) -> Iterator[tuple[Sequence[str], str]]:
    """Yield keys, of which the first that is there counts, with the new value.

    A size that is stated as a product changes with its parts, and with a device's share of a batch not at all.
    """
    launch = each.verdict.launch
    n, update = launch.rollouts_per_prompt, launch.update
    sizes = {
        "rollouts_per_prompt": n,
        "prompts_per_batch": launch.prompts_per_batch,
        "batch_rollouts": n * launch.prompts_per_batch,
        "update_prompts": update.prompts_per_batch,
        "update_rollouts": update.rollouts_per_step,
    }
    moved = {
        "rollouts_per_prompt": ("rollouts_per_prompt", "batch_rollouts", "update_rollouts"),
        "prompts_per_batch": ("prompts_per_batch", "batch_rollouts", "update_prompts", "update_rollouts"),
        "updates_per_batch": ("update_prompts", "update_rollouts"),
    }.get(each.name, (each.name,))
    known = load_trainer(facts.trainer).keys if facts.trainer else {}
    if "batch_rollouts" in moved and facts.keys.get("prompts_per_batch") in known.get("device_batch", ()):
        return
    for name in moved:
        own = [facts.keys[name]] if name in facts.keys else []
        allowed = known.get(name, ())
        keys = [key for key in own if key in allowed or not allowed] or allowed  # its key may be that of a product
        yield keys, _written(sizes.get(name, each.after))


def _written(value: Any) -> str:
    return f"{value:.2g}" if isinstance(value, float) else str(value)


def _change(texts: dict[Path, str], keys: Sequence[str], value: str) -> str | None:
    """Change the first key that a file has, in the last such file, and return it."""
    for key, path in product(keys, reversed(texts)):
        change = _in_tables if path.suffix in (".yaml", ".yml", ".toml") else _in_words
        if (text := change(texts[path], key, value)) is not None:
            texts[path] = text
            return key
    return None


def _in_words(text: str, key: str, value: str) -> str | None:
    """Return a shell script or Python code in which a key or flag has another value where it counts, at the last."""
    name = re.sub(r"[-_]", "[-_]", re.escape(key.lstrip("-")).replace(r"\-", "-"))
    word = re.compile(rf"^[^#\n]*?(?<![\w.-])(?:--|\+{{0,2}}){name}(?:\s*=\s*|[ \t]+){_VALUE}", re.MULTILINE)
    found = list(word.finditer(text))
    return f"{text[: found[-1].start(1)]}{value}{text[found[-1].end(1) :]}" if found else None


def _in_tables(text: str, key: str, value: str) -> str | None:
    """Return YAML or TOML in which the leaf of a dotted key has another value; comments stay."""
    wanted, lines = key.replace("-", "_"), text.splitlines(keepends=True)
    above: list[tuple[int, str]] = []  # the indentation and the name of each table that is open
    for number, line in enumerate(lines):
        if table := _TABLE.match(line):
            above = [(-1, table[1])]
        elif opened := _OPENED.match(line):
            above = [*(each for each in above if each[0] < len(opened[1])), (len(opened[1]), opened[2])]
        elif leaf := _LEAF.match(line):
            within = [name for indent, name in above if indent < len(leaf[1])]
            if ".".join([*within, leaf[2]]).replace("-", "_") == wanted:
                lines[number] = f"{leaf[1]}{leaf[2]}{leaf[3]}{value}{leaf[5]}"
                return "".join(lines)
    return None
