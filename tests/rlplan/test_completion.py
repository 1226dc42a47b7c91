"""Shell completion: names from the database and values of flags, silently nothing where there are none."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.config.trainer import TRAINERS
from planner.policy.policies import POLICIES
from planner.store import sweeps
from planner.view import TrialState
from rlplan.requests import completion
from tests.planner.store import samples
from tests.planner.store.samples import at
from tests.rlplan.conftest import Run
from tests.rlplan.sweep_rows import SETTINGS, seeded

Offered = Callable[[str], list[str]]
RLPLAN = str(Path(sys.executable).with_name("rlplan"))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    seeder = seeded(tmp_path / "rlplan.db")
    with seeder.store as store:
        later = samples.put(store, sweeps.create_sweep, None, samples.sweep(config=SETTINGS), at(500))
        samples.put(store, sweeps.add_trial, later, samples.trial(16, 128, 0), at(501))
    return tmp_path / "rlplan.db"


@pytest.fixture
def offered(run: Run, monkeypatch: pytest.MonkeyPatch) -> Offered:
    """Return what a shell offers at the end of a line, as bash asks for it."""

    def call(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("_RLPLAN_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        ran = run()
        assert (ran.code, ran.err) == (0, ""), line
        return ran.out.split()

    return call


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("rlplan stat", ["status"]),
        ("rlplan status s", ["sweep-2", "sweep-1"]),
        ("rlplan rank ", ["sweep-2", "sweep-1", "plan-1"]),
        ("rlplan sweep p", ["plan-1"]),
        ("rlplan status n51", ["n512-B32-s0"]),
        ("rlplan decisions sweep-1 --trial n1", ["n128-B64-s0", "n16-B128-s0", "n1024-B1024-s0"]),
        ("rlplan export --what tr", ["trials"]),
        ("rlplan export --format j", ["json"]),
        ("rlplan status --status paused,pr", ["paused,pruned"]),
        ("rlplan rank --sort p", ["p-best"]),
        ("rlplan decisions --action st", ["start", "stop"]),
        ("rlplan sweep --policy me", ["median"]),
        ("rlplan propose --gpu h", ["h100", "h200", "h20", "h800"]),
        ("rlplan propose --recipes easy,da", ["easy,dapo"]),
    ],
)
def test_a_shell_is_offered(offered: Offered, line: str, names: list[str]) -> None:
    assert offered(line) == names


def test_what_is_written_down_here_is_what_there_is() -> None:
    """The lists that are repeated, so that a press of the key imports nothing."""
    assert set(completion.POLICIES) == set(POLICIES)
    assert completion.TRAINERS == TRAINERS
    assert set(completion.STATES) == {state.value for state in TrialState}


@pytest.mark.parametrize("by", ["path", "url", "environment"])
def test_the_database_is_the_one_the_line_or_the_environment_names(
    offered: Offered, database: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    elsewhere = database.with_name("other.db")
    database.rename(elsewhere)
    assert offered("rlplan status s") == []
    if by == "environment":
        monkeypatch.setenv("RLPLAN_DB", str(elsewhere))
    given = {"path": "--db other.db ", "url": f"--db sqlite:///{elsewhere} ", "environment": ""}[by]
    assert offered(f"rlplan status {given}s") == ["sweep-2", "sweep-1"]


@pytest.mark.parametrize("content", [None, b"", b"no database at all", b"SQLite format 3\0 and then nonsense"])
def test_what_cannot_be_read_offers_nothing_and_says_nothing(
    offered: Offered, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "rlplan.db").write_bytes(content)
    assert offered("rlplan status ") == []
    assert offered("rlplan status n") == []
    assert offered("rlplan status --db postgresql://nobody@nowhere/x ") == []
    assert content is not None or not (tmp_path / "rlplan.db").exists()


def test_it_imports_nothing_slow(database: Path) -> None:
    heavy = {"sqlalchemy", "numpy", "scipy", "rich.table", "planner.store"}
    code = (
        "import sys\nsys.argv = ['rlplan']\nfrom rlplan.cli import app\n"
        "try: app()\nexcept SystemExit: pass\n"
        f"print({heavy!r} & set(sys.modules), file=sys.stderr)"
    )
    asked = {"_RLPLAN_COMPLETE": "complete_bash", "COMP_WORDS": "rlplan status s", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=database.parent, env={**os.environ, **asked}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (["sweep-2", "sweep-1"], "set()\n")


def test_bash_completes_with_the_script(database: Path) -> None:
    """As a person has it: the script is read by a real bash, which then asks for the names."""
    script = (
        f'export PATH="{Path(RLPLAN).parent}:$PATH"\n'
        "source <(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1 rlplan --show-completion bash)\n"
        'COMP_WORDS=(rlplan status n16) COMP_CWORD=2\n_rlplan_completion rlplan\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", script], cwd=database.parent, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("n16-B128-s0\n", "")
