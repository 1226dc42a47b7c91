"""Fingerprints of the code that makes curves, and of the files that a sweep was started with."""

import ast
import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from planner.config.trainer import BUILTIN, HERE, STANDIN, TINKER, TrainerChoice
from runner.sweep.spec import SweepSpec

# What a trial's curve is computed by: everything that runs within a trial, and the few parts of the other packages that
# its updates and scores rest on. What decides between trials, drives and shows them may change under a sweep.
MAKES_CURVES = ("runner", "planner/recipes", "planner/metrics.py", "budgets/growth.py")
ROOT = Path(__file__).resolve().parents[2]
DRIVES = ("runner/sweep", "runner/slurm", "runner/storage", "runner/rehearsal", "runner/tracking")
TRAINERS = "runner/trainers"  # a folder for each driver, beside what they have in common
# What only our own trainer runs; another's driver copies no module of it into a trial's folder.
OURS = ("runner/engines", "runner/policy")
WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_fingerprint(trainer: TrainerChoice | None = None, root: Path = ROOT) -> str:
    """Return a digest of what the code does that makes a trainer's curves.

    Comments, docstrings and line breaks do not count, nor what only other trainers run.
    """
    digest = hashlib.sha256()
    passed_over = {root / folder for folder in (*DRIVES, *_of_others(root, trainer.name if trainer else BUILTIN))}
    for path in (root / place for place in MAKES_CURVES):
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            if passed_over.isdisjoint(file.parents):
                digest.update(f"{file.relative_to(root)} {_code_of(file, file.stat().st_mtime_ns)}".encode())
    return digest.hexdigest()[:16]


@cache
def _code_of(path: Path, _modified: int) -> str:
    """Return a digest of what a file says, without comments and docstrings, worked out once until it is written to."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _of_others(root: Path, trainer: str) -> list[str]:
    """List the folders that only other trainers use; a stand-in is made of those that it stands for."""
    if trainer == BUILTIN:
        return [TRAINERS]
    folder = trainer.replace("-", "_")
    others = [path.name for path in (root / TRAINERS).glob("*/") if path.name != folder and trainer != STANDIN]
    engines = () if trainer == TINKER else OURS  # a service is driven by our own trainer's loop
    return [*engines, *(f"{TRAINERS}/{name}" for name in others)]


def configuration_fingerprint(spec: SweepSpec) -> str:
    """Return a digest of a sweep's settings and of the contents of the files that they name."""
    settings = spec.model_dump(mode="json", exclude={"tracking"})  # who looks on changes no curve
    if spec.champion is None:  # as in sweeps that were begun before there were champions
        del settings["champion"]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    task = spec.training.task
    reward = task.reward.rpartition(":")[0] if ".py:" in task.reward else None
    data = [source.path for source in (*task.data, *task.validation)]
    models = (task.model, *spec.training.models.values())
    names = (task.name, *models, task.validation_file, *data, task.chat_template, reward)
    paths = [path for path in map(Path, filter(None, names)) if path.exists()]
    for path in paths + _files_of_trainer(spec.training.trainer):
        digest.update(str(path).encode() + b"\0")
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if not file.is_file():
                continue
            size = file.stat().st_size
            if size > 64 * 2**20:  # of a large file, such as weights, its name and size must do
                digest.update(f"{file.name}:{size}".encode())
            else:
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _files_of_trainer(trainer: TrainerChoice | None) -> list[Path]:
    """List the files that a trainer's options name anywhere, such as the script in its command."""
    if trainer is None:
        return []
    folder = str(trainer.options.get(HERE, ""))
    files: set[Path] = set()
    for text in _texts([trainer.options, trainer.environment]):
        words = [text]
        with suppress(ValueError):  # a pattern need not be a command line
            words += shlex.split(text)
        places = {part for word in words for part in (word, word.partition("=")[2])}
        files |= {Path(place.replace(f"{{{HERE}}}", folder)) for place in places if os.sep in place}
    return sorted(path for path in files if path.is_absolute() and os.path.isfile(path))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
