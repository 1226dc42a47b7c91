import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from budgets.errors import InputError
from rlplan.web.dashboard.app import Dashboard
from rlplan.web.dashboard.serving import Server, listening
from rlplan.web.dashboard.settings import Settings
from tests.rlplan.conftest import Run
from tests.rlplan.sweep_rows import Seeder
from tests.rlplan.web.dashboard.visits import PATIENCE_SECONDS

HEADS = b"Host: 127.0.0.1\r\nAccept: text/html\r\n"


def free_port() -> int:
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        port: int = any_port.getsockname()[1]
        return port


@contextmanager
def running(database: Path) -> Iterator[int]:
    """Serve in a thread of this process."""
    settings = Settings(str(database), port=free_port())
    server = Server(Dashboard(settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening(settings)]})
    thread.start()
    try:
        yield settings.port
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@contextmanager
def connected(port: int, request: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(request)
        yield client


def until(client: socket.socket, pattern: bytes) -> bytes:
    """Read until something has come; the server's own signs of life would keep this waiting for ever."""
    seen, began = b"", time.monotonic()
    while not re.search(pattern, seen):
        assert time.monotonic() - began < PATIENCE_SECONDS, f"it has not come, but {seen[-300:]!r}"
        more = client.recv(65536)
        assert more, f"it ended after {seen[-300:]!r}"
        seen += more
    return seen


def get(path: str, *more: bytes) -> bytes:
    return f"GET {path} HTTP/1.1\r\n".encode() + HEADS + b"".join(more) + b"\r\n"


def test_a_new_point_is_told_to_who_looks_on(sweep: Seeder, database: Path) -> None:
    with running(database) as port, connected(port, get("/sweeps/sweep-1/events")) as client:
        seen = until(client, rb"event: state\ndata: .*\n\n")
        assert b"content-type: text/event-stream" in seen
        assert b"server:" not in seen.lower()
        version = re.findall(rb'"curves": "(\w+)"', seen)[-1]
        sweep.score(1, 31, 0.9)
        until(client, rb'"curves": "(?!' + version + rb")")


def test_two_hundred_look_on_and_it_still_answers(sweep: Seeder, database: Path) -> None:
    with running(database) as port:
        clients = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(200)]
        for client in clients:
            client.sendall(get("/sweeps/sweep-1/events"))
        for client in clients:
            until(client, rb"event: state")
        for client in clients[:100]:
            client.close()
        with connected(port, get("/healthz", b"Connection: close\r\n")) as client:
            assert b"200 OK" in until(client, rb"\r\n\r\n")
        sweep.score(1, 31, 0.9)
        for client in clients[100:]:
            until(client, rb"event: state")
            client.close()


def test_a_port_in_use_is_said_with_the_way_out(database: Path) -> None:
    with listening(Settings(str(database), port=free_port())) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"port {port} of 127.0.0.1 is in use.*--port {port + 1}"):
            listening(Settings(str(database), port=port))


def test_a_host_that_is_not_here_is_said(database: Path) -> None:
    with pytest.raises(InputError, match=r"192.0.2.1 cannot be listened on .* leave --host out"):
        listening(Settings(str(database), "192.0.2.1"))


def test_the_command_refuses_what_it_cannot_do(run: Run, sweep: Seeder, database: Path) -> None:
    ran = run("dashboard", "--db", str(database), "--host", "0.0.0.0")
    assert ran.code == 2
    assert "--token auto" in ran.err
    ran = run("dashboard", "--db", str(database), "--token", "short")
    assert ran.code == 2
    ran = run("dashboard", "--db", str(database.with_name("none.db")))
    assert ran.code == 3
    assert "there is no results database" in ran.err


def test_ctrl_c_ends_it_although_pages_are_open(sweep: Seeder, database: Path) -> None:
    port = free_port()
    command = [str(Path(sys.executable).with_name("rlplan")), "dashboard", "--db", str(database), "--port", str(port)]
    env = {"PATH": "/usr/bin:/bin", "RLPLAN_DASHBOARD_TOKEN": "a-token-of-enough-characters", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=env, text=True) as process:
        assert process.stderr is not None
        assert f"http://127.0.0.1:{port}/?token=a-token-of-enough-characters" in process.stderr.readline()
        request = get("/sweeps/sweep-1/events", b"Authorization: Bearer a-token-of-enough-characters\r\n")
        with connected(port, request) as client:
            until(client, rb"event: state")
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()
