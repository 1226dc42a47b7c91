"""The configuration of a run, as its folder or its command has it: whatever the file, by dotted keys.

Read are what Hydra wrote (`.hydra`) and Weights & Biases (`files/`), YAML, TOML and JSON, with those that they build
on, the command lines of shell scripts, and what stands at the beginning of a log: a command line with its overrides,
or what verl prints.
"""

import ast
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from budgets.errors import InputError
from planner.curves.files.sources import NAMED_ALIKE
from planner.logs.consoles import plain
from planner.scripts.shell import read_shell
from planner.tables import NESTED, TOO_DEEP, parse_toml

Flat = dict[str, Any]  # values by their dotted keys, with '_' for every '-'

_BELOW = (  # a run's folder, as Hydra and Weights & Biases write them
    *(".hydra/config.yaml", ".hydra/overrides.yaml", "outputs/.hydra/config.yaml", "outputs/.hydra/overrides.yaml"),
    *("files/wandb-metadata.json", "files/config.yaml"),
)
_NOT_SETTINGS = {
    *("trainer_state.json", "sweep.json", "package.json", "tokenizer_config.json", "generation_config.json"),
    "wandb-summary.json",
}
_OVERRIDE = re.compile(r"[+~]*([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
_HEAD_LINES = 400  # of a log, in which its configuration is looked for
LARGEST = 4 * 2**20  # bytes of a file of settings
SUFFIXES = (".yaml", ".yml", ".toml", ".json")
_MOST = 2**18  # values that a file may grow to by its references
_DEEPEST = 6  # files that name each other
_UP = 6  # folders above a script in which a relative name is looked for: its repository
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_PRODUCT = re.compile(r"\$\{(mul|add|sub|div|max|min):\s*([\d.]+)\s*,\s*([\d.]+)\s*\}")
_MARK = re.compile(r"^(?:\$\w+|\$\([^)]*\)|~|\.)?/+")  # a folder that is not known


def configuration_of(run: Path, configured: Path | None = None, log: Path | None = None) -> Flat:
    """Return what is known of a run's settings, nothing where its folder has none; of two sources the later wins.

    `given` is a file that the user names. The order is: the log, files of a folder, Hydra's, the file that was named.
    """
    settings: Flat = {}
    if log is not None:  # what it says before the first steps
        with log.open(encoding="utf-8", errors="replace") as file:
            lines = [plain(line) for _, line in zip(range(_HEAD_LINES), file, strict=False)]
        for line in lines:
            if " -m " in line or ".sh " in line or "python" in line:
                settings |= of_command(line.replace('"', " "), log.parent)
        begins = next((place for place, line in enumerate(lines) if line.lstrip().startswith("{'")), None)
        if begins is not None:
            settings |= _printed(lines[begins:])
    for path in [*_files(run), *([configured] if configured is not None else [])]:
        settings |= read_settings(path)
    return settings


def _files(run: Path) -> list[Path]:
    """List the files of a run's settings: in its folder, or beside a lone log, where many runs may lie, by its name."""
    folder = run if run.is_dir() else run.parent
    inside = sorted(path for path in folder.iterdir() if path.is_file() and path.stat().st_size <= LARGEST)
    if run.is_file() and run.stem.casefold() not in NAMED_ALIKE:
        inside = [path for path in inside if path.stem == run.stem and path != run]
    scripts = [path for path in inside if path.suffix == ".sh"]
    preferred = [path for path in scripts if path.name.startswith("run")] or scripts
    settings = [path for path in inside if path.suffix in SUFFIXES and path.name not in _NOT_SETTINGS and path != run]
    below = [folder / name for name in _BELOW if run.is_dir() and (folder / name).is_file()]
    return [*preferred[:1], *settings, *below]


def read_settings(path: Path) -> Flat:
    """Return what one file sets."""
    try:
        if path.suffix == ".sh":
            return of_command(path.read_text(encoding="utf-8", errors="replace"), path.parent)
        document = _document(path)
        if path.name == "wandb-metadata.json" and isinstance(document, dict):  # of which the command line is settings
            document = list(document.get("args") or ())
        # A list has Hydra's overrides.
        return dict(words_set([*map(str, document)])) if isinstance(document, list) else flat(document)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"'{path}' is not what its name says: {str(error).splitlines()[0]}") from None


def _document(path: Path) -> Any:
    if path.stat().st_size > LARGEST:
        raise ValueError("it is too large for settings")
    return document_of(path.suffix, path.read_text(encoding="utf-8", errors="replace"))


