"""Checkpoints that are whole or not there: written aside, synced, renamed, and checked by a digest when read.

A file begins with the SHA-256 of what follows. The last two are kept; a damaged one is passed over for the one before.
"""

import hashlib
import io
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgets.errors import CheckpointError, NotFoundError

KEPT = 2
_NAME = re.compile(r"checkpoint-(\d{8})\.pt$")
_DIGEST_BYTES = 64
_MAGIC = b"rlplan checkpoint 1\n"
_START = len(_MAGIC) + _DIGEST_BYTES + 1


@dataclass(frozen=True, slots=True)
class Restored:
    """A state that was read, from which file, and what was wrong with newer ones."""

    path: Path
    state: dict[str, Any]
    notes: tuple[str, ...]


def save(folder: Path, step: int, state: Mapping[str, Any]) -> Path:
    """Write the state of a step atomically and drop all but the last two."""
    path = folder / f"checkpoint-{step:08d}.pt"
    aside = path.with_suffix(".writing")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(aside, state)
        os.replace(aside, path)
        _sync(folder)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        aside.unlink(missing_ok=True)
        last = _newest_first(folder)[:1]
        stands = f"{last[0].name} stands" if last else "there is none before it"
        raise CheckpointError(
            f"the checkpoint of step {step} cannot be written to {folder} ({error}); {stands}"
        ) from error
    for old in _newest_first(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def load(folder: Path) -> Restored:
    """Return the newest sound checkpoint, with a note for each damaged one that was passed over."""
    notes: list[str] = []
    for path in _newest_first(folder):
        try:
            return Restored(path, _read(path), tuple(notes))
        except CheckpointError as error:
            notes.append(str(error))
    reason = f": {'; '.join(notes)}" if notes else ""
    raise NotFoundError(f"no sound checkpoint in {folder}{reason}")


def exists(folder: Path) -> bool:
    """Whether the folder holds any checkpoint, sound or not."""
    return bool(_newest_first(folder))


def _write(path: Path, state: Mapping[str, Any]) -> None:
    import torch  # noqa: PLC0415

    with path.open("wb") as file:
        file.write(_MAGIC + b"0" * _DIGEST_BYTES + b"\n")
        hashing: Any = _Hashing(file)  # all that torch needs of a file is `write`
        torch.save(dict(state), hashing)
        file.seek(len(_MAGIC))
        file.write(hashing.digest.hexdigest().encode())
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> dict[str, Any]:
    import torch  # noqa: PLC0415

    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read ({error.strerror})") from error
    stated, payload = data[len(_MAGIC) : _START - 1], memoryview(data)[_START:]
    if data[: len(_MAGIC)] != _MAGIC or stated != hashlib.sha256(payload).hexdigest().encode():
        raise CheckpointError(f"{path.name} is damaged: its checksum does not match its {len(data):,} bytes")
    state: dict[str, Any] = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    return state


def _newest_first(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("checkpoint-*.pt") if _NAME.search(path.name)] if folder.is_dir() else []
    return sorted(found, key=lambda path: path.name, reverse=True)


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
