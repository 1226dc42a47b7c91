"""No name and no log steers the terminal that it is shown on; files hold it as it is."""

import csv
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlplan.wording.screen import harmless
from tests.rlplan.conftest import Run, process, run  # noqa: F401 (fixtures)
from tests.rlplan.recommend_sweeps import ended
from tests.security.texts import FORMULA, HALVES, STEERING, first, planted

SHOWING = (
    *("status", "status --all", "status SWEEP", "status nothing", "status TRIAL", "status STEERING", "rank"),
    *("rank SWEEP", "rank PLAN", "recommend", "decisions", "decisions --trial nothing", "decisions --action nothing"),
    *("pause", "resume STEERING", "export out.csv --force", "report STEERING.html", "report STEERING.pdf"),
    *("status --format json", "status TRIAL --format json", "decisions --format json", "export - --format json"),
)


def steers(text: str) -> set[str]:
    return {sign for sign in text if sign != "\n" and not sign.isprintable()}


@pytest.fixture(scope="module", params=["seeded", "ended"])
def attacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.rlplan.sweep_rows import seeded

    path = tmp_path_factory.mktemp(request.param) / "rlplan.db"
    if request.param == "ended":
        ended(path)
    else:
        seeded(path).store.close()
    planted(path, STEERING)
    return path


@pytest.mark.parametrize("command", SHOWING)
def test_no_name_steers_the_terminal(run: Run, attacked: Path, command: str) -> None:  # noqa: F811
    names = {"SWEEP": first(attacked, "sweeps"), "TRIAL": first(attacked, "trials"), "PLAN": first(attacked, "plans")}
    words = [re.sub("STEERING", lambda _: STEERING, names.get(word, word)) for word in command.split()]
    for width in (80,) if words[0] in ("export", "report") else (80, 200):
        ran = run(*words, "--db", str(attacked), width=width)
        assert steers(ran.out) == steers(ran.err) == set()
        assert ran.code in (0, 2, 3)


@pytest.mark.parametrize(
    "command", [["pause"], ["decisions", "--trial", "nothing"], ["status", "a\nrlplan: all is well"]]
)
def test_no_name_makes_a_line_of_its_own(run: Run, database: Path, command: list[str]) -> None:  # noqa: F811
    planted(database, "b\nrlplan: all is well")
    ran = run(*command, "--db", str(database))
    assert ran.err.count("\n") == 1
    assert "\\nrlplan: all is well" in ran.err


def test_markup_of_the_terminal_is_text(run: Run, attacked: Path) -> None:  # noqa: F811
    planted(attacked, "[bold]\\[/] [link=http://evil.example]")
    ran = run("decisions", "--db", str(attacked), width=200)
    assert "[bold]" in ran.out
    assert "[link=" in ran.out
    planted(attacked, STEERING)


@given(st.text())
def test_what_is_shown_has_no_signs_that_are_obeyed(text: str) -> None:
    assert steers(harmless(text)) == set()
    assert harmless(harmless(text)) == harmless(text)
    if text.isprintable():
        assert harmless(text) == text


@pytest.mark.parametrize("text", [FORMULA, "+1", "-1", "@x", "\t=1", STEERING, "a\rb", "a\r\nb\n", "'\"", "\x00", ",;"])
def test_a_table_gives_back_what_was_put_in(run: Run, database: Path, text: str) -> None:  # noqa: F811
    planted(database, text)
    for what, columns in (("decisions", ["reason"]), ("trials", ["failure_tail", "trial"])):
        for format in ("csv", "json"):
            ran = run("export", f"{what}.{format}", "--what", what, "--force", "--db", str(database))
            assert ran.code == 0
        with Path(f"{what}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        told = json.loads(Path(f"{what}.json").read_text(encoding="utf-8"))["rows"]
        for column in columns:
            assert [row[column] for row in rows] == [row[column] for row in told]
            assert all(row[column].startswith(text) for row in rows)


def test_half_a_character_is_no_reason_to_fail(run: Run, process: Run, database: Path) -> None:  # noqa: F811
    planted(database, HALVES)
    for command in (["status"], ["rank"], ["decisions"], ["export", "all.{format}", "--force"]):
        for format in ("csv", "json") if command[0] == "export" else ("table", "json"):
            ran = run(*(each.format(format=format) for each in command), "--format", format, "--db", str(database))
            assert ran.code == 0, (command, ran.err)
    ran = process("status", "--format", "csv", "--db", str(database), OMP_NUM_THREADS="1")
    assert (ran.code, ran.err) == (0, "")
    assert "half ? and ?" in ran.out
