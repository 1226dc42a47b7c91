"""Requests that are no good: too large, too slow, cut off, or no HTTP at all."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlplan.web.dashboard import security
from rlplan.web.dashboard import serving as server
from tests.security.attacker import SWEEP, answer, ended, harmless, serving, until
from tests.security.conftest import Fort

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


@pytest.mark.parametrize("path", ["/healthz", f"{SWEEP}/events", "/nothing"])
def test_nonsense_behind_a_request_ends_the_connection_quietly(fort: Fort, path: str) -> None:
    with fort.target.connected(fort.target.head(path, "Transfer-Encoding: chunked")) as client:
        until(client, rb"\r\n\r\n")
        client.sendall(b"zz\r\n" * 9)
        ended(client)
    with fort.target.connected(fort.target.head(path, "Content-Length: 3") + b"abcGARBAGE\r\n\r\n") as client:
        until(client, rb"\r\n\r\n")
    assert fort.target.get("/healthz").status == 200
    assert "Traceback" not in fort.said()


@pytest.mark.parametrize("token", [True, False])
def test_a_body_of_any_size_is_refused_before_it_is_sent(fort: Fort, token: bool) -> None:
    origin = f"Origin: http://{fort.target.host}"
    who = fort.target.head(f"{SWEEP}/stop", origin, "Content-Length: 104857600", method="POST")
    if not token:
        who = who.replace(b"authorization", b"x-nothing")
    with fort.target.connected(who + b"x" * 3000) as client:
        given = answer(client)
    assert given.status == (403 if token else 401)
    harmless(given)


def test_a_body_without_end_is_refused_and_then_dropped(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STUCK_SECONDS", 1.5)
    cases = ((f"{SWEEP}/stop", "POST", 403), ("/healthz", "GET", 200), (SWEEP, "HEAD", 200))
    with serving(database, control=True) as target, ThreadPoolExecutor() as visitors:

        def visit(path: str, method: str, status: int) -> None:
            head = target.head(path, f"Origin: http://{target.host}", "Transfer-Encoding: chunked", method=method)
            with target.connected(head + b"bb8\r\n" + b"x" * 3000 + b"\r\n") as client:
                assert answer(client, method).status == status
                with pytest.raises(ConnectionError):
                    flood(client, b"10000\r\n" + b"x" * 65536 + b"\r\n")

        list(visitors.map(visit, *zip(*cases, strict=True)))
        assert target.get("/healthz").status == 200


def flood(client: socket.socket, chunk: bytes) -> None:
    while True:
        client.sendall(chunk)


def test_a_form_that_breaks_off_does_nothing_and_says_nothing(fort: Fort) -> None:
    head = fort.target.head(f"{SWEEP}/stop", f"Origin: http://{fort.target.host}", "Content-Length: 70", method="POST")
    for _ in range(3):
        with fort.target.connected(head + b"seal="):
            pass
    for _ in range(3):
        assert fort.target.get("/healthz").status == 200
    assert "Traceback" not in fort.said()
    assert "Exception" not in fort.said()


def test_a_form_that_does_not_come_is_not_waited_for(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "FORM_SECONDS", 0.3)
    with serving(database, control=True) as target:
        head = target.head(f"{SWEEP}/stop", f"Origin: http://{target.host}", "Content-Length: 70", method="POST")
        with target.connected(head + b"seal=") as client:
            given = answer(client)
        assert given.status == 403
        harmless(given)


def test_slow_heads_are_dropped_while_others_are_served(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STUCK_SECONDS", 1.5)
    with serving(database) as target:
        slow = [target.connected(b"GET / HTTP/1.1\r\nX-Slow: ") for _ in range(50)]
        clients = [each.__enter__() for each in slow]
        assert target.get("/healthz").status == 200
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.05):
                for client in clients:
                    try:
                        client.send(b"x")
                    except OSError:
                        continue

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            for client in clients:
                ended(client)
        finally:
            stop.set()
            dripping.join()
            for each in slow:
                each.__exit__(None, None, None)
        assert target.get("/healthz").status == 200


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
