"""The saves of one trial at a place: each a folder of files, and a mark that is written last and names them.

A save without its mark is torn, and one whose files are not as its mark says is damaged: both are passed over. Of two
saves the one of the later segment is the newer, however far the other went: its segment was given up.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from budgets.errors import CheckpointError
from runner.ports.backend import never
from runner.storage.place import Place

TO_KEEP = 2  # of a trial that may go on: should one be torn, the one before is gone on from
_MARK = re.compile(r"\d{8}-\d{8}\.json")
_AT_ONCE = 8  # files on the way
_SMALL = 2**20  # bytes
ASIDE = "fetched"  # in a trial's folder: what was fetched until it is known to be whole


@dataclass(frozen=True, slots=True)
class Save:
    """What a mark says."""

    segment: int
    step: int
    parts: tuple[str, ...]  # files and folders, relative to the trial's folder
    files: dict[str, tuple[int, str]]  # each file of the parts, its bytes and its SHA-256

    @property
    def name(self) -> str:
        """Names that sort as the saves do."""
        return f"{self.segment:08d}-{self.step:08d}"


_SAVE = TypeAdapter(Save)


class Saves:
    """What is kept of a trial."""

    def __init__(self, place: Place) -> None:
        """Of a folder that is this trial's alone."""
        self.place = place

    def put(
        self, segment: int, step: int, folder: Path, parts: Sequence[Path], given_up: Callable[[], bool] = never
    ) -> Save:
        """Write a save of parts of a trial's folder, and remove what is older than the last two.

        CheckpointError once it is `given_up`, which is looked at before each file.
        """
        files = {str(path.relative_to(folder)): path for part in parts for path in _files(part)}
        name = Save(segment, step, (), {}).name
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            sent = pool.map(lambda each: self._sent(files[each], f"{name}/{each}", given_up), files)
            facts = dict(zip(files, sent, strict=True))
        save = Save(segment, step, tuple(str(part.relative_to(folder)) for part in parts), facts)
        self.place.write(f"{name}.json", json.dumps(asdict(save)).encode())
        self._retain(save)
        return save

    def marked(self) -> Iterator[Save]:
        """Yield the saves that have their mark, the newest first."""
        marks = [name for name in self.place.names() if _MARK.fullmatch(name)]
        for name in sorted(marks, reverse=True):
            try:
                yield _SAVE.validate_json(self.place.read(name))
            except ValueError:  # the mark itself is torn
                continue

    def fetch(self, save: Save, folder: Path, before: Callable[[], None]) -> None:
        """Put a save into a trial's folder; CheckpointError where it is not whole, and nothing has changed then.

        `before` makes room in the folder once it is known that all has come.
        """
        aside = folder / ASIDE
        shutil.rmtree(aside, ignore_errors=True)
        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(lambda name: self._fetched(save, name, aside / name), save.files))
            before()
            for part in save.parts:
                _replace(aside / part, folder / part)
        except OSError as error:
            raise CheckpointError(f"{self.place.url} cannot be fetched to {folder}: {error}") from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def clear(self) -> None:
        """Remove all of them, the marks first."""
        names = self.place.names()
        self.place.remove(*sorted(names, key=lambda name: (not _MARK.fullmatch(name), name)))

    def _sent(self, path: Path, name: str, given_up: Callable[[], bool]) -> tuple[int, str]:
        """Send a file and return its facts; a small one may be written anew meanwhile, such as a trainer's tracker."""
        large = path.stat().st_size > _SMALL
        facts = _facts(path) if large else (0, "")
        if given_up():
            raise CheckpointError(f"{name} is not sent: the save was given up")
        if large:
            self.place.put(path, name)
            return facts
        data = path.read_bytes()
        self.place.write(name, data)
        return len(data), hashlib.sha256(data).hexdigest()

    def _fetched(self, save: Save, name: str, path: Path) -> None:
        self.place.get(f"{save.name}/{name}", path)
        if _facts(path) != tuple(save.files[name]):
            raise CheckpointError(f"{self.place.url}/{save.name}/{name} is damaged: it is not what was written")

    def _retain(self, newest: Save) -> None:
        """Remove what is older than the last two, and what was never finished, but nothing newer."""
        names = self.place.names()
        marks = sorted(name for name in names if _MARK.fullmatch(name) and name <= f"{newest.name}.json")[-TO_KEEP:]
        stems = {name.removesuffix(".json") for name in marks}
        old = [name for name in names if (stem := name.split("/")[0][:17]) not in stems and stem < newest.name]
        self.place.remove(*sorted(old, key=lambda name: (not _MARK.fullmatch(name), name)))


def _files(part: Path) -> Iterator[Path]:
    """Yield a file, or all files below a folder."""
    if not part.is_dir():
        yield part
    for above, _, names in os.walk(part, followlinks=True):
        yield from (Path(above) / name for name in sorted(names))


def _facts(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


def _replace(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
