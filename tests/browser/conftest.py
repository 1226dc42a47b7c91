"""A browser, the sweeps, their reports, and a dashboard that serves them."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright
from typer.testing import CliRunner

from rlplan.cli import app
from tests.browser.sweeps import EMPTY, FINISHED, HOSTILE, PLAN, UNDER_WAY, Lively, all_kinds
from tests.browser.watching import Eye

RLPLAN = str(Path(sys.executable).with_name("rlplan"))
TOKEN = "a-token-of-enough-characters"
ENV = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "RLPLAN_DASHBOARD_TOKEN": TOKEN}

Look = Callable[..., Eye]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        reason = "there is no chromium here: apt-get install chromium"
        assert not os.environ.get("RLPLAN_REQUIRE_BROWSER"), reason
        pytest.skip(reason)
    with sync_playwright() as playwright:
        # A container's root may not have the sandbox's namespaces; these pages are our own.
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def look(browser: Browser) -> Iterator[Look]:
    """Open a page of its own, 1,280 pixels wide and light unless told otherwise; whatever went wrong there fails."""
    eyes: list[Eye] = []

    def open_eye(*, width: int = 1280, height: int = 900, **options: Any) -> Eye:
        shown = {"Authorization": f"Bearer {TOKEN}"}
        context = browser.new_context(viewport={"width": width, "height": height}, extra_http_headers=shown, **options)
        eyes.append(Eye(context.new_page()))
        return eyes[-1]

    yield open_eye
    for eye in eyes:
        eye.page.context.close()
    wrong = [each for eye in eyes for each in eye.wrong]
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweeps") / "rlplan.db"
    all_kinds(path)
    return path


@pytest.fixture(scope="session")
def reports(database: Path) -> dict[str, str]:
    """The address of each sweep's report."""
    written = {}
    for sweep in (FINISHED, UNDER_WAY, EMPTY, HOSTILE, PLAN):
        path = database.with_name(f"{sweep}.html")
        rlplan("report", str(path), sweep, "--db", str(database))
        written[sweep] = path.as_uri()
    return written


@pytest.fixture(scope="session")
def recommended(database: Path) -> dict[str, Any]:
    """What `rlplan recommend` says of the sweep that has ended."""
    said: dict[str, Any] = json.loads(rlplan("recommend", FINISHED, "--db", str(database), "--format", "json"))
    return said


@pytest.fixture(scope="session")
def dashboard(database: Path) -> Iterator[str]:
    """The address of a dashboard that only shows."""
    with served(database) as address:
        yield address


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lively]:
    sweep = Lively(tmp_path_factory.mktemp("lively") / "rlplan.db")
    yield sweep
    sweep.store.close()


@pytest.fixture(scope="module")
def followed(lively: Lively) -> Iterator[str]:
    """The address of a dashboard of a sweep that goes on."""
    with served(lively.path) as address:
        yield address


def rlplan(*command: str) -> str:
    """Run a command in this process, and return what it printed."""
    ran = CliRunner().invoke(app, list(command))
    assert ran.exit_code == 0, ran.output
    return ran.stdout


@contextmanager
def served(database: Path, *options: str) -> Iterator[str]:
    """Run the dashboard as users do, in a process of its own."""
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        port = any_port.getsockname()[1]
    command = [RLPLAN, "dashboard", "--db", str(database), "--port", str(port), *options]
    with subprocess.Popen(command, env=ENV, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        try:
            assert f"127.0.0.1:{port}" in first, first + process.stderr.read()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
