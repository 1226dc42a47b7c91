"""Keeps a copy of a trial elsewhere: what its folder holds goes there after a save, and comes back before a segment.

A trial's folder is on the fast disk of whichever machine runs it, so another machine's may be older, or of a segment
that was given up. Which save it last shared with the place stands in the folder, and tells whether it can be gone on
from.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from budgets.errors import CheckpointError
from planner.disk import room
from runner.ports.backend import never
from runner.ports.executor import Work
from runner.ports.trial import TrialConfig
from runner.storage.place import Place
from runner.storage.saves import ASIDE, Save, Saves
from runner.training import checkpoints
from runner.training.trial import METRICS, replace_file

SHARED = "stored.txt"  # in a trial's folder: the name of the newest save that both have
_PAUSES = (1.0, 4.0, 15.0, 60.0)  # seconds between looks at storage that does not answer


class Mirror:
    """The copy of one trial, as one of its workers sees it."""

    def __init__(self, work: Work, config: TrialConfig, sleep: Callable[[float], object] = time.sleep) -> None:
        """Of a trial whose work names a URL."""
        assert work.storage is not None
        self._config, self._folder, self._sleep = config, Path(work.folder), sleep
        self._saves = Saves(Place(work.storage))
        self._stored: Save | None = None

    def fetch(self, from_step: int) -> list[str]:
        """Have the folder hold what can be gone on from, and return what a reader should know of that."""
        shutil.rmtree(self._folder / ASIDE, ignore_errors=True)
        has_step = from_step in (0, newest_step(self._config, self._folder))
        try:
            saves = self._marked(() if has_step else _PAUSES)
        except CheckpointError as error:
            if has_step:
                return [f"goes on from what this machine has: {error}"]
            raise
        if not saves or self._shared() == saves[0].name:
            return []
        self._require_room(saves[0])
        notes = []
        for save in saves:
            try:
                self._saves.fetch(save, self._folder, self._make_room)
            except CheckpointError as error:
                notes.append(f"a save is passed over: {error}")
                continue
            replace_file(self._folder / SHARED, save.name)
            return notes
        if newest_step(self._config, self._folder) is None:
            raise CheckpointError(f"none of the saves of the trial can be gone on from: {'; '.join(notes)}")
        return notes

    def _marked(self, pauses: Sequence[float]) -> list[Save]:
        """Return the saves, asked for again after each pause while the storage does not answer."""
        for pause in pauses:
            with suppress(CheckpointError):
                return list(self._saves.marked())
            self._sleep(pause)
        return list(self._saves.marked())

    def _shared(self) -> str | None:
        """Return what the folder shares with the place; nothing where its checkpoints are gone."""
        with suppress(OSError):
            if newest_step(self._config, self._folder) is not None:
                return (self._folder / SHARED).read_text(encoding="utf-8")
        return None

    def _require_room(self, save: Save) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        size = sum(bytes_ for bytes_, _ in save.files.values())
        if shutil.disk_usage(self._folder).free < size:
            raise CheckpointError(
                f"a segment is not begun, for the copy that it goes on from finds no room: {room(self._folder, size)}"
            )

    def _make_room(self) -> None:
        """Remove what this machine has of a course that was given up, or of an older time."""
        (self._folder / SHARED).unlink(missing_ok=True)
        remove_checkpoints(self._config, self._folder)

    def store(self, segment: int, given_up: Callable[[], bool] = never) -> tuple[str | None, list[str]]:
        """Store the newest complete checkpoint with its points, and return its URL, or else what went wrong.

        One that is given up on the way is passed over: a later save is stored in its place.
        """
        step, parts = next(iter(checkpoints_of(self._config, self._folder)), (0, ()))
        if not parts:
            return None, []
        if self._stored is None or (self._stored.segment, self._stored.step) != (segment, step):
            try:
                self._stored = self._saves.put(segment, step, self._folder, parts, given_up)
            except (CheckpointError, OSError) as error:  # the folder still has it, and the next save may succeed
                return None, [] if given_up() else [f"step {step} is saved on this machine alone: {error}"]
            replace_file(self._folder / SHARED, self._stored.name)
        return f"{self._saves.place.url}/{self._stored.name}", []


def checkpoints_of(config: TrialConfig, folder: Path) -> list[tuple[int, Sequence[Path]]]:
    """Return the complete checkpoints in a trial's folder, the newest first, each with all that it needs to go on."""
    points = [path for path in (folder / METRICS,) if path.exists()]
    if config.trainer is None:
        return [(saved.step, (saved.path, *points)) for saved in checkpoints.saved(folder)]
    from runner.trainers.storing import parts_of  # noqa: PLC0415

    return [(step, (*parts, *points)) for step, parts in parts_of(config, folder)]


def newest_step(config: TrialConfig, folder: Path) -> int | None:
    """Return the step of the newest complete checkpoint in a trial's folder."""
    return next((step for step, _ in checkpoints_of(config, folder)), None)


def remove_checkpoints(config: TrialConfig, folder: Path) -> None:
    """Remove a trial's checkpoints, whoever trained it; its points and logs stay."""
    checkpoints.remove(folder)
    if config.trainer is not None:
        from runner.trainers.storing import remove_all  # noqa: PLC0415

        remove_all(config, folder)
