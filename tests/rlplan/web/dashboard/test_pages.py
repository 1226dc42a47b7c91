import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from planner.store import open_store, sweeps
from rlplan.web.dashboard import snapshots
from rlplan.web.dashboard.snapshots import ALL, LARGE
from tests.planner.store import samples
from tests.rlplan.conftest import Run
from tests.rlplan.sweep_rows import Seeder
from tests.rlplan.web.dashboard.visits import PATIENCE_SECONDS, visiting


def test_the_list_has_each_sweep_with_its_state_and_its_money(visitor: TestClient) -> None:
    for address in ("/", "/sweeps"):
        page = visitor.get(address).text
        assert 'href="/sweeps/sweep-1"' in page
        assert "7, 2 running, 1 failed" in page
        assert re.search(r"\d+ of 1,000", page)


def test_a_long_list_comes_in_parts(sweep: Seeder, visitor: TestClient) -> None:
    for number in range(60):
        samples.put(
            sweep.store,
            sweeps.create_sweep,
            None,
            samples.sweep(policy="full", seed=number),
            datetime(2026, 3, 2, tzinfo=UTC),
        )
    first = visitor.get("/").text
    assert first.count('<th scope="row"><a href="/sweeps/') == 50
    older = re.search(r'href="(/\?before=\d+)"', first)
    assert older is not None
    rest = visitor.get(older[1]).text
    assert rest.count('<th scope="row"><a href="/sweeps/') == 11
    assert 'href="/sweeps/sweep-1"' in rest
    for number in ("x", "-1", "1e3", "9" * 40, "٣"):
        assert visitor.get("/", params={"before": number}).status_code == 400


def test_a_sweep_has_all_its_sections(visitor: TestClient) -> None:
    page = visitor.get("/sweeps/sweep-1")
    for name in ALL:
        assert f'data-part="{name}"' in page.text
        answer = visitor.get(f"/sweeps/sweep-1/sections/{name}")
        assert f'id="{name}"' in answer.text
        assert re.fullmatch('"[0-9a-f]{16}"', answer.headers["etag"])
        again = visitor.get(f"/sweeps/sweep-1/sections/{name}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.text) in ((304, ""), (200, again.text))  # it may have been fitted meanwhile
    assert not re.search(r"<script(?! src=|[^>]*application/json)", page.text), "scripts stand in files"
    assert not re.search(r"<[^>]+\son\w+=", page.text), "handlers stand in files"
    assert "<form" not in page.text


def version_with(visitor: TestClient, score: str) -> str:
    """Wait until a score is in the curves. Versions may come before it: the beliefs on the rows before are one."""
    began = time.monotonic()
    while score not in (answer := visitor.get("/sweeps/sweep-1/sections/curves")).text:
        assert time.monotonic() - began < PATIENCE_SECONDS, f"{score} has not come"
    return str(answer.headers["etag"])


def test_a_new_point_is_on_the_page(sweep: Seeder, visitor: TestClient) -> None:
    before = visitor.get("/sweeps/sweep-1/sections/curves")
    assert "0.9876" not in before.text
    sweep.score(1, 31, 0.98765)
    assert version_with(visitor, "0.9876") != before.headers["etag"]


def test_of_a_large_sweep_what_takes_long_comes_later(
    sweep: Seeder, visitor: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "FEW_ROWS", 0)
    page = visitor.get("/sweeps/sweep-1").text
    for name in LARGE:
        assert f'data-part="{name}" data-version=""' in page
        assert f'<a href="/sweeps/sweep-1/sections/{name}">' in page
    first = visitor.get("/sweeps/sweep-1/sections/curves")
    assert first.text.count('data-chart="curve-') == 7
    sweep.score(1, 31, 0.98765)
    assert version_with(visitor, "0.9876") != first.headers["etag"]


def test_a_trial_is_shown_with_its_moves_and_its_failure(visitor: TestClient) -> None:
    page = visitor.get("/sweeps/sweep-1/trials/6").text
    assert "torch.OutOfMemoryError: 81 GiB wanted" in page
    assert "the worker ran out of memory" in page
    assert "It has no score yet" in page
    assert visitor.get("/sweeps/sweep-1/trials/n512-B32-s0").text.count("data-chart") == 1
    assert visitor.get("/sweeps/sweep-1/trials/99").status_code == 404


def test_a_page_as_data_is_what_status_says(visitor: TestClient, run: Run, database: Path) -> None:
    data, known = visitor.get("/sweeps/sweep-1/data.json").json(), run.json("status", "--db", str(database))
    assert data.keys() == known.keys() - {"approximated", "final", "storage"}
    assert data["trials"] == known["trials"]


def test_an_empty_database_says_how_to_begin(database: Path) -> None:
    with open_store(database):
        pass
    with visiting(database) as client:
        assert "rlplan sweep" in client.get("/").text
        assert client.get("/sweeps/sweep-1").status_code == 404


def test_files_are_kept_by_their_version(visitor: TestClient) -> None:
    page = visitor.get("/sweeps/sweep-1").text
    addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(addresses) == 6
    for address in addresses:
        answer = visitor.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-encoding"] == "gzip"
    plain = visitor.get("/static/htmx.min.js", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text.startswith("var htmx")


def test_a_page_is_told_that_nothing_is_new(visitor: TestClient) -> None:
    tag = ""
    began = time.monotonic()
    while (answer := visitor.get("/sweeps/sweep-1/state", headers={"if-none-match": tag})).status_code != 304:
        assert set(answer.json()["versions"]) >= set(ALL)
        assert time.monotonic() - began < PATIENCE_SECONDS
        tag = answer.headers["etag"]
    assert answer.text == ""
