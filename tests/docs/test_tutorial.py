"""The tutorial, typed from the beginning to the end: it works, and prints what the page shows, but for its figures."""

import re
from pathlib import Path

import pytest

from docs.tools.tutorial import Step, play

INTERRUPTED = 130
COLUMNS = re.compile(r"\S {2,}\S")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tutorial")


@pytest.fixture(scope="module")
def steps(folder: Path) -> list[Step]:
    """Minutes of real training; every test of this module looks at the same."""
    return list(play(folder))


def headers(printed: str) -> list[str]:
    """The heads of tables: lines of names, without a figure, two spaces or more between them.

    A column of seeds is there only where the policy has run a configuration twice.
    """
    found = [line for line in printed.splitlines() if COLUMNS.search(line.strip()) and not re.search(r"\d", line)]
    return [
        " ".join(word for word in line.split() if word != "seed") for line in found if not line.startswith(" " * 10)
    ]


@pytest.mark.soak
def test_every_command_works(steps: list[Step]) -> None:
    for step in steps:
        expected = INTERRUPTED if step.shown.endswith("^C") else 0
        assert step.code == expected, (step.typed, step.errors)


@pytest.mark.soak
def test_what_is_printed_has_the_shape_of_what_is_shown(steps: list[Step]) -> None:
    for step in steps:
        missing = [head for head in headers(step.shown) if head not in headers(step.printed)]
        assert missing == [], step.typed


@pytest.mark.soak
def test_what_it_leaves_behind(steps: list[Step], folder: Path) -> None:
    assert steps
    assert (folder / "report.html").stat().st_size > 10_000
