"""The command line as a whole: its help, colour and errors, and what it imports."""

import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from planner.config import Config, Layer, resolve
from rlplan.actions.configuration import load_configuration
from rlplan.actions.stored_plan import make_plan
from rlplan.cli import app
from tests.rlplan.conftest import Run

GROUP: Any = get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands


def examples(command: str) -> list[list[str]]:
    """Return the command lines of rlplan that a command's help gives as examples."""
    found = re.search(r"Example: (.+)", COMMANDS[command].help)
    assert found is not None, f"{command} has no example"
    lines = [shlex.split(part, comments=True) for part in found[1].split("&&")]
    return [words[1:] for words in lines if words[0] == "rlplan"]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_an_example_can_be_typed_as_it_stands(name: str) -> None:
    lines = examples(name)
    assert name in {line[0] for line in lines}
    for words in lines:
        # Reads the whole line, checks every flag and value, and runs nothing.
        with COMMANDS[words[0]].make_context(words[0], list(words[1:])) as context:
            assert not context.args


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_shows_the_example_and_every_flag(run: Run, name: str) -> None:
    ran = run(name, "--help")
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= 80
    shown = ran.text
    assert f"Example: {' '.join(['rlplan', name])}" in shown
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{parameter.name} is not explained"
        for flag in parameter.opts if parameter.param_type_name == "option" else ():
            assert flag in shown, flag


@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_help_names_every_command_and_the_exit_codes(run: Run, words: list[str]) -> None:
    ran = run(*words)
    assert (ran.code, "Exit codes" in ran.out) == (0, True)
    assert max(map(len, ran.out.splitlines())) <= 80
    assert [name for name in COMMANDS if not re.search(rf"^│ {name} ", ran.out, re.MULTILINE)] == []


def test_an_unknown_command_gets_the_nearest(run: Run) -> None:
    ran = run("propos")
    assert ran.code == 2
    assert "Did you mean 'propose'?" in ran.err
    assert ran.err.count("\n") == 1


def test_init_writes_a_file_that_loads_and_does_not_overwrite_one(run: Run, tmp_path: Path) -> None:
    import tomllib

    assert run("init").code == 0
    assert resolve([Layer("x", tomllib.loads((tmp_path / "rlplan.toml").read_text()))]).config == Config()
    (tmp_path / "rlplan.toml").write_text("[hardware]\ngpus = 8\n")
    ran = run("init")
    assert ran.code == 2
    assert "rlplan.toml exists already; give another path, or --force to replace it" in ran.err
    assert (tmp_path / "rlplan.toml").read_text() == "[hardware]\ngpus = 8\n"
    assert run("init", "--force").code == 0
    assert run("init", "no/such/folder.toml").code == 2


def test_an_internal_error_is_one_line_and_debug_shows_where(
    run: Run, process: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("nobody expected this")

    monkeypatch.setattr("rlplan.actions.stored_plan.load_configuration", broken)
    ran = run("propose", "--budget", "5000")
    assert ran.code == 1
    assert ran.err == (
        "rlplan: internal error, ZeroDivisionError: nobody expected this. Please report it with the output of --debug\n"
    )
    with pytest.raises(ZeroDivisionError):
        run("propose", "--budget", "5000", "--debug")
    traced = process("propose", "--budget", "5k", "--debug")
    assert traced.code == 1
    assert "Traceback" in traced.err
    assert "InputError" in traced.err


def test_a_real_interrupt_in_the_middle_ends_quietly_and_stores_nothing(tmp_path: Path) -> None:
    pipe = tmp_path / "config.toml"
    os.mkfifo(pipe)
    command = [str(Path(sys.executable).with_name("rlplan")), "propose", "--budget", "5000", "--config", str(pipe)]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with pipe.open("w"):  # opens once the command reads its configuration, and keeps it waiting there
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert not (tmp_path / "rlplan.db").exists()


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a plan, which tests copy."""
    path = tmp_path_factory.mktemp("planned") / "rlplan.db"
    make_plan(load_configuration(flags={"budget.gpu_hours": ("", 5000)}), str(path))
    return path


@pytest.mark.parametrize(
    ("line", "code", "printed", "said"),
    [
        ("COLUMNS=0 LINES=0 {rlplan} rank plan-1", 0, "Next", ""),
        ("{rlplan} rank plan-1 >&-", 0, "", ""),
        ("{rlplan} rank plan-1 >&- 2>&- <&-", 0, "", ""),
        ("{rlplan} nonsense 2>&-", 2, "", ""),
        ("mkdir x; cd x; rmdir ../x; {rlplan} rank plan-1", 2, "", "the working directory was deleted"),
    ],
)
def test_odd_surroundings_are_no_bug_of_ours(
    planned: Path, tmp_path: Path, line: str, code: int, printed: str, said: str
) -> None:
    shutil.copy(planned, tmp_path)
    command = line.format(rlplan=f"{sys.executable} -c 'from rlplan.entry import main; main()'")
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, printed in done.stdout) == (code, True), done.stderr
    assert said in done.stderr
    assert "internal error" not in done.stderr
    assert printed or not done.stdout
    assert (tmp_path / "rlplan.db").read_bytes().startswith(b"SQLite format 3")


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    command = f"{Path(sys.executable).with_name('rlplan')} propose --budget 5000 --format json | head -c 10"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '{\n  "plan"'


def test_colour_comes_only_where_it_is_wanted(process: Run, planned: Path, tmp_path: Path) -> None:
    shutil.copy(planned, tmp_path)
    assert "\x1b[" in process("rank", "plan-1", FORCE_COLOR="1").out
    assert "\x1b[3" not in process("rank", "plan-1", FORCE_COLOR="1", NO_COLOR="1").out


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["propose", "--help"], set()),
        (["price"], {"numpy"}),  # no database is there, so none is read
        (["propose", "--budget", "5000", "--format", "json"], {"numpy", "sqlalchemy"}),
    ],
)
def test_help_price_and_propose_import_nothing_heavy(arguments: list[str], needed: set[str]) -> None:
    """What the start-up bar rests on, checked without a clock; the scores of all cells at all lengths are arrays."""
    heavy = {"torch", "ray", "transformers", "plotly", "pandas", "scipy", "numpy", "alembic", "psycopg", "sqlalchemy"}
    heavy -= needed
    code = (
        "import sys\nfrom rlplan.cli import app\n"
        f"try: app({arguments!r})\nexcept SystemExit: pass\n"
        f"print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"RLPLAN_DB": "/dev/null/nowhere", "PATH": "/usr/bin:/bin"},
    )
    assert done.stderr.splitlines()[-1] == "[]"


def test_output_that_cannot_be_written_is_no_bug_of_ours() -> None:
    command = [str(Path(sys.executable).with_name("rlplan")), "--help"]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (2, "rlplan: what is printed cannot be written: No space left on device\n")


@pytest.mark.parametrize(("number", "code"), [(errno.EACCES, 2), (errno.ENAMETOOLONG, 2), (errno.EIO, 1)])
def test_a_path_that_the_system_refuses_is_named_in_a_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number), "locked/out.html")

    monkeypatch.setattr("rlplan.web.report.checked", refused)
    ran = run("report", "locked/out.html")
    assert (ran.code, ran.err.count("\n")) == (code, 1)
    assert ("locked/out.html cannot be used: " in ran.err) == (code == 2)
