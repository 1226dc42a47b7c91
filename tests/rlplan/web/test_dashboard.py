"""The dashboard: all sweeps and plans, and the sections of each report, asked for again as the database goes on."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import Request, urlopen

import pytest
from starlette.testclient import TestClient

from budgets.errors import InputError, NotFoundError
from planner.store import open_store
from rlplan.reading.story import Beliefs, Story
from rlplan.web import dashboard as live
from rlplan.web.dashboard import TITLES, Access, LiveSweep, checked, listening
from tests.planner.store import samples
from tests.rlplan.conftest import Run
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.sweep_rows import Seeder
from tests.rlplan.web.visits import KEY, TOKEN, served, visiting

SWEEP = "/sweeps/sweep-1"
NOTHING = Beliefs(None, "nothing seen yet", {}, {})
PATIENCE_SECONDS = 30
T = TypeVar("T")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "rlplan.db"


@pytest.fixture
def visitor(seeder: Seeder, database: Path) -> Iterator[TestClient]:
    """Somebody who looks at a sweep in the middle of its life."""
    with visiting(database) as client:
        yield client


@pytest.fixture
def watched(seeder: Seeder, database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveSweep]:
    """The same sweep as its page reads it, at once whenever it is asked."""
    monkeypatch.setattr(live, "FRESH_SECONDS", 0.0)
    with ThreadPoolExecutor(1) as fitters:
        yield LiveSweep(str(database), "sweep-1", fitters)


def becomes(look: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """Look until what is seen is as it should become."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds(seen := look()):
        assert time.monotonic() < end, seen
        time.sleep(0.02)
    return seen


def test_the_index_has_each_sweep_and_each_plan_that_waits(seeder: Seeder, visitor: TestClient) -> None:
    page = visitor.get("/").text
    assert f'href="{SWEEP}"' in page
    assert "7, 2 running, 1 failed" in page
    assert re.search(r"\d+ of 1,000", page)
    assert "Plans that wait" not in page
    name = seeder.store.save_plan(samples.plan(), samples.candidates(), created_at=samples.NOON)
    assert f'href="/plans/{name}"' in visitor.get("/").text
    page = visitor.get(f"/plans/{name}").text
    assert "among the best four" in page
    assert f"rlplan sweep {name}" in page
    assert visitor.get("/plans/plan-9").status_code == 404


def test_a_sweep_has_the_sections_of_its_report(database: Path) -> None:
    ended(database)
    with visiting(database) as client:
        page = becomes(lambda: client.get(SWEEP).text, lambda text: "likely within" in text)
    assert re.findall(r'data-part="(\w+)"', page) == list(TITLES)
    assert all(f'id="{name}"' in page for name in TITLES)
    assert not re.search(r"<script(?! src=|[^>]*application/json)|<[^>]+\son\w+=|<form", page)
    assert re.search(r"[\d.]+ of [\d.]+</dd>", page)


def test_a_page_is_told_that_nothing_is_new_until_something_is(seeder: Seeder, visitor: TestClient) -> None:
    for path, change in (("/", lambda: seeder.trial(8, 64)), (SWEEP, lambda: seeder.score(1, 31, 0.98765))):
        tag = ""

        def ask(path: str = path) -> Any:
            nonlocal tag
            answer = visitor.get(path, headers={"if-none-match": tag})
            tag = answer.headers["etag"]
            return answer

        becomes(ask, lambda answer: answer.status_code == 304 and answer.text == "")
        change()
        becomes(ask, lambda answer: answer.status_code == 200)
    becomes(lambda: visitor.get(SWEEP).text, lambda text: "0.9876" in text)


def test_a_sweep_as_data_is_what_status_says(visitor: TestClient, run: Run, database: Path) -> None:
    data, status = visitor.get(f"{SWEEP}/data.json").json(), run.json("status", "--db", str(database))
    assert data.keys() == status.keys() - {"approximated", "final", "storage"}
    assert data["trials"] == status["trials"]


def test_an_empty_database_says_how_to_begin(database: Path) -> None:
    open_store(database).close()
    with visiting(database) as client:
        assert "rlplan sweep" in client.get("/").text
        assert client.get(SWEEP).status_code == 404


