"""Keeps a copy of a trial elsewhere: what its folder holds goes there after a save, and comes back before a segment.

A trial's folder is on the fast disk of whichever machine runs it, so another machine's may be older, or of a segment
that was given up. Which save it last shared with the place stands in the folder, and tells whether it can be gone on
from.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from budgets.errors import CheckpointError
from planner.disk import room
from runner.ports.trial import TrialConfig
from runner.storage.place import Place
from runner.trainers.catalogue import checkpoints_of, newest_step, remove_checkpoints
from runner.training.trial import replace_file

SHARED = "stored.txt"  # in a trial's folder: the name of the newest save that both have
TO_KEEP = 2  # of a trial that may go on: should one be torn, the one before is gone on from
_ASIDE = "fetched"  # in a trial's folder: what was fetched until it is known to be whole
_MARK = re.compile(r"\d{8}-\d{8}\.json")


@dataclass(frozen=True, slots=True)
class Save:
    """A checkpoint at a place: a folder of files, and a mark that is written last and says what is here."""

    name: str  # SEGMENT-STEP. Of two the later segment's is the newer, however far the other went: it was given up
    parts: Sequence[str]  # files and folders, relative to the trial's folder
    files: Mapping[str, int]  # each file of the parts, and its bytes at the place


_SAVE = TypeAdapter(Save)


class Mirror:
    """The copy of one trial, at a place that is this trial's alone, as one of its workers sees it."""

    def __init__(self, storage: str, folder: Path, config: TrialConfig) -> None:
        self._place, self._folder, self._config = Place(storage), folder, config
        self._stored: str | None = None

    def saves(self) -> list[Save]:
        """Return the saves that have their mark, the newest first."""
        saves = []
        for name in sorted(filter(_MARK.fullmatch, self._place.names()), reverse=True):
            with suppress(ValueError):  # the mark itself is torn
                saves.append(_SAVE.validate_json(self._place.read(name)))
        return saves

    def fetch(self, from_step: int) -> list[str]:
        """Have the folder hold what can be gone on from, and return what a reader should know of that."""
        shutil.rmtree(self._folder / _ASIDE, ignore_errors=True)
        try:
            saves = self.saves()
        except CheckpointError as error:
            if from_step in (0, newest_step(self._config, self._folder)):
                return [f"goes on from what this machine has: {error}"]
            raise
        if not saves or self._shared() == saves[0].name:
            return []
        size = sum(saves[0].files.values())
        if shutil.disk_usage(self._folder).free < size:
            raise CheckpointError(
                f"a segment is not begun, for the copy that it goes on from finds no room: {room(self._folder, size)}"
            )
        notes = []
        for save in saves:
            try:
                self._replace_by(save)
            except CheckpointError as error:
                notes.append(f"a save is passed over: {error}")
            else:
                return notes
        if newest_step(self._config, self._folder) is None:
            raise CheckpointError(f"none of the saves of the trial can be gone on from: {'; '.join(notes)}")
        return notes

    def _shared(self) -> str | None:
        """Return what the folder shares with the place; nothing where its checkpoints are gone."""
        with suppress(OSError):
            if newest_step(self._config, self._folder) is not None:
                return (self._folder / SHARED).read_text(encoding="utf-8")
        return None

    def _replace_by(self, save: Save) -> None:
        """Have the folder hold a save in place of its own; where that is not whole, nothing has changed."""
        aside = self._folder / _ASIDE
        try:
            self._place.get(aside, save.files, f"{save.name}/")
            for name, size in save.files.items():
                if (aside / name).stat().st_size != size:
                    raise CheckpointError(f"{self._place.url}/{save.name}/{name} is damaged: it has not {size:,} bytes")
            # What this machine has is of a course that was given up, or of an older time.
            (self._folder / SHARED).unlink(missing_ok=True)
            remove_checkpoints(self._config, self._folder)
            for part in save.parts:
                target = self._folder / part
                if target.is_dir():
                    shutil.rmtree(target)
                target.parent.mkdir(parents=True, exist_ok=True)
                (aside / part).replace(target)
        except OSError as error:
            raise CheckpointError(f"{self._place.url} cannot be fetched to {self._folder}: {error}") from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        replace_file(self._folder / SHARED, save.name)

    def store(self, segment: int) -> tuple[str | None, list[str]]:
        """Store the newest complete checkpoint with its points, and return its URL, or else what went wrong."""
        step, parts = next(iter(checkpoints_of(self._config, self._folder)), (0, ()))
        if not parts:
            return None, []
        name = f"{segment:08d}-{step:08d}"
        if self._stored != name:
            try:
                self._put(name, parts)
            except CheckpointError as error:  # the folder still has it, and the next save may succeed
                return None, [f"step {step} is saved on this machine alone: {error}"]
            self._stored = name
            replace_file(self._folder / SHARED, name)
        return f"{self._place.url}/{name}", []

    def _put(self, name: str, parts: Sequence[Path]) -> None:
        """Write a save, and remove what is older than the last two."""
        files = [str(path.relative_to(self._folder)) for part in parts for path in _files(part)]
        self._place.put(self._folder, files, f"{name}/")
        stored = self._place.names()
        # A small file, such as a trainer's tracker, may be written anew meanwhile: what counts is what came.
        sizes = {file: stored.get(f"{name}/{file}", 0) for file in files}
        save = Save(name, [str(part.relative_to(self._folder)) for part in parts], sizes)
        self._place.write(f"{name}.json", json.dumps(asdict(save)).encode())
        former = sorted(mark[:-5] for mark in stored if _MARK.fullmatch(mark) and mark < f"{name}.json")
        owners = {file: file.partition("/")[0].removesuffix(".json") for file in stored}
        self._place.remove(
            file for file, owner in owners.items() if owner < name and owner not in former[1 - TO_KEEP :]
        )


def _files(part: Path) -> list[Path]:
    """Return a file, or all files below a folder."""
    if not part.is_dir():
        return [part]
    return [Path(above, name) for above, _, names in os.walk(part, followlinks=True) for name in names]
