"""The saves of one trial at a place: each a folder of files, and a mark that is written last and names them.

A save without its mark is torn, and one whose files are not as its mark says is damaged: both are passed over. Of two
saves the one of the later segment is the newer, however far the other went: its segment was given up.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from os import walk
from pathlib import Path

from pydantic import TypeAdapter

from budgets.errors import CheckpointError
from runner.ports.backend import never
from runner.storage.place import Place

TO_KEEP = 2  # of a trial that may go on: should one be torn, the one before is gone on from
ASIDE = "fetched"  # in a trial's folder: what was fetched until it is known to be whole
_MARK = re.compile(r"\d{8}-\d{8}\.json")
_AT_ONCE = 8  # files on the way
_SMALL = 2**20  # bytes


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
    """What is kept of a trial at a place that is this trial's alone."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def put(
        self, segment: int, step: int, folder: Path, parts: Sequence[Path], given_up: Callable[[], bool] = never
    ) -> Save:
        """Write a save of parts of a trial's folder, and remove what is older than the last two.

        CheckpointError once it is `given_up`, which is looked at before each file.
        """
        save = Save(segment, step, tuple(str(part.relative_to(folder)) for part in parts), {})

        def send(path: Path) -> None:
            name = str(path.relative_to(folder))
            large = path.stat().st_size > _SMALL
            # A small one may be written anew meanwhile, such as a trainer's tracker: it is read once.
            data = b"" if large else path.read_bytes()
            save.files[name] = _facts(path) if large else (len(data), hashlib.sha256(data).hexdigest())
            if given_up():
                raise CheckpointError(f"{save.name}/{name} is not sent: the save was given up")
            if large:
                self.place.put(path, f"{save.name}/{name}")
            else:
                self.place.write(f"{save.name}/{name}", data)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(send, [path for part in parts for path in _files(part)]))
        self.place.write(f"{save.name}.json", json.dumps(asdict(save)).encode())
        names = self.place.names()
        marks = sorted(name for name in names if _MARK.fullmatch(name) and name <= f"{save.name}.json")[-TO_KEEP:]
        self.place.remove(*(name for name in names if _stem(name) < save.name and f"{_stem(name)}.json" not in marks))
        return save

    def marked(self) -> Iterator[Save]:
        """Yield the saves that have their mark, the newest first."""
        for name in sorted(filter(_MARK.fullmatch, self.place.names()), reverse=True):
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

        def get(name: str) -> None:
            self.place.get(f"{save.name}/{name}", aside / name)
            if _facts(aside / name) != tuple(save.files[name]):
                raise CheckpointError(f"{self.place.url}/{save.name}/{name} is damaged: it is not what was written")

        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(get, save.files))
            before()
            for part in save.parts:
                if (folder / part).is_dir():
                    shutil.rmtree(folder / part)
                (folder / part).parent.mkdir(parents=True, exist_ok=True)
                (aside / part).replace(folder / part)
        except OSError as error:
            raise CheckpointError(f"{self.place.url} cannot be fetched to {folder}: {error}") from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _stem(name: str) -> str:
    """Return the name of the save that a file belongs to, or marks."""
    return name.partition("/")[0].removesuffix(".json")


def _files(part: Path) -> Iterator[Path]:
    """Yield a file, or all files below a folder."""
    if not part.is_dir():
        yield part
    for above, _, names in walk(part, followlinks=True):
        yield from (Path(above) / name for name in sorted(names))


def _facts(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest
