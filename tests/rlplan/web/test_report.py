"""The report: whole, self-contained, harmless, and written at once."""

import re
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.store import open_store
from rlplan.cli import app
from rlplan.reading.story import Beliefs, Story
from rlplan.web import page, report
from tests.planner.store import samples
from tests.rlplan.charts.stories import NOTHING, empty, finished, under_way
from tests.rlplan.conftest import Run
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.test_screens import check, next_of
from tests.security.markup import Page

STATES: list[tuple[Story, Beliefs | None]] = [
    finished(),
    (finished()[0], None),
    (under_way(), None),
    (under_way(), NOTHING),
    (empty(), None),
    (empty(), NOTHING),
]


def text_of(html: str) -> str:
    bare = re.sub(r"<script.*?</script>|<[^>]+>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(bare))


@pytest.mark.parametrize("name", page.SECTIONS)
@pytest.mark.parametrize("state", STATES)
def test_every_section_can_be_made_in_every_state(name: str, state: tuple[Story, Beliefs | None]) -> None:
    html = page.section(name, *state)
    shown = Page(html)
    assert shown.elements[0][0] == "section"
    assert shown.elements[0][1]["id"] == name
    for block in shown.blocks:
        assert {"data", "layout", "height"} <= set(block)
    for tag, attributes in shown.elements:
        assert not [each for each in attributes if each.startswith("on") or each == "style"], tag
        assert tag != "script" or attributes == {"type": "application/json"}


def test_the_answer_is_said_in_full() -> None:
    told, believed = finished()
    assert believed.recommended is not None
    answer, shown = believed.recommended.answer, text_of(page.section("answer", told, believed))
    assert answer.what in shown
    assert answer.how_sure in shown
    assert answer.runner_up is not None
    assert answer.runner_up.sentence.split(";")[0] in shown
    assert f"rlplan launch {believed.recommended.sweep}" in shown
    for caution in answer.cautions:
        assert caution.text[1:] in shown


def test_without_a_recommendation_it_says_why_and_what_to_do() -> None:
    shown = text_of(page.section("answer", under_way(), NOTHING))
    assert "There is no recommendation: none of 7 configurations has a score" in shown
    assert "no recommendation: no recommendation" not in shown
    assert "rlplan retry" in shown or "The sweep runs" in shown


def test_the_file_needs_nothing_else() -> None:
    html = report.report(*finished())
    own = html.replace(page.plotly_script(), "")
    assert not re.search(r"""\s(src|href)=(?!"#|"data:)""", own)
    assert not re.search(r"https?://|@import|url\(", own)
    assert "default-src 'none'" in own
    assert "</script" not in page.scripts() + page.plotly_script()
    assert "</style" not in page.styles()


def test_the_command_writes_the_report_of_a_sweep(run: Run, tmp_path: Path) -> None:
    ended(tmp_path / "rlplan.db")
    ran = run("report", "out.html", "sweep-1")
    assert (ran.code, "wrote out.html" in ran.err) == (0, True)
    assert [words[1:] for words in next_of(ran.out)] == [["rank", "sweep-1"], ["dashboard"]]
    check(ran.out)
    assert run(*next_of(ran.out)[0][1:]).code == 0
    html = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "<title>sweep-1" in html
    assert all(f'id="{name}"' in html for name in page.SECTIONS)


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    """A database with a plan that no sweep has run."""
    path = tmp_path / "planned.db"
    with open_store(path) as store:
        store.save_plan(samples.plan(), samples.candidates(), created_at=samples.NOON)
    return path


@pytest.mark.parametrize("name", [[], ["plan-1"]])
def test_a_plan_without_a_sweep_has_a_report(tmp_path: Path, planned: Path, name: list[str]) -> None:
    out = tmp_path / "out.html"
    result = CliRunner().invoke(app, ["report", str(out), *name, "--db", str(planned)])
    assert result.exit_code == 0, result.output
    html = out.read_text(encoding="utf-8")
    shown = text_of(html)
    assert "<title>plan-1" in html
    assert "one would take n = 8, B = 64, M = 400, expected to score 0.500" in shown
    assert f"rlplan sweep plan-1 --db {planned}" in shown
    assert all(each in shown for each in ("5,000", "1,000", "4,000", "among the best four", "tokens/s"))
    grid = html.partition('id="grid-rows"')[2].partition("</tbody>")[0]
    assert grid.count("<tr") == 2
    outlook = html.partition('id="outlook"')[2].partition("</section>")[0]
    assert re.search(r">500<.*>8<", outlook, re.DOTALL)
    for block in Page(html.partition("<script>")[0]).blocks:
        assert {"data", "layout", "height"} <= set(block)


def test_a_sweep_of_an_older_plan_is_reported_before_a_new_plan(tmp_path: Path) -> None:
    database, out = ended(tmp_path / "rlplan.db"), tmp_path / "out.html"
    with open_store(database) as store:
        store.save_plan(samples.plan(), samples.candidates(), created_at=samples.NOON)
    for name, title in (([], "sweep-1"), (["plan-2"], "plan-2")):
        assert CliRunner().invoke(app, ["report", str(out), *name, "--db", str(database)]).exit_code == 0
        assert f"<title>{title}" in out.read_text(encoding="utf-8")
