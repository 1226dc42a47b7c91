"""A copy of a script in which the values of some keys are changed, and nothing else."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.disk import unwritten
from planner.scripts.changes import WRITABLE, Checked, Improvement
from planner.scripts.launch import Launch
from planner.scripts.settings import ScriptFacts

# Beside which a new key can stand: they are settings of the training itself.
BESIDE = ("rollouts_per_prompt", "learning_rate", "response_tokens", "update_steps", "prompts_per_batch")
# Of a word: arithmetic or a variable in braces, something in quotes, or all up to where a word ends.
_VALUE = r"""(\$\(\(.*?\)\)|\$\{[^}\n]*\}|"[^"\n]*"|'[^'\n]*'|[^\s,)\\"']+)"""
TABLES = (".yaml", ".yml", ".toml")
_TABLE = re.compile(r"^\s*\[([\w.-]+)\]")
_OPENED = re.compile(r"^(\s*)([\w.-]+):\s*(?:#.*)?$")
_LEAF = re.compile(r"^(\s*)([\w.-]+)(\s*=\s*|\s*:[ \t]+)([^#\n]*?)(\s*(?:#.*)?\n?)$")


@dataclass(frozen=True, slots=True)
class Fixed:
    """The copies that were written, what is changed in them, and what is left to be changed by hand."""

    paths: tuple[Path, ...]
    changed: tuple[str, ...]
    by_hand: tuple[str, ...]


def fixed_copy(files: Sequence[Path], facts: ScriptFacts, checked: Checked) -> Fixed:
    """Write NAME.checked.EXT beside each file in which a value is changed, or stands anew."""
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in files}
    anchors = [facts.keys[name] for name in BESIDE if name in facts.keys]
    changed: list[str] = []
    by_hand: list[str] = []
    for change in checked.improvements:
        pairs = (
            list(_pairs(change, facts, checked.together or change.verdict.launch)) if change.name in WRITABLE else []
        )
        before = dict(texts)
        for keys, value, missing in pairs:
            earlier = dict(texts)
            key = _change(texts, keys, value) or (_insert(texts, keys, value, anchors) if missing else None)
            if texts != earlier:
                changed.append(f"{key} = {value}")
        if texts == before:
            by_hand.append(f"{change.name} = {_written(change.after or 'none')}")
    written_paths = []
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
        written_paths.append(copy)
    return Fixed(tuple(written_paths), tuple(changed), tuple(by_hand))


def _pairs(each: Improvement, facts: ScriptFacts, launch: Launch) -> Iterator[tuple[Sequence[str], str, bool]]:
    """Yield keys, of which the first that is there counts, the new value, and whether it has to stand there.

    A size that is stated as a product changes with its parts; what all changes together make of it is written.
    """
    names = facts.names
    rollouts = launch.rollouts_per_prompt * launch.prompts_per_batch
    update = launch.update_rollouts or launch.update.rollouts_per_step
    none_by_name = not each.after and names is not None and "validation_on" in names.keys
    sizes: dict[str, Any] = {
        "rollouts_per_prompt": launch.rollouts_per_prompt,
        "prompts_per_batch": launch.prompts_per_batch,
        "batch_rollouts": rollouts,
        "update_prompts": update // launch.rollouts_per_prompt,
        "update_rollouts": update,
        "accumulation": rollouts // ((launch.device_batch or rollouts) * launch.hardware.gpus_per_trial) or 1,
        "save_on": '"steps"' if facts.trainer == "trl" else "true",
        "validation_on": '"no"',
        "validation_every": each.after or -1,
    }
    of_batch = ("prompts_per_batch", "batch_rollouts", "accumulation")
    moved: Sequence[str] = {
        "rollouts_per_prompt": ("rollouts_per_prompt", *of_batch, "update_rollouts"),
        "prompts_per_batch": (*of_batch, "update_prompts", "update_rollouts"),
        "updates_per_batch": ("update_prompts", "update_rollouts"),
        "update_rollouts": ("update_prompts", "update_rollouts"),
        "validation_every": ("validation_on" if none_by_name else "validation_every",),
        "save_every": ("save_every", "save_on"),
    }.get(each.name, (each.name,))
    for name in moved:
        own = [facts.keys[name]] if name in facts.keys else []
        allowed = names.keys.get(name, ()) if names else ()
        keys = [*(key for key in own if key in allowed or not names), *allowed]  # its key may be that of a product
        default = names.assumed.get(name) if names else None
        yield keys, _written(sizes.get(name, each.after)), name == each.name or default not in (None, sizes.get(name))


