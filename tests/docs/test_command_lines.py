"""Every command line of README, CONTRIBUTING and docs is run; the few that cannot be are at least understood."""

import glob
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rlplan.cli import app
from tests.docs.examples import furnish
from tests.docs.lines import PAGES, ROOT, Line, lines, name
from tests.rlplan.conftest import Run

TUTORIAL = ROOT / "docs" / "tutorial.md"  # test_tutorial.py runs it from the beginning to the end
WRITTEN = ROOT / "docs" / "commands.md"  # test_pages.py compares it with the commands
# Why a line is not run here but only understood: its command is there, and takes these flags and arguments.
NOT_RUN = {
    "trains for minutes": r"^rlplan sweep( --task sum-\w+ --budget [\d.]+)?( --trainer \S+)?$",
    "reads what a run left": r"^rlplan fit rlplan-sweeps/sweep-1-final/n8",
    "asks a sweep that trains": r"^rlplan (resume|retry|pause|stop)\b",
    "runs what a sweep recommends": r"^rlplan launch\b",
    "needs a Ray cluster": r"--ray-address",
    "needs Slurm": r"^rlplan sweep --slurm",
    "needs a script of verl": r"--from run_grpo\.sh",
    "needs checkpoints of language models": r"--model (models/|qwen2\.5-1\.5b=)",
    "needs a PostgreSQL server": r"postgresql://",
    "stays until it is stopped": r"^rlplan (dashboard|status.* --watch|watch (?!.*--once).*)\b",
}


def reason(line: Line) -> str | None:
    """Return why a line is not run, if it is not."""
    typed = line.text.partition(" #")[0].strip()
    return next((why for why, like in NOT_RUN.items() if re.search(like, typed)), None)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in (TUTORIAL, WRITTEN)], ids=name)
def test_every_line_of_rlplan_works(run: Run, page: Path, tmp_path: Path) -> None:
    furnish(tmp_path, page.name)
    for line in lines(page):
        if line.program == "rlplan" and reason(line) is None:
            ran = run(*expanded(line.words[1:], tmp_path))
            assert ran.code == 0, (str(line), ran.err)
            assert ran.out or ran.err, str(line)


def expanded(words: tuple[str, ...], folder: Path) -> Iterator[str]:
    """Yield the words with patterns of files replaced by the files, as a shell does."""
    for word in words:
        found = sorted(glob.glob(word, root_dir=folder)) if "*" in word else []
        yield from found or [word]


def left_out() -> list[Line]:
    """The lines that are not run, and those of the tutorial, which a longer test runs."""
    every = [line for page in PAGES if page != WRITTEN for line in lines(page) if line.program == "rlplan"]
    return [line for line in every if line.page == TUTORIAL or reason(line)]


@pytest.mark.parametrize("line", left_out(), ids=str)
def test_a_line_that_is_not_run_is_understood(line: Line) -> None:
    group: Any = get_command(app)
    if len(line.words) == 1:
        return
    command = group.get_command(None, line.words[1])
    assert command is not None, f"there is no such command: {line}"
    with command.make_context(line.words[1], list(line.words[2:])):
        pass


def test_what_is_not_run_is_named_for_a_line_that_there_is() -> None:
    used = Counter(reason(line) for line in left_out())
    assert set(NOT_RUN) <= set(used)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_target_of_make_and_every_script_is_there(page: Path) -> None:
    for line in lines(page):
        if line.program == "make":
            asked = ["make", "--dry-run", *line.words[1:]]
            made = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
            assert made.returncode == 0, (str(line), made.stderr)
        if line.program == "python":
            script = line.words[2].replace(".", "/") + ".py" if line.words[1] == "-m" else line.words[1]
            package = script.removesuffix(".py") + "/__main__.py"
            assert (ROOT / script).exists() or (ROOT / package).exists(), str(line)
