"""Records what commands answer, trainers are told and policies decide: `python -m tests.golden.record [GROUP…]`.

A refactoring changes none of it; run this after an intended change, and read the diff before it is committed.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

from tests.golden.commands import ALONE, READING, answer, write_files
from tests.golden.databases import DATABASES, make_database
from tests.golden.decisions import played_decisions
from tests.golden.trainers import NAMED, rendered_trainer

OUTPUTS = Path(__file__).parent / "outputs"
Files = Iterator[tuple[str, str]]  # names within a group, and contents


def reading_answers(database: str, folder: Path) -> Files:
    """Yield what commands say of one of the five databases."""
    make_database(folder, database)
    for name, (words, forms) in READING.items():
        yield f"{name}.txt", "\n".join(answer(folder, words, form) for form in forms)


def answers_over_files(folder: Path) -> Files:
    """Yield what commands say that need no database, each in a folder of its own."""
    for name, (words, forms) in ALONE.items():
        place = folder / name
        place.mkdir(parents=True)
        write_files(place)
        texts = []
        for form in forms:
            texts.append(answer(place, words, form))
            (place / "rlplan.db").unlink(missing_ok=True)
        yield f"{name}.txt", "\n".join(texts)


def trainers_files(trainer: str, folder: Path) -> Files:
    """Yield what a named trainer is told."""
    yield "rendered.txt", rendered_trainer(trainer, folder / "golden" / "runs")


def decided(_: Path) -> Files:
    """Yield what the policies decide."""
    yield "plays.json", played_decisions()


GROUPS: dict[str, Callable[[Path], Files]] = {
    **{database: partial(reading_answers, database) for database in DATABASES},
    "files": answers_over_files,
    **{f"trainer-{trainer}": partial(trainers_files, trainer) for trainer in NAMED},
    "decisions": decided,
}


def made(group: str, folder: Path) -> dict[str, str]:
    """Return the files of a group as a machine of two cores makes them: plans of small tasks and verl count cores."""
    with mock.patch("os.sched_getaffinity", return_value={0, 1}):
        return dict(GROUPS[group](folder))


def differences(group: str, folder: Path) -> dict[str, tuple[str, str]]:
    """Return the files of a group that are not as they were recorded: what they hold now, and held."""
    now = made(group, folder)
    recorded = {path.name: path.read_text(encoding="utf-8") for path in (OUTPUTS / group).iterdir()}
    names = sorted(now.keys() | recorded.keys())
    pairs = {name: (now.get(name, ""), recorded.get(name, "")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def main() -> None:
    """Write the files of groups anew; those that nothing makes any more are gone afterwards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; all without one")
    for group in parser.parse_args().groups or GROUPS:
        with tempfile.TemporaryDirectory() as folder:
            files = made(group, Path(folder))
        shutil.rmtree(OUTPUTS / group, ignore_errors=True)
        for name, content in files.items():
            path = OUTPUTS / group / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
