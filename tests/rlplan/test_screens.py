"""Every answer is one screen: 24 lines of 80 columns, plain words, and what can be typed next, which works."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rlplan.cli import app
from tests.planner.replay.tables import grid
from tests.rlplan.adopted_runs import FIVE, folders
from tests.rlplan.conftest import Run
from tests.rlplan.fit_samples import write
from tests.rlplan.test_replay_command import write as write_runs

# No reader should need one of these twice.
DIALECT = re.compile(
    r"\b(told|said|foretold|heed|bears|dear|luck|misjudged)\b|in hindsight|what it shows|not seen to|more of it|lies in"
)
SCREENS = (
    "propose --budget 5000",
    "propose --budget 500",
    "propose --task sum-easy --budget 0.3",
    "propose --task sum-easy --budget 0.02 --pilot-fraction 0",
    "propose --task sum-easy --budget 0.5 --recipes easy,dapo",
    "price -n 16 -B 128 --mean-response-tokens 2400",
    "preview --draws 1 --policy full --pilot-fractions 0,0.2",
    "status",
    "status --all",
    "rank",
    "recommend",
    "recommend --target 3",
    "decisions",
    "fit one.csv",
    "adopt runs/run-0 runs/run-1 runs/run-2 runs/run-3 runs/run-4 --gpu h100 --dry-run",
    "doctor",
    "watch one.csv --once",
    "replay runs.csv --budget 30% --target 100",
    "replay runs.csv --budget 30% --target 100 --policy random --repeat 2",
    "launch --dry-run",
    "sweep --dry-run --task sum-easy --budget 0.3",
)
QUICK = ("status", "rank", "recommend", "decisions", "fit", "price")


@pytest.fixture(scope="module")
def folder(swept_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep that has ended, a curve and runs of others."""
    made = tmp_path_factory.mktemp("screens")
    shutil.copytree(swept_folder, made, dirs_exist_ok=True)
    write(made / "one.csv")
    folders(made / "runs", FIVE)
    write_runs(made / "runs.csv", grid(cells=8, seeds=2, points=20))
    return made


def next_of(screen: str) -> list[list[str]]:
    """Return the commands below Next as a shell would split them."""
    below = re.sub(r" \\\n +", " ", screen.partition("\nNext\n")[2])
    commands = [line.strip() for line in below.splitlines() if line.startswith("  rlplan ")]
    return [shlex.split(re.split(r" {2,}", command)[0], comments=True) for command in commands]


def check(screen: str) -> None:
    assert len(screen.splitlines()) <= 24, screen
    assert max(map(len, screen.splitlines())) <= 80, screen
    assert DIALECT.search(screen) is None, screen
    assert re.search(r"\d%", screen.partition("\nNext\n")[0]) is None, screen  # 35 %, as everywhere
    group: Any = get_command(app)
    assert 1 <= len(next_of(screen)) <= 2, screen
    for _, verb, *words in next_of(screen):
        with group.get_command(None, verb).make_context(verb, words):
            pass


@pytest.mark.parametrize("asked", SCREENS)
def test_an_answer_is_one_screen_that_ends_with_what_works(
    run: Run, folder: Path, asked: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    ran = run(*asked.split(), "--db", "rl.db") if asked.startswith("propose") else run(*asked.split())
    assert ran.code == 0, ran.err
    check(ran.out)
    if asked.startswith("propose"):
        assert all(words[-2:] == ["--db", "rl.db"] for words in next_of(ran.out))
    for _, *words in next_of(ran.out):
        if words[0] in QUICK and words[0] != asked.partition(" ")[0]:
            assert run(*words).code == 0, words


@pytest.mark.parametrize("width", [40, 200])
@pytest.mark.parametrize("asked", ["rank", "status n2", "status --explain", "recommend --explain", "fit one.csv"])
def test_no_line_is_wider_than_what_it_is_drawn_on(
    run: Run, folder: Path, asked: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    ran = run(*asked.split(), width=width)
    assert ran.code == 0, ran.err
    assert max(map(len, ran.out.partition("\nNext\n")[0].splitlines())) <= width


def test_a_command_below_is_never_broken_within_a_word(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / ("folder" * 14) / "one.csv")
    commands = next_of(run("fit", str(path)).out)
    assert str(path) in {word for words in commands for word in words}
