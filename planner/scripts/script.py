"""What the script or configuration of a run says of it: the settings, and what decides its time, memory and end.

Nothing of a script is executed: shell is read by planner/scripts/shell, Python by its syntax tree.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from budgets.errors import InputError
from budgets.hardware import NODE_GPUS
from planner.logs.trainers import load_trainer, trainer_names
from planner.scripts.configuration import SUFFIXES, Flat, found_file, read_named, resolved, words_set
from planner.scripts.facts import facts_of
from planner.scripts.python import notebook_code, read_python
from planner.scripts.settings import ScriptFacts
from planner.scripts.shell import LARGEST, Command, Shell, read_shell

NOT_FOUND = " is not found"
_ENOUGH = 3  # keys by which a trainer is known without its entry point
_ENTRY = 5  # keys that its entry point counts for
_OF_ROLLOUTS = ("rollouts_per_prompt", "prompts_per_batch", "batch_rollouts", "response_tokens")  # no SFT has them
_PIN = re.compile(r"\btrl\s*==\s*0\.(\d+)")
_OF_ROLLOUTS_SINCE = 15  # minor version of TRL, before which a GPU's share is counted in prompts
_CONFIGURED = re.compile(r"config=(.*)")  # of EasyR1
# Words of the commands that start an engine beside its trainer.
_SERVERS = re.compile(r"vllm serve|trl vllm-serve|swift rollout|vf-vllm|vllm\.entrypoints\.openai\.api_server")
_LISTED = re.compile(r"\d+(,\d+)*")  # devices
_NAMING = re.compile(r"--?(?:[\w.-]*config[\w-]*|deepspeed|args)(?:=(.*))?", re.IGNORECASE)  # flags that name a file


_BRANCH = re.compile(r"\b(if|case)\b|&&|\|\|")  # what a shell does only sometimes


@dataclass(slots=True)
class ScriptSettings:
    """What one command, or one or several files, would start a trainer with, by the trainer's own keys."""

    found: Flat
    words: tuple[str, ...] = ()  # of the command, or the calls of a Python script
    notes: list[str] = field(default_factory=list)
    trainer: str | None = None
    partial: bool = False  # whether a file of settings is not found, which may say what else is the trainer's own

    def pairs(self) -> list[str]:
        """Return its words, alone and two by two; of a flag no trainer is the entry."""
        pairs = [*self.words, *(" ".join(pair) for pair in zip(self.words, self.words[1:], strict=False))]
        return [word for word in dict.fromkeys(pairs) if not word.startswith("-")]

    def counts(self) -> dict[str, int]:
        """Return how well it goes with each trainer."""
        pairs, counts = self.pairs(), {}
        for name in trainer_names():
            trainer = load_trainer(name).as_forked(pairs, self.found)
            started = any(fnmatchcase(word, entry) for entry in trainer.entries for word in pairs)
            matches = {ours for ours, keys in trainer.keys.items() if any(key in self.found for key in keys)}
            counts[name] = (len(matches) + _ENTRY * started) * (started or not matches.isdisjoint(_OF_ROLLOUTS))
        return counts


def read_script(paths: Sequence[Path], flags: Flat | None = None) -> ScriptFacts:
    """Read what people start a trainer with; of several files the later wins, over them what is given by our names."""
    script = what_it_sets(paths)
    whole = not script.partial
    return facts_of(script.trainer, script.found, flags, script.notes, whole=whole, words=script.pairs())


def what_it_sets(paths: Sequence[Path]) -> ScriptSettings:
    """Read what people start a trainer with, by the keys of that trainer."""
    whole = ScriptSettings({})
    for path in paths:
        if starts := _starts(path):
            best = max(starts, key=lambda start: max(start.counts().values()))
            settings, words = whole.found | best.found, (*whole.words, *best.words)
            whole = ScriptSettings(settings, words, [*whole.notes, *best.notes], partial=whole.partial or best.partial)
    counts = whole.counts()
    trainer = max(counts, key=lambda name: counts[name])
    own_notes = [f"{name}{NOT_FOUND}" for name in load_trainer(trainer).own_files]
    notes = [
        note for note in dict.fromkeys(whole.notes) if not any(fnmatchcase(note, pattern) for pattern in own_notes)
    ]
    whole.partial &= any(note.endswith(NOT_FOUND) for note in notes)
    whole.notes = notes
    whole.trainer = trainer if counts[trainer] >= _ENOUGH else None
    whole.found = resolved(whole.found)
    return whole


def _starts(path: Path) -> list[ScriptSettings]:
    """Return what a file could start; InputError where it cannot be read."""
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"'{path}' is larger than a script: {path.stat().st_size:,} bytes")
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix in (".py", ".ipynb"):
            return _of_python(notebook_code(text) if path.suffix == ".ipynb" else text, path.parent)
        if path.suffix not in SUFFIXES:
            starts = [*_of_shell(read_shell(text, path.parent), path.parent)]
            branches = _BRANCH.search(text) is not None
            if branches and max((max(start.counts().values()) for start in starts), default=0) < _ENOUGH:
                # What trains may hang on variables of the caller, such as the rank of a node.
                starts += _of_shell(read_shell(text, path.parent, branches=True), path.parent)
            return starts
        settings = read_named(path)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror or error}") from None
    except (ValueError, InputError) as error:
        raise InputError(f"'{path}' cannot be read: {str(error).splitlines()[0]}") from None
    starts = [ScriptSettings(settings)]
    if isinstance(run := settings.get("run", settings.get("command")), str):  # of a job, such as SkyPilot's
        set_ = "".join(
            f"{key.partition('.')[2]}={value}\n" for key, value in settings.items() if key.startswith("envs.")
        )
        starts += _of_shell(read_shell(set_ + run, path.parent), path.parent)
    return starts


