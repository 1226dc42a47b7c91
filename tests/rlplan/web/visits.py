"""Who visits a dashboard, in this process or in one of its own."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.testclient import TestClient

from rlplan.web.dashboard import Access, dashboard

TOKEN = "a-token-of-enough-characters"
ACCESS = Access("127.0.0.1", 8787, TOKEN)
KEY = {"authorization": f"Bearer {TOKEN}"}


@contextmanager
def visiting(database: Path | str, *, access: Access = ACCESS, key: dict[str, str] = KEY) -> Iterator[TestClient]:
    """Visit a dashboard, by default with its token."""
    app = dashboard(str(database), access)
    with TestClient(
        app, "http://127.0.0.1:8787", headers={"accept": "text/html"} | key, follow_redirects=False
    ) as client:
        yield client


@contextmanager
def served(database: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the dashboard as users do, and return its process and its port once it can be visited."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("rlplan")), "dashboard", "--db", str(database), "--port", str(port)]
    env = {"PATH": os.environ["PATH"], "RLPLAN_DASHBOARD_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=env, text=True) as process:
        assert process.stderr is not None
        printed = process.stderr.readline()
        try:
            assert f"http://127.0.0.1:{port}/?token={TOKEN}" in printed, printed + process.stderr.read()
            yield process, port
        finally:
            process.terminate()
