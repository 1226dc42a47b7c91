"""Checkpoints that are whole or not there: written aside, synced, renamed, and checked by a digest when read.

A file begins with the SHA-256 of what follows. The last two are kept; a damaged one is passed over for the one before.
What follows is a torch archive, or JSON for a trial without tensors, which is then saved and read without torch.
"""

import hashlib
import io
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from budgets.errors import CheckpointError, InputError, NotFoundError
from planner.disk import why
from planner.tables import flattened
from runner.ports.backend import Saved
from runner.ports.trial import TrialConfig

TO_KEEP = 2
TENSORS: Final = ".pt"  # endings of files by what they hold: a torch archive
PLAIN: Final = ".json"
_NAME = re.compile(r"checkpoint-\d{8}\.(pt|json)$")
_DIGEST_BYTES = 64
_MAGIC = b"rlplan checkpoint 1\n"
_START = len(_MAGIC) + _DIGEST_BYTES + 1
# What a recipe says of itself, how a trainer is started, and how often a score is taken, changes no update.
_WORDS = (
    *("recipe.sources", "recipe.summary", "trainer.python", "trainer.launcher", "trainer.patience."),
    "validation.every_rollouts",
)


@dataclass(frozen=True, slots=True)
class Restored:
    """A state that was read, from which file, and what was wrong with newer ones."""

    path: Path
    state: dict[str, Any]
    notes: tuple[str, ...]


def save(folder: Path, step: int, state: Mapping[str, Any], form: str = TENSORS) -> Path:
    """Write the state of a step atomically and drop all but the last two."""
    path = folder / f"checkpoint-{step:08d}{form}"
    aside = path.with_suffix(".writing")
    try:
        folder.mkdir(exist_ok=True)  # not what it stands in: a storage that is away would be written beside
        _write(aside, state, form)
        os.replace(aside, path)
        _sync(folder)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        aside.unlink(missing_ok=True)
        last = _newest_first(folder)[:1]
        stands = f"{last[0].name} stands" if last else "there is none before it"
        raise CheckpointError(
            f"the checkpoint of step {step} cannot be written to {folder} ({why(error, folder)}); {stands}"
        ) from error
    for old in _newest_first(folder)[TO_KEEP:]:
        old.unlink(missing_ok=True)
    return path


def load(folder: Path, form: str = TENSORS) -> Restored:
    """Return the newest sound checkpoint of a format, with a note for each damaged one that was passed over."""
    notes: list[str] = []
    for path in _newest_first(folder):
        if path.suffix != form:
            continue
        try:
            return Restored(path, _read(path, form), tuple(notes))
        except CheckpointError as error:
            notes.append(str(error))
    reason = f": {'; '.join(notes)}" if notes else ""
    raise NotFoundError(f"no sound checkpoint in {folder}{reason}")


def saved(folder: Path) -> list[Saved]:
    """Return the checkpoints in a folder, sound or not and of whatever format, the newest first."""
    return [Saved(int(path.stem.rpartition("-")[2]), path) for path in _newest_first(folder)]


def exists(folder: Path) -> bool:
    """Whether the folder holds any checkpoint, sound or not and of whatever format."""
    return bool(_newest_first(folder))


def remove(folder: Path) -> None:
    """Remove all checkpoints of a trial that nobody goes on with."""
    for path in _newest_first(folder):
        with suppress(OSError):
            path.unlink()


def _write(path: Path, state: Mapping[str, Any], form: str) -> None:
    with path.open("wb") as file:
        file.write(_MAGIC + b"0" * _DIGEST_BYTES + b"\n")
        hashing: Any = _Hashing(file)
        if form == PLAIN:
            hashing.write(json.dumps(dict(state)).encode())
        else:
            import torch

            torch.save(dict(state), hashing)
        file.seek(len(_MAGIC))
        file.write(hashing.digest.hexdigest().encode())
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path, form: str) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read ({error.strerror})") from error
    stated, payload = data[len(_MAGIC) : _START - 1], memoryview(data)[_START:]
    if data[: len(_MAGIC)] != _MAGIC or stated != hashlib.sha256(payload).hexdigest().encode():
        raise CheckpointError(f"{path.name} is damaged: its checksum does not match its {len(data):,} bytes")
    if form == PLAIN:
        state: dict[str, Any] = json.loads(bytes(payload))
        return state
    import torch

    tensors: dict[str, Any] = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    return tensors


def _newest_first(folder: Path) -> list[Path]:
    folders = [path for path in folder.glob("checkpoint-*") if _NAME.search(path.name)] if folder.is_dir() else []
    return sorted(folders, key=lambda path: path.name, reverse=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _Hashing(io.RawIOBase):
    """A file that is only written to, front to back, and takes the digest on the way."""

    def __init__(self, file: io.BufferedWriter) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return self._file.write(data)


def require_free(folder: Path) -> None:
    """Refuse a folder that holds a trial already."""
    if exists(folder):
        raise InputError(f"{folder} holds checkpoints of a trial already: resume it, or give another folder")


def resumed(folder: Path, config: TrialConfig, form: str = TENSORS) -> Restored:
    """Return the newest sound checkpoint of a trial, with notes on what was passed over or is another machine's."""
    restored = load(folder, form)
    return replace(
        restored, notes=(*restored.notes, *compared(restored.state["config"], config.model_dump(mode="json")))
    )


def compared(saved: dict[str, Any], config: dict[str, Any]) -> list[str]:
    """Refuse another trial's checkpoint; another machine's is taken, with a note that the last bits may differ."""
    old, new = dict(flattened(saved)), dict(flattened(config))
    differences = {
        key: f"{key} was {old.get(key)!r} and is {new.get(key)!r}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and not key.startswith(_WORDS)
    }
    changed = [text for key, text in differences.items() if not key.startswith("machine.")]
    if changed:
        raise InputError(
            f"the checkpoint is of another configuration: {'; '.join(changed)}. Resume with the one that it was "
            "started with, or start anew in another folder"
        )
    return [f"{text}: the run goes on, but not bit for bit" for text in differences.values()]
