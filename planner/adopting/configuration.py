"""The configuration of a run, as its folder has it: whatever the file, by dotted keys.

Read are what Hydra wrote (`.hydra`), YAML, TOML and JSON, the command lines of shell scripts, and what stands at the
beginning of a log: a command line with its overrides, or the dictionary that verl prints.
"""

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from budgets.errors import InputError
from planner.curves.reading.sources import NAMED_ALIKE
from planner.logs.consoles import plain

Flat = dict[str, Any]  # values by their dotted keys, with '_' for every '-'

_HYDRA = (".hydra/config.yaml", ".hydra/overrides.yaml", "outputs/.hydra/config.yaml", "outputs/.hydra/overrides.yaml")
_NOT_SETTINGS = {"trainer_state.json", "sweep.json", "package.json", "tokenizer_config.json", "generation_config.json"}
_OVERRIDE = re.compile(r"[+~]*([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)=(.*)$")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)(?::-([^}]*))?\}?")
_SETTINGS = {".yaml", ".yml", ".toml", ".json"}
_HEAD_LINES = 400  # of a log, in which its configuration is looked for
_LARGEST = 4 * 2**20  # bytes of a file of settings


def configuration_of(run: Path, given: Path | None = None, log: Path | None = None) -> Flat:
    """Return what is known of a run's settings, nothing where its folder has none; of two sources the later wins.

    `given` is a file that the user names. The order is: the log, files of a folder, Hydra's, the file that was named.
    """
    found: Flat = {} if log is None else _of_log(log)
    for path in [*_files(run), *([given] if given is not None else [])]:
        found |= read_settings(path)
    return found


def _files(run: Path) -> list[Path]:
    """List the files of a run's settings: in its folder, or beside a lone log, where many runs may lie, by its name."""
    folder = run if run.is_dir() else run.parent
    inside = sorted(path for path in folder.iterdir() if path.is_file() and path.stat().st_size <= _LARGEST)
    if run.is_file() and run.stem.casefold() not in NAMED_ALIKE:
        inside = [path for path in inside if path.stem == run.stem and path != run]
    scripts = [path for path in inside if path.suffix == ".sh"]
    named = [path for path in scripts if path.name.startswith("run")] or scripts
    settings = [path for path in inside if path.suffix in _SETTINGS and path.name not in _NOT_SETTINGS and path != run]
    hydra = [folder / name for name in _HYDRA if run.is_dir() and (folder / name).is_file()]
    return [*named[:1], *settings, *hydra]


def read_settings(path: Path) -> Flat:
    """Return what one file sets."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        match path.suffix:
            case ".sh":
                return of_command(text)
            case ".toml":
                return flat(tomllib.loads(text))
            case ".json":
                return flat(json.loads(text))
            case _:
                document = yaml.safe_load(text)
                # A list has Hydra's overrides.
                return dict(_settings([*map(str, document)])) if isinstance(document, list) else flat(document)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror or error}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise InputError(f"'{path}' is not what its name says: {str(error).splitlines()[0]}") from None


def flat(document: object, prefix: str = "") -> Flat:
    """Return the leaves of nested tables by their dotted keys."""
    found: Flat = {}
    if isinstance(document, Mapping):
        for key, value in document.items():
            name = f"{prefix}{key}".replace("-", "_")
            found |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: _value(value)}
    return found


def of_command(text: str) -> Flat:
    """Return the overrides (`a.b=1`) and the flags (`--a-b 1`) of a shell script, with its own variables filled in."""
    joined = re.sub(r"\\\s*\n", " ", text)
    variables: dict[str, str] = {}
    tokens: list[str] = []
    for line in joined.splitlines():
        filled = _VARIABLE.sub(lambda found: variables.get(found[1], found[2] or ""), line)
        try:
            words = shlex.split(filled, comments=True)
        except ValueError:  # a quotation over several lines
            words = filled.split()
        assigned = _ASSIGNMENT.match(line)
        if assigned and len(words) == 1 + (words[0] == "export"):
            variables[assigned[1]] = words[-1].partition("=")[2]
            continue
        tokens += words
    return dict(_settings(tokens))


def _settings(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for place, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            following = words[place + 1] if place + 1 < len(words) else "--"
            if not equals:
                value = "true" if following.startswith("--") else following
            yield name.replace("-", "_"), _value(value)
        elif found := _OVERRIDE.fullmatch(word):
            yield found[1].replace("-", "_"), _value(found[2])


def _of_log(log: Path) -> Flat:
    """Return what a log says of its run's settings before the first steps."""
    with log.open(encoding="utf-8", errors="replace") as file:
        lines = [plain(line) for _, line in zip(range(_HEAD_LINES), file, strict=False)]
    found: Flat = {}
    for line in lines:
        if " -m " in line or ".sh " in line or "python" in line:
            found |= of_command(line.replace('"', " "))
    begins = next((place for place, line in enumerate(lines) if line.lstrip().startswith("{'")), None)
    if begins is not None:
        found |= _printed(lines[begins:])
    return found


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


def _value(value: object) -> Any:
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