def _written(value: Any) -> str:
    return f"{value:.2g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def _insert(texts: dict[Path, str], keys: Sequence[str], value: str, anchors: Sequence[str]) -> str | None:
    """Write a key that no file has beside one of the same kind that is there, and return it."""
    for anchor, path in product(anchors, reversed(texts)):
        key = next((key for key in keys if key.count(".") == anchor.count(".")), None)
        if key is None:
            continue
        text = texts[path]
        if path.suffix in TABLES:
            line = re.search(rf"^(\s*){re.escape(anchor)}(\s*=\s*|\s*:[ \t]+)[^\n]*\n", text, re.MULTILINE)
            new, end = (f"{line[1]}{key}{line[2]}{value}\n", line.end()) if line else ("", 0)
        else:
            end, new = next(_beside(text, anchor, key, value, python=path.suffix == ".py"), (0, ""))
        if new:
            texts[path] = f"{text[:end]}{new}{text[end:]}"
            return key
    return None


def _beside(text: str, anchor: str, key: str, value: str, *, python: bool) -> Iterator[tuple[int, str]]:
    """Yield where a key may stand, and how: after a setting among others of a call, or of a command."""
    for word in reversed(list(_words(anchor).finditer(text))):
        if python and re.match(r"\s*[,)]", text[word.end() :]):
            yield word.end(), f", {key}={value}"
        elif not python and "." in anchor and word[1] != "--":
            yield word.end(), f" {key}={value}"
        elif not python and word[1] == "--":
            yield word.end(), f" --{key} {value}"


def _change(texts: dict[Path, str], keys: Sequence[str], value: str) -> str | None:
    """Change the first key that a file has, in the last such file, and return it."""
    for key, path in product(keys, reversed(texts)):
        change = _in_tables if path.suffix in TABLES else _in_words
        if (text := change(texts[path], key, value)) is not None:
            texts[path] = text
            return key
    return None


def _words(key: str) -> re.Pattern[str]:
    """Return what finds a key or flag with its value, outside of comments."""
    name = re.sub(r"[-_]", "[-_]", re.escape(key.lstrip("-")).replace(r"\-", "-"))
    return re.compile(rf"^[^#\n]*?(?<![\w.-])(--|\+{{0,2}}){name}(?:\s*=\s*|[ \t]+){_VALUE}", re.MULTILINE)


def _in_words(text: str, key: str, value: str) -> str | None:
    """Return a shell script or Python code in which a key or flag has another value where it counts, at the last."""
    words = list(_words(key).finditer(text))
    return f"{text[: words[-1].start(2)]}{value}{text[words[-1].end(2) :]}" if words else None


def _in_tables(text: str, key: str, value: str) -> str | None:
    """Return YAML or TOML in which the leaf of a dotted key has another value; comments stay."""
    wanted, lines = key.replace("-", "_"), text.splitlines(keepends=True)
    above: list[tuple[int, str]] = []  # the indentation and the name of each table that is open
    for number, line in enumerate(lines):
        if table := _TABLE.match(line):
            above = [(-1, table[1])]
        elif opened := _OPENED.match(line):
            above = [*(table for table in above if table[0] < len(opened[1])), (len(opened[1]), opened[2])]
        elif leaf := _LEAF.match(line):
            within = [name for indent, name in above if indent < len(leaf[1])]
            if ".".join([*within, leaf[2]]).replace("-", "_") == wanted:
                lines[number] = f"{leaf[1]}{leaf[2]}{leaf[3]}{value}{leaf[5]}"
                return "".join(lines)
    return None
