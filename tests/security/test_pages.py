"""What rows hold stands on pages as text, whatever it is."""

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from planner.store import open_store
from rlplan.charts.chart import text as chart_text
from rlplan.web.page import section
from rlplan.web.report import write_report
from tests.planner.store import samples
from tests.rlplan.charts.stories import under_way
from tests.rlplan.web.visits import visiting
from tests.security.markup import Page, clean
from tests.security.texts import FORMULA, HALVES, LINK, SCRIPT, STEERING, TEMPLATE, named, planted

ATTACKS = {
    "script": SCRIPT,
    "template": TEMPLATE,
    "steering": STEERING,
    "formula": FORMULA,
    "link": LINK,
    "halves": HALVES,
}
each_attack = pytest.mark.parametrize("attack", ATTACKS)


def shown(client: TestClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.text


@each_attack
def test_on_every_page_of_the_dashboard_it_is_text(database: Path, attack: str) -> None:
    planted(database, ATTACKS[attack])
    named(database, "sweep-1")
    with visiting(database) as client:
        for path in ("/", "/sweeps/sweep-1"):
            page = clean(shown(client, path))
            assert "49" not in page.text.split() or attack != "template"
        told = json.loads(shown(client, "/sweeps/sweep-1/data.json"))
        assert told["trials"][0]["trial"].startswith(ATTACKS[attack].encode("utf-8", "replace").decode())


@each_attack
def test_in_the_report_it_is_text(database: Path, attack: str) -> None:
    planted(database, ATTACKS[attack])
    html = write_report(database.with_name("report.html"), str(database), None).read_text(encoding="utf-8")
    page = clean(html, scripts=2)
    assert "burglar" not in "".join(page.scripts)
    title = re.search(r"<title>(.*?)</title>", html, re.DOTALL)
    assert title is not None
    if "\r" not in ATTACKS[attack]:  # which a file's end of line becomes
        assert unescape(title[1]).startswith(ATTACKS[attack].encode("utf-8", "replace").decode())


@each_attack
def test_of_a_plan_that_waits_it_is_text(database: Path, attack: str) -> None:
    with open_store(database) as store:
        store.save_plan(samples.plan(), samples.candidates(), created_at=samples.NOON)
    planted(database, ATTACKS[attack])
    with closing(sqlite3.connect(database)) as rows, rows:
        text = json.dumps({"model": ATTACKS[attack], "gpu": ATTACKS[attack], "gpus": 8})
        rows.execute("UPDATE plans SET name = 'waiting', workload = ?, hardware = ? WHERE id = 2", (text, text))
    with visiting(database) as client:
        assert "waiting" in clean(shown(client, "/")).text
        clean(shown(client, "/plans/waiting"))
    html = write_report(database.with_name("plan.html"), str(database), "waiting").read_text(encoding="utf-8")
    assert "burglar" not in "".join(clean(html, scripts=2).scripts)


@pytest.mark.parametrize("name", [SCRIPT.replace("/", "|"), TEMPLATE.replace("/", "|"), STEERING, "a?b#c%d", "..", "é"])
def test_a_sweep_of_any_name_is_found_by_its_link(database: Path, name: str) -> None:
    named(database, name)
    with visiting(database) as client:
        links = [each["href"] for tag, each in clean(shown(client, "/")).elements if tag == "a"]
        page = clean(client.get(links[0].replace("/..", "/%2E%2E")).text)
        assert name in Page(shown(client, "/")).text
        for tag, attributes in page.elements:
            address = attributes.get("href", "/")
            assert address in ("/", "data:,") or address.startswith(("/static/", "#", links[0])), (tag, address)


def test_a_path_of_a_database_is_text(database: Path) -> None:
    strange = database.with_name("<img src=x onerror=burglar()>.db")
    database.rename(strange)
    with visiting(strange) as client:
        clean(shown(client, "/"))
        strange.unlink()
        answer = client.get("/")
        assert answer.status_code == 404
        assert "<img src=x onerror=burglar()>.db" in clean(answer.text).text


@given(st.text(min_size=1))
@settings(max_examples=15)
def test_any_name_comes_back_from_a_chart_as_it_was(name: str) -> None:
    trials = tuple(replace(trial, name=name) for trial in under_way().picture.trials)
    told = replace(under_way(), picture=replace(under_way().picture, trials=trials))
    told = replace(told, segments=tuple(replace(each, trial=name) for each in told.segments))
    page = clean(section("budget", told, None))
    texts = json.dumps(page.blocks, ensure_ascii=False)
    assert json.dumps(chart_text(name), ensure_ascii=False)[1:-1] in texts
