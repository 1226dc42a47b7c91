"""What the script or configuration of a run says of it: the settings, and what decides its time, memory and end.

Nothing of a script is executed: shell is read by planner/adopting/shell, Python by its syntax tree.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.adopting.configuration import SUFFIXES, Flat, found_file, read_named, resolved, words_set
from planner.adopting.settings import ScriptFacts, facts_of
from planner.adopting.shell import LARGEST, Command, Shell, read_shell
from planner.logs.trainers import load_trainer, trainer_names

_ENOUGH = 3  # keys by which a trainer is known without its entry point
_ENTRY = 5  # keys that its entry point counts for
_OF_ROLLOUTS = ("rollouts_per_prompt", "prompts_per_batch", "batch_rollouts", "response_tokens")  # no SFT has them
_NAMING = re.compile(r"--?(?:[\w.-]*config[\w-]*|deepspeed|args)(?:=(.*))?", re.IGNORECASE)  # flags that name a file
_LONGEST = 4096  # characters of a text that is put together
_LARGEST = 2**63  # number that is multiplied
_CONFIGURATION = ("Config", "Arguments", "Args")  # ends of the names of what settings are given to
_DEFAULTS = ("grpo_defaults",)  # of verifiers, which trains with TRL
_LORA = ("LoraConfig", "lora_defaults")
_LOADERS = ("from_pretrained", "get_model_and_tokenizer")
_TRAINERS = ("Trainer",)
_MOST_NAMED = 5  # arguments by place, of which the fifth is a trainer's data to validate on
_MODEL = ("model", "model_name", "model_id", "model_name_or_path", "pretrained_model_name_or_path")


@dataclass(slots=True)
class ScriptSettings:
    """What one command, or one or several files, would start a trainer with, by the trainer's own keys."""

    found: Flat
    words: tuple[str, ...] = ()  # of the command, or the calls of a Python script
    notes: list[str] = field(default_factory=list)
    trainer: str | None = None

    def counts(self) -> dict[str, int]:
        """Return how well it goes with each trainer."""
        pairs = {*self.words, *(" ".join(pair) for pair in zip(self.words, self.words[1:], strict=False))}
        pairs = {word for word in pairs if not word.startswith("-")}  # of a flag no trainer is the entry
        counts = {}
        for name in trainer_names():
            trainer = load_trainer(name)
            started = any(fnmatchcase(word, entry) for entry in trainer.entries for word in pairs)
            matches = {ours for ours, keys in trainer.keys.items() if any(key in self.found for key in keys)}
            counts[name] = (len(matches) + _ENTRY * started) * (started or not matches.isdisjoint(_OF_ROLLOUTS))
        return counts


def read_script(paths: Sequence[Path], given: Flat | None = None) -> ScriptFacts:
    """Read what people start a trainer with; of several files the later wins, over them what is given by our names."""
    script = what_it_sets(paths)
    return facts_of(script.trainer, script.found, given, script.notes, whole=True)


def what_it_sets(paths: Sequence[Path]) -> ScriptSettings:
    """Read what people start a trainer with, by the keys of that trainer."""
    whole = ScriptSettings({})
    for path in paths:
        if starts := _starts(path):
            best = max(starts, key=lambda start: max(start.counts().values()))
            found, words = whole.found | best.found, (*whole.words, *best.words)
            whole = ScriptSettings(found, words, [*whole.notes, *best.notes])
    counts = whole.counts()
    trainer = max(counts, key=lambda name: counts[name])
    own = [f"{name} is not found" for name in load_trainer(trainer).own_files]
    whole.notes = [note for note in dict.fromkeys(whole.notes) if not any(fnmatchcase(note, each) for each in own)]
    whole.trainer = trainer if counts[trainer] >= _ENOUGH else None
    whole.found = resolved(whole.found)
    return whole


def _starts(path: Path) -> list[ScriptSettings]:
    """Return what a file could start; InputError where it cannot be read."""
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"'{path}' is larger than a script: {path.stat().st_size:,} bytes")
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".py":
            python, head = _read_python(text)
            # The commands at its head, and what its own calls set, which win.
            commands = read_shell(head, path.parent).commands if "--" in head else []
            starts = [_of_command(each, Shell(), path.parent) for each in commands if len(each.words) > 1]
            for start in starts:
                start.found, start.words = start.found | python.found, (*start.words, *python.words)
                start.notes = [note for note in start.notes if ".py is" not in note]
            return [*starts, python]
        if path.suffix not in SUFFIXES:
            return [*_of_shell(read_shell(text, path.parent), path.parent)]
        found = read_named(path)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror or error}") from None
    except (ValueError, InputError) as error:
        raise InputError(f"'{path}' cannot be read: {str(error).splitlines()[0]}") from None
    starts = [ScriptSettings(found)]
    if isinstance(run := found.get("run", found.get("command")), str):  # of a job, such as SkyPilot's
        set_ = "".join(f"{key.partition('.')[2]}={value}\n" for key, value in found.items() if key.startswith("envs."))
        starts += _of_shell(read_shell(set_ + run, path.parent), path.parent)
    return starts


def _of_shell(shell: Shell, folder: Path) -> Iterator[ScriptSettings]:
    commands = list(shell.commands)
    # Some hand the whole command over as a variable.
    texts = [text for text in shell.values.values() if " --" in text or "python" in text or " run " in text]
    if not any(
        max(ScriptSettings(dict(words_set(each.words)), each.words).counts().values()) >= _ENOUGH for each in commands
    ):
        commands += [each for text in texts for each in read_shell(text, folder).commands]
    for command in commands:
        yield _of_command(command, shell, folder)


