"""Speaks to a dashboard in bytes, so that what no browser would send is sent as it is."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path

from rlplan.web.dashboard.app import Dashboard
from rlplan.web.dashboard.serving import Server, listening
from rlplan.web.dashboard.settings import DEFAULT_HOST, Settings

TOKEN = "a-token-of-enough-characters"
PATIENCE = 30  # seconds after which an answer will not come any more
SWEEP = "/sweeps/sweep-1"
PAGES = (
    *("/", "/sweeps", SWEEP, f"{SWEEP}/sections/now", f"{SWEEP}/trials/1", f"{SWEEP}/data.json", f"{SWEEP}/state"),
    *("/healthz", "/static/rlplan.css"),
)
MISSING = ("/nothing", "/sweeps/none", f"{SWEEP}/sections/none", f"{SWEEP}/trials/none", "/static/none", "/docs")
TRACES = ('File "', "sqlalchemy", "sqlite3.", "site-packages", "RuntimeError")


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: tuple[tuple[str, str], ...]
    text: str

    def __getitem__(self, name: str) -> str | None:
        """Return a header, which must not be there twice."""
        found = [value for key, value in self.headers if key.lower() == name]
        assert len(found) < 2, found
        return found[0] if found else None

    @property
    def everything(self) -> str:
        return f"{self.headers}\n{self.text}"


@dataclass(frozen=True)
class Target:
    """A dashboard that listens."""

    port: int
    token: str | None = None

    @property
    def host(self) -> str:
        return f"{DEFAULT_HOST}:{self.port}"

    @property
    def key(self) -> dict[str, str]:
        """What a visitor shows who may look."""
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def get(self, path: str, **headers: str) -> Answer:
        """Ask as somebody who may look; `_` stands for the `-` of a header."""
        return self.ask("GET", path, self.key | {name.replace("_", "-"): value for name, value in headers.items()})

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, body: str = "") -> Answer:
        given = {"host": self.host, "accept": "text/html", "connection": "close"} | (headers or {})
        if body:
            given["content-length"] = str(len(body))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", body]
        return self.raw("\r\n".join(lines).encode("latin-1"), method)

    def raw(self, request: bytes, method: str = "GET") -> Answer:
        with self.connected(request) as client:
            return answer(client, method)

    @contextmanager
    def connected(self, request: bytes = b"") -> Iterator[socket.socket]:
        with socket.create_connection((DEFAULT_HOST, self.port), timeout=PATIENCE) as client:
            client.sendall(request)
            yield client

    def head(self, path: str, *lines: str, method: str = "GET") -> bytes:
        """Return the head of a request of somebody who may look."""
        own = [f"{name}: {value}" for name, value in ({"host": self.host, "accept": "text/html"} | self.key).items()]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *own, *lines, "", ""]).encode("latin-1")


def answer(client: socket.socket, method: str = "GET") -> Answer:
    """Read one answer."""
    with HTTPResponse(client, method=method) as response:
        response.begin()
        text = response.read().decode("utf-8", "replace")
        return Answer(response.status, tuple(response.getheaders()), text)


def until(client: socket.socket, pattern: bytes) -> bytes:
    """Read until something has come."""
    seen = b""
    while not re.search(pattern, seen):
        more = client.recv(65536)
        assert more, f"it ended after {seen[-300:]!r}"
        seen += more
    return seen


def ended(client: socket.socket) -> None:
    """Wait until the other end has hung up."""
    try:
        while client.recv(65536):
            pass
    except ConnectionError:
        pass


def free_port() -> int:
    with socket.socket() as any_port:
        any_port.bind((DEFAULT_HOST, 0))
        port: int = any_port.getsockname()[1]
        return port


@contextmanager
def serving(database: Path, *, token: str | None = None) -> Iterator[Target]:
    """Serve in a thread of this process."""
    settings = Settings(str(database), port=free_port(), token=token)
    server = Server(Dashboard(settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening(settings)]})
    thread.start()
    try:
        yield Target(settings.port, token)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


def harmless(given: Answer, *secrets: str) -> None:
    """Check what holds for every answer, whatever was asked."""
    assert given["x-content-type-options"] == "nosniff"
    assert given["x-frame-options"] == "DENY"
    assert given["referrer-policy"] == "same-origin"
    assert "default-src 'none'" in (given["content-security-policy"] or "")
    assert given["cross-origin-resource-policy"] == "same-origin"
    assert given["cache-control"] in ("no-store", "no-cache")
    assert given["server"] is None
    assert given["x-powered-by"] is None
    assert given["access-control-allow-origin"] is None
    for secret in (*TRACES, *secrets):
        assert secret not in given.everything