def test_one_reads_while_the_others_see_what_there_is(watched: LiveSweep, monkeypatch: pytest.MonkeyPatch) -> None:
    first, go, begun = watched.snapshot(), threading.Event(), threading.Event()

    def slow(*_: object) -> str:
        begun.set()
        assert go.wait(PATIENCE_SECONDS)
        return "another mark"

    monkeypatch.setattr(live, "mark", slow)
    with ThreadPoolExecutor(1) as reader:
        newer = reader.submit(becomes, watched.snapshot, lambda snapshot: snapshot is not first)
        assert begun.wait(PATIENCE_SECONDS)
        assert watched.snapshot() is first
        go.set()
        newer.result()


def test_nobody_waits_for_a_fit_and_its_answer_comes(watched: LiveSweep, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(live, "beliefs", lambda *_: NOTHING if go.wait(PATIENCE_SECONDS) else None)
    assert "is being computed" in watched.snapshot().parts["now"]
    go.set()
    seen = becomes(watched.snapshot, lambda snapshot: snapshot.key[1] is not None)
    assert "Fit of all curves as of" in seen.parts["now"]
    assert "nothing seen yet" in seen.parts["answer"]


def test_what_fails_is_told_and_what_was_believed_stays(
    seeder: Seeder, watched: LiveSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Beliefs | Exception] = [NOTHING, NotFoundError("it is gone"), ZeroDivisionError("our bug")]

    def believe(*_: object) -> Beliefs:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(live, "beliefs", believe)
    monkeypatch.setattr(live, "SHORTEST_PAUSE_SECONDS", 0.0)
    for step, text in enumerate(("Fit of all curves", "renewed: it is gone", "It failed (ZeroDivisionError)")):
        seeder.score(1, 31 + step, 0.9)
        seen = becomes(watched.snapshot, lambda snapshot, text=text: text in snapshot.parts["now"])
        assert "nothing seen yet" in seen.parts["answer"]


def test_a_sweep_is_not_fitted_again_and_again(
    seeder: Seeder, watched: LiveSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list[object] = []
    monkeypatch.setattr(live, "beliefs", lambda *_: fits.append(1) or NOTHING)
    first = becomes(watched.snapshot, lambda snapshot: snapshot.key[1] is not None)
    seeder.score(1, 31, 0.9)
    becomes(watched.snapshot, lambda snapshot: snapshot.key[0] != first.key[0])
    assert len(fits) == 1


def test_a_section_that_cannot_be_drawn_says_so(watched: LiveSweep, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, told: Story, _: object) -> str:
        return f"<p>{name}</p>" if name != "budget" else f"{1 // (told.budget_gpu_hours - told.budget_gpu_hours)}"

    monkeypatch.setattr(live.page, "section", broken)
    parts = watched.snapshot().parts
    assert "This section cannot be shown" in parts["budget"]
    assert parts["curves"] == "<p>curves</p>"


def test_a_port_or_a_host_that_cannot_be_had_is_said_with_the_way_out() -> None:
    with listening(Access("127.0.0.1", 0, TOKEN)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"port {port} of 127.0.0.1 .* in use.*--port {port + 1}"):
            listening(Access("127.0.0.1", port, TOKEN))
    for host in ("192.0.2.1", "http://here", "no such host"):
        with pytest.raises(InputError, match=r"cannot be listened on .* leave --host out"):
            listening(Access(host, 8787, TOKEN))


@pytest.mark.parametrize("token", ["", "short", "0123456789 abcdef", "0123456789abcdéf", "a" * 20 + "\n"])
def test_a_token_that_protects_nothing_is_refused(token: str) -> None:
    with pytest.raises(InputError, match="--token auto makes one"):
        checked("127.0.0.1", 8787, token)


def test_each_dashboard_has_a_token_of_its_own() -> None:
    first, second = (checked("::1", 1234, "auto") for _ in range(2))
    assert len(first.token) >= 32
    assert first.token != second.token
    assert first.url == f"http://[::1]:1234/?token={first.token}"


def test_it_answers_a_crowd_and_ends_with_ctrl_c(seeder: Seeder, database: Path) -> None:
    with served(database) as (process, port):

        def visit(path: str) -> int:
            with urlopen(Request(f"http://127.0.0.1:{port}{path}", headers=KEY), timeout=PATIENCE_SECONDS) as answer:
                return int(answer.status)

        with ThreadPoolExecutor(60) as visitors:
            assert set(visitors.map(visit, [SWEEP, "/", "/static/page.css"] * 20)) == {200}
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stderr is not None
        said = process.stderr.read()
        assert "Traceback" not in said
        assert TOKEN not in said