def _of_command(command: Command, shell: Shell, folder: Path) -> ScriptSettings:
    """Return what a command sets: by the files that it names, and over them by its flags."""
    notes, found = list(shell.notes), Flat()
    words = command.words
    visible = command.environment.get("CUDA_VISIBLE_DEVICES", shell.values.get("CUDA_VISIBLE_DEVICES", ""))
    if re.fullmatch(r"\d+(,\d+)*", visible):
        found["visible_gpus"] = visible.count(",") + 1
    for name, prefix in _named(command.words):
        text = shell.files.get(name)
        path = Path(name) if text is not None else found_file(name, folder)
        try:
            if path is None:
                notes.append(f"{name} is not found")
            elif path.suffix == ".py":
                python, _ = _read_python(path.read_text(encoding="utf-8", errors="replace")[:LARGEST])
                found, words = found | python.found, (*words, *python.words)
            else:
                entries = read_named(path, shell.files)
                found |= {f"{prefix}.{key}": value for key, value in entries.items()} if prefix else entries
        except (OSError, ValueError):
            notes.append(f"{name} cannot be read")
    return ScriptSettings(found | dict(words_set(command.words)), words, notes)


def _named(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the files of settings that a command names, and the key that they go under."""
    flags = dict(words_set(words))
    config = str(flags.get("config_name", ""))
    if config and config != "True":
        folder = str(flags.get("config_path", ""))
        yield f"{folder}/{config.removesuffix('.yaml')}.yaml".lstrip("/") if folder else f"{config}.yaml", ""
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        if word.startswith("@") and len(word) > 1:
            yield word[1:], ""
        elif before == "@":
            above = words[place - 2] if place > 1 else ""
            yield word, above[2:] if above.startswith("--") else ""
        elif flag := _NAMING.fullmatch(word):
            if flag[1] and flag[1].endswith(SUFFIXES):
                yield flag[1], ""
        elif _is_file(word) and (not before.startswith("-") or _NAMING.fullmatch(before)):
            yield word, ""


def _is_file(word: str) -> bool:
    return word.endswith((*SUFFIXES, ".py")) and "=" not in word and not word.startswith("-")


def _read_python(text: str) -> tuple[ScriptSettings, str]:
    """Return what a script sets, by its syntax tree, and the text that it begins with, which often has its command."""
    try:
        tree = ast.parse(text)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        known: Flat = {}
        for node in ast.walk(tree):
            known |= _constants(node, known)
        found = {key: value for call in calls for key, value in _settings(call, known)}
        configurations: set[str] = set()  # the names that settings are given to: `args = GRPOConfig(…)`
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _configures(call):
                    configurations.add(name)
        found |= {key: value for node in ast.walk(tree) for key, value in _changed(node, configurations, known)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ScriptSettings({}), ""
    head = re.sub(r"(?m)^\s*```.*$", "", ast.get_docstring(tree) or "")
    return ScriptSettings(found, tuple(_name(call) for call in calls if _configures(call))), head


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _constants(node: ast.AST, known: Flat) -> Iterator[tuple[str, Any]]:
    """Yield the constants that a name stands for: assigned, the default of a flag, or of a class's field."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            if (constant := _constant(value, known)) is not None:
                yield name, constant
        case ast.Call(func=ast.Attribute(attr="add_argument"), args=[*flags], keywords=keywords):
            default = next((_constant(each.value, {}) for each in keywords if each.arg == "default"), None)
            for flag in flags:
                if default is not None and isinstance(flag, ast.Constant) and str(flag.value).startswith("--"):
                    yield str(flag.value).lstrip("-").replace("-", "_"), default


def _configures(call: ast.Call) -> bool:
    return _name(call).endswith(_CONFIGURATION) or _name(call) in _DEFAULTS


def _changed(node: ast.AST, configurations: set[str], known: Flat) -> Iterator[tuple[str, Any]]:
    """Yield what is set on settings after their call: `args.max_steps = 200`."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr=key)], value=value):
            if name in configurations and (constant := _constant(value, known)) is not None:
                yield key, constant


def _settings(call: ast.Call, known: Flat) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a call by their dotted keys."""
    name, words = _name(call), {each.arg for each in call.keywords}
    given = {each.arg: _constant(each.value, known) for each in call.keywords if each.arg}
    first = _constant(call.args[0], known) if call.args else None
    if name in _LORA:
        yield from [("use_peft", True), *(("lora_r", value) for key, value in given.items() if key == "r" and value)]
    elif _configures(call):
        yield from ((key, value) for key, value in given.items() if value is not None)
    elif name.endswith(_TRAINERS) or name in _LOADERS:
        model = next((given[key] for key in _MODEL if given.get(key)), first)
        if isinstance(model, str):
            yield "model_name_or_path", model
        if name.endswith(_TRAINERS) and None not in words and len(call.args) < _MOST_NAMED:
            yield "eval_dataset_given", "eval_dataset" in words
    elif name == "train" and given.get("resume_from_checkpoint"):
        yield "resume_from_checkpoint", given["resume_from_checkpoint"]
    elif name == "load_dataset" and isinstance(first, str):
        yield "dataset_name", first


def _constant(node: ast.expr | None, known: Flat) -> Any:
    """Return what an expression is without being run; None where that is not known."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in known:
            return known[name]
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            values = (_constant(left, known), _constant(right, known))
            small = all(isinstance(each, int | float) and abs(each) < _LARGEST for each in values)
            return values[0] * values[1] if small else None
        case ast.JoinedStr(values=parts):
            texts = [_constant(each.value if isinstance(each, ast.FormattedValue) else each, known) for each in parts]
            text = "".join(map(str, texts))
            return None if None in texts or len(text) > _LONGEST else text
        case ast.Attribute(attr=name):
            return name if name in ("bfloat16", "float16", "float32") else None
        case ast.expr():
            with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                return ast.literal_eval(node)
    return None