def _of_python(text: str, folder: Path) -> list[ScriptSettings]:
    """Return what a script's own calls set, by themselves and under the commands in its texts, which they win over."""
    alone = read_python(text, folder)
    starts = [ScriptSettings(alone.found, alone.words)]
    commands = read_shell(alone.texts, folder).commands if "--" in alone.texts else []
    for command in commands if len(alone.texts) <= LARGEST else []:
        if len(command.words) > 1:
            start = _of_command(command, Shell(), folder)
            python = read_python(text, folder, start.found)
            notes = [note for note in start.notes if ".py is" not in note]
            starts.insert(-1, ScriptSettings(start.found | python.found, (*start.words, *python.words), notes))
    return starts


def _of_shell(shell: Shell, folder: Path) -> Iterator[ScriptSettings]:
    commands = list(shell.commands)
    # Some hand the whole command over as a variable.
    texts = [text for text in shell.values.values() if " --" in text or "python" in text or " run " in text]
    if not any(
        max(ScriptSettings(dict(words_set(command.words)), command.words).counts().values()) >= _ENOUGH
        for command in commands
    ):
        commands += [command for text in texts for command in read_shell(text, folder).commands]
    served = _served(commands, shell)
    for command in commands:
        start = _of_command(command, shell, folder)
        colocated = start.found.get("vllm_mode") == "colocate"  # whose server judges
        yield start if colocated else replace(start, found=served | start.found)


def _served(commands: Sequence[Command], shell: Shell) -> Flat:
    """Return the GPUs of the engines that a script starts beside its trainer, and of one engine."""
    gpus = width = 0
    for command in commands:
        if not _SERVERS.search(" ".join(command.words)):
            continue
        flags, visible = dict(words_set(command.words)), command.environment.get("CUDA_VISIBLE_DEVICES", "")
        options = {name.removeprefix("vllm_"): size for name, size in flags.items()}
        sizes = (options.get(f"{kind}_parallel_size") for kind in ("tensor", "data"))
        width, copies = (size if isinstance(size, int) else 1 for size in sizes)
        nodes, per_node = flags.get("nodes"), shell.values.get("SLURM_GPUS_PER_NODE", "")
        if _LISTED.fullmatch(visible):
            gpus += visible.count(",") + 1
        elif command.words[0] == "srun" and isinstance(nodes, int):
            gpus += nodes * (int(per_node) if per_node.isdigit() else NODE_GPUS)
        else:
            gpus += width * copies
    return {"served_gpus": gpus, "vllm_tensor_parallel_size": width} if gpus else {}


def _of_command(command: Command, shell: Shell, folder: Path) -> ScriptSettings:
    """Return what a command sets: by the files that it names, and over them by its flags."""
    notes, settings, flags, partial = list(shell.notes), Flat(), dict(words_set(command.words)), False
    words = command.words
    visible = command.environment.get("CUDA_VISIBLE_DEVICES", shell.values.get("CUDA_VISIBLE_DEVICES", ""))
    if _LISTED.fullmatch(visible):
        settings["visible_gpus"] = visible.count(",") + 1
    for name in ("NPROC_PER_NODE", "NNODES", "MAX_PIXELS"):  # which launchers take from the environment
        if (value := command.environment.get(name, shell.values.get(name, ""))).isdigit():
            settings[name.casefold()] = int(value)
    for name, prefix in _named(command.words):
        written = shell.files.get(name) is not None
        places = [name, *(f"{below}/{name}" for below in shell.folders)]  # from which it starts
        path = Path(name) if written else next((file for place in places if (file := found_file(place, folder))), None)
        try:
            if path is None:
                notes.append(f"{name}{NOT_FOUND}")
                # Of an accelerate launch it says where to run, not what.
                partial |= name.endswith((".yaml", ".yml", ".toml")) and name != flags.get("config_file")
            elif path.suffix == ".py":
                text = path.read_text(encoding="utf-8", errors="replace")[:LARGEST]
                python = read_python(text, path.parent, flags)
                settings, words = settings | python.found, (*words, *python.words)
            else:
                entries = read_named(path, shell.files)
                settings |= {f"{prefix}.{key}": value for key, value in entries.items()} if prefix else entries
        except (OSError, ValueError):
            notes.append(f"{name} cannot be read")
    if "per_device_train_batch_size" in flags and (version := _pinned(folder, shell.folders)) is not None:
        settings["device_share"] = "prompts" if version < _OF_ROLLOUTS_SINCE else "rollouts"
    return ScriptSettings(settings | flags, words, notes, partial=partial)


def _pinned(folder: Path, below: Sequence[str]) -> int | None:
    """Return the minor version of TRL 0 that a repository asks for; None where it does not say one."""
    names = [
        f"{place}/{name}" for place in (*below, ".") for name in ("setup.py", "requirements.txt", "pyproject.toml")
    ]
    paths = [path for name in names if (path := found_file(name, folder)) and path.stat().st_size <= LARGEST]
    pins = (_PIN.search(path.read_text(encoding="utf-8", errors="replace")) for path in paths)
    return next((int(pin[1]) for pin in pins if pin), None)


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
        elif flag := _NAMING.fullmatch(word) or _CONFIGURED.fullmatch(word):
            if flag[1] and flag[1].endswith(SUFFIXES):
                yield flag[1], ""
        elif _is_file(word) and (not before.startswith("-") or _NAMING.fullmatch(before)):
            yield word, ""


def _is_file(word: str) -> bool:
    return word.endswith((*SUFFIXES, ".py")) and "=" not in word and not word.startswith("-")