def document_of(suffix: str, text: str) -> Any:
    """Return what a text of TOML, JSON or else YAML holds; ValueError where it is none."""
    try:
        loads: Mapping[str, Callable[[str], Any]] = {".toml": parse_toml, ".json": json.loads}
        document = loads.get(suffix, _Yaml.load)(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    level, grown = [document], 0  # a value that YAML refers to counts at each place
    for _ in range(NESTED):
        grown += sum(len(_inside(value)) for value in level)
        if not level or grown > _MOST:
            break
        level = [inner for value in level for inner in _inside(value)]
    if level:
        raise ValueError(TOO_DEEP if grown <= _MOST else f"its references grow to more than {_MOST:,} values")
    return document


def _inside(value: object) -> Collection[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()


class _Yaml(yaml.SafeLoader):  # type: ignore[misc]
    """YAML whose merged keys (`<<`) do not grow without end."""

    merged = 0

    @classmethod
    def load(cls, text: str) -> Any:
        return yaml.load(text, cls)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Take in what a mapping merges, after what that merges itself."""
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(part, yaml.MappingNode):
                        self.flatten_mapping(part)
                        self.merged += len(part.value)
            if self.merged > _MOST:
                raise ValueError(f"its references grow to more than {_MOST:,} values")
        super().flatten_mapping(node)


def flat(document: object, prefix: str = "") -> Flat:
    """Return the leaves of nested tables by their dotted keys."""
    entries: Flat = {}
    if isinstance(document, Mapping):
        for key, value in document.items():
            name = f"{prefix}{key}".replace("-", "_")
            if isinstance(value, Mapping) and "value" in value and value.keys() <= {"value", "desc"}:
                value = value["value"]  # noqa: PLW2901 (as Weights & Biases wraps them)
            several = isinstance(value, list) and value and isinstance(value[0], Mapping)
            inner = value[0] if several else value  # of several alike, such as tasks, the first
            entries |= flat(inner, f"{name}.") if isinstance(inner, Mapping) else {name: as_number(inner)}
    return entries


def of_command(text: str, folder: Path) -> Flat:
    """Return the overrides (`a.b=1`) and the flags (`--a-b 1`) of all commands of a shell script."""
    return dict(pair for command in read_shell(text, folder).commands for pair in words_set(command.words))


def words_set(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield what the words of a command set: `a.b=1`, `--a-b 1`, `--a-b 1 2`, `--a-b`."""
    for place, word in enumerate(words):
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            rest = (words[later] for later in range(place + 1, len(words)))
            following = [*takewhile(lambda each: not each.startswith("--") and not _OVERRIDE.fullmatch(each), rest)]
            if equals or len(following) < 2:
                yield name.replace("-", "_"), as_number(value if equals else following[0] if following else "true")
            else:
                yield name.replace("-", "_"), [as_number(each) for each in following]
        elif match := _OVERRIDE.fullmatch(word):
            yield match[1].replace("-", "_"), as_number(match[2])


def _printed(lines: Sequence[str]) -> Flat:
    """Return the dictionary that is printed over several lines, as far as no other process wrote into it."""
    text = ""
    for line in lines:
        text += line + "\n"
        if text.count("{") == text.count("}"):
            with suppress(ValueError, SyntaxError):
                return flat(ast.literal_eval(text.strip()))
            return {}
    return {}


def as_number(value: object) -> Any:
    """Return a number for what is written as one; 1e-6 is none in YAML."""
    if not isinstance(value, str):
        return value
    bare = value.strip().strip("'\"")
    if bare.casefold() in ("true", "false"):
        return bare.casefold() == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(bare)
    return bare


def found_file(name: str, folder: Path) -> Path | None:
    """Return where a named file lies: beside the script, in a folder above it, or in one of those within `configs`."""
    plain = _MARK.sub("", name) if "$" in name else name
    if "$" in plain or not plain:
        return None
    for above in [folder, *folder.absolute().parents][:_UP]:
        with suppress(OSError):
            if (above / plain).is_file():
                return above / plain
    return None


def read_named(path: Path, written: Mapping[str, str] | None = None, depth: int = 0) -> Flat:
    """Return what a file of settings says, over what its `defaults` say; ValueError or OSError where it is none."""
    if depth > _DEEPEST:
        return {}
    text = (written or {}).get(path.name)
    document = _document(path) if text is None else document_of(path.suffix, text)
    settings: Flat = {}
    bases = document.get("defaults") or document.get("base") if isinstance(document, Mapping) else None
    for name in bases if isinstance(bases, list) else [bases]:
        if not isinstance(name, str) or name == "_self_":  # Hydra's groups are the trainer's own defaults
            continue
        file = name.partition("@")[0]  # Hydra's: in which group it is put
        for candidate in (file, f"{file}.yaml"):
            if (base := found_file(candidate, path.parent)) and base != path:
                settings |= read_named(base, written, depth + 1)
                break
    return settings | flat(document)


def resolved(settings: Flat) -> Flat:
    """Return it with OmegaConf's references filled in, `${policy.model_name}` and `${mul:2,512}`."""

    def filled(text: str, depth: int = 0) -> str:
        if depth > _DEEPEST or len(text) > 1000 or "${" not in text:
            return text
        changed = _REFERENCE.sub(lambda match: str(settings.get(match[1], match[0])), text)
        changed = _PRODUCT.sub(lambda match: _result(match[1], float(match[2]), float(match[3])), changed)
        return text if changed == text else filled(changed, depth + 1)

    return {
        key: as_number(filled(value)) if isinstance(value, str) and "${" in value else value
        for key, value in settings.items()
    }


def _result(name: str, one: float, other: float) -> str:
    sums = {"mul": one * other, "add": one + other, "sub": one - other, "max": max(one, other), "min": min(one, other)}
    return f"{sums[name] if name in sums else one / (other or 1):.12g}"
