"""The first page: the sweep that matters now, or the plan that waits to be run."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from planner.store import open_store, sweeps
from planner.store.driving import Driver, take_lease
from tests.planner.store import samples
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.sweep_rows import Seeder
from tests.rlplan.web.dashboard.visits import PATIENCE_SECONDS, visiting


@pytest.fixture
def planned(database: Path) -> Path:
    with open_store(database) as store:
        store.save_plan(samples.plan(), samples.candidates(), created_at=samples.NOON)
    return database


def front(page: str) -> str:
    return page.partition('id="front"')[2].partition("</section>")[0]


def test_a_sweep_is_shown_with_its_answer_its_money_its_curves_and_its_ranks(database: Path) -> None:
    ended(database)
    with visiting(database) as client:
        began = datetime.now(UTC)
        while "likely within" not in (shown := front(client.get("/").text)):
            assert (datetime.now(UTC) - began).total_seconds() < PATIENCE_SECONDS
    assert re.search(r"take n = \d+, B = \d+", shown)
    assert re.search(r"<b>[\d.]+</b> of [\d.]+ GPU-hours for pilots spent", shown)
    assert shown.count("data-chart=") == 3
    assert len(re.findall("<tr(?: class|>)", shown)) == 1 + 5
    assert 'href="/sweeps/sweep-1#answer"' in shown


def test_it_follows_the_sweep_live(visitor: TestClient) -> None:
    page = visitor.get("/").text
    version = re.search(r'data-part="front" data-version="(\w+)" hx-get="/sweeps/sweep-1/sections/front"', page)
    assert 'data-state="/sweeps/sweep-1/state"' in page
    assert version is not None
    assert visitor.get("/sweeps/sweep-1/sections/front").status_code == 200


def test_the_sweep_that_runs_comes_before_a_newer_one(sweep: Seeder, visitor: TestClient) -> None:
    samples.put(sweep.store, sweeps.create_sweep, None, samples.sweep(policy="full"), datetime(2026, 3, 2, tzinfo=UTC))
    with sweep.store.write() as session:
        take_lease(session, "sweep-1", Driver("driver-1", "node-7", 4711), datetime.now(UTC))
    assert '<a href="/sweeps/sweep-1">' in front(visitor.get("/").text)


def test_a_page_that_shows_another_sweep_than_matters_now_begins_anew(visitor: TestClient) -> None:
    assert "hx-refresh" not in visitor.get("/sweeps?shown=sweep-1").headers
    assert visitor.get("/sweeps?shown=sweep-0").headers["hx-refresh"] == "true"
    assert "hx-refresh" not in visitor.get("/sweeps?before=9").headers


def test_where_nothing_has_run_the_newest_plan_is_shown(planned: Path) -> None:
    with visiting(planned) as client:
        page = client.get("/").text
        assert "one would take n = 8, B = 64" in page
        assert f"rlplan sweep plan-1 --db {planned}" in page
        assert "data-state" not in page


def test_plans_that_were_never_run_are_listed_and_have_a_page(sweep: Seeder, visitor: TestClient) -> None:
    assert "Plans that wait" not in visitor.get("/").text
    name = sweep.store.save_plan(samples.plan(), samples.candidates(), created_at=samples.NOON)
    assert f'href="/plans/{name}"' in visitor.get("/").text
    page = visitor.get(f"/plans/{name}").text
    assert "among the best four" in page
    assert f"rlplan sweep {name}" in page
    assert visitor.get("/plans/plan-9").status_code == 404
