import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from planner.store.driving import Driver, take_lease
from planner.store.schema import Request, RequestKind
from tests.rlplan.sweep_rows import Seeder
from tests.rlplan.web.dashboard.visits import HOME, visiting

FROM_HERE = {"origin": HOME}


@pytest.fixture
def controller(sweep: Seeder, database: Path) -> Iterator[TestClient]:
    with sweep.store.write() as session:
        take_lease(session, "sweep-1", Driver("driver-1", "node-7", 4711), datetime.now(UTC))
    with visiting(database, control=True) as client:
        yield client


def seal(client: TestClient) -> str:
    found = re.search(r'name="seal" value="([0-9a-f]{64})"', client.get("/sweeps/sweep-1").text)
    assert found is not None
    return found[1]


def asked(sweep: Seeder) -> list[tuple[RequestKind, str]]:
    with sweep.store.read() as session:
        return [(each.kind, each.by) for each in session.scalars(select(Request).order_by(Request.id))]


def test_a_press_is_a_request_to_the_driver(sweep: Seeder, controller: TestClient) -> None:
    given = {"seal": seal(controller)}
    for kind in ("pause", "resume", "stop"):
        answer = controller.post(f"/sweeps/sweep-1/{kind}", data=given, headers=FROM_HERE)
        assert (answer.status_code, answer.headers["location"]) == (303, "/sweeps/sweep-1")
    by = "the dashboard (testclient)"
    assert asked(sweep) == [(RequestKind.PAUSE, by), (RequestKind.RESUME, by), (RequestKind.STOP, by)]


def test_what_makes_no_sense_is_refused_with_the_reason(sweep: Seeder, controller: TestClient) -> None:
    given = {"seal": seal(controller)}
    answer = controller.post("/sweeps/sweep-1/resume", data=given, headers=FROM_HERE)
    assert answer.status_code == 409
    assert "is not paused" in answer.text
    assert controller.post("/sweeps/sweep-2/stop", data=given, headers=FROM_HERE).status_code == 404
    assert controller.post("/sweeps/sweep-1/delete", data=given, headers=FROM_HERE).status_code == 404
    assert asked(sweep) == []


def test_a_database_that_is_gone_is_not_made_anew(database: Path, controller: TestClient) -> None:
    given = {"seal": seal(controller)}
    database.rename(database.with_suffix(".away"))
    assert controller.post("/sweeps/sweep-1/stop", data=given, headers=FROM_HERE).status_code == 503
    assert not database.exists()
