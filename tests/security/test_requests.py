"""Requests that are no good: too large, cut off, of another method, or no HTTP at all."""

from itertools import product
from pathlib import Path

import pytest

from rlplan.web.dashboard import serving as server
from tests.security.attacker import PAGES, SWEEP, answer, harmless, serving, until
from tests.security.conftest import Fort

METHODS = ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "GETT", "X" * 99)
NO_HTTP = (
    b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # how TLS begins
    b"GARBAGE\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n folded: x\r\n\r\n\x00",
    b"GET /\x00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /\xc3\xa9 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 40_000,
)


@pytest.mark.parametrize("request_", NO_HTTP)
def test_what_is_no_http_is_told_so(fort: Fort, request_: bytes) -> None:
    with fort.target.connected(request_ + b"\r\n\r\n") as client:
        seen = until(client, rb"\r\n\r\n")
    assert seen.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 401 ", b"HTTP/1.1 421 "))
    assert b"server:" not in seen.lower()
    assert b"uvicorn" not in seen.lower()


@pytest.mark.parametrize("token", [True, False])
def test_a_body_of_any_size_is_refused_before_it_is_sent(fort: Fort, token: bool) -> None:
    origin = f"Origin: http://{fort.target.host}"
    who = fort.target.head(f"{SWEEP}/stop", origin, "Content-Length: 104857600", method="POST")
    if not token:
        who = who.replace(b"authorization", b"x-nothing")
    with fort.target.connected(who + b"x" * 3000) as client:
        given = answer(client)
    assert given.status == (405 if token else 401)
    harmless(given)


def test_it_only_shows(database: Path) -> None:
    before = database.read_bytes()
    with serving(database) as target:
        for method, path in product(METHODS, (*PAGES, f"{SWEEP}/stop")):
            given = target.ask(method, path, {"origin": f"http://{target.host}"})
            assert (given.status, given["allow"]) == (405, "GET, HEAD"), (method, path)
            harmless(given)
        assert "<form" not in target.get(SWEEP).text
    assert database.read_bytes() == before


def test_an_upgrade_is_not_taken_up(fort: Fort) -> None:
    for protocol in ("websocket", "h2c", "TLS/1.0"):
        lines = [f"Upgrade: {protocol}", "Sec-WebSocket-Key: eHl6", "Sec-WebSocket-Version: 13", "HTTP2-Settings: AA"]
        with fort.target.connected(fort.target.head("/healthz", "Connection: Upgrade, close", *lines)) as client:
            assert answer(client).status == 200
    assert fort.said().count("\n") <= 1


def test_one_connection_too_many_is_told_so(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 2)
    with serving(database) as target, target.connected(), target.connected():
        given = target.get("/healthz")
        assert given.status == 503
        assert given["server"] is None
    with serving(database) as target:
        assert target.get("/healthz").status == 200
