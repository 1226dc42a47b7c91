"""The dashboard: who is let in, what every answer carries, and that it only shows, whatever becomes of the database."""

import os
import re
import shutil
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from socket import gethostname
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from planner.store import open_store
from rlplan.web import dashboard as live
from rlplan.web.dashboard import Access
from tests.rlplan.sweep_rows import seeded
from tests.rlplan.web.test_dashboard import becomes
from tests.rlplan.web.visits import ACCESS, KEY, TOKEN, served, visiting

SWEEP = "/sweeps/sweep-1"
PAGES = ("/", SWEEP, f"{SWEEP}/data.json", "/static/page.css")
MISSING = ("/nothing", "/sweeps/none", "/plans/none", "/static/none", "/docs", "/openapi.json")
SECRETS = ("sweep-1", "n512", "qwen", "rlplan.db", TOKEN)
TRACES = ('File "', "sqlalchemy", "sqlite3.", "site-packages", "RuntimeError")
NEARLY = (
    *("", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), f"%20{TOKEN}", f"{TOKEN}%00", "%C3%A9%ED%A0%80%FF", "x" * 9000),
    TOKEN.replace("a", "%D0%B0", 1),  # the Cyrillic letter
)
FORGED_HOSTS = (
    *("evil.example", "evil.example:8787", "127.0.0.1.evil.example", "127.0.0.1.", "localhost.", "127.0.0.1, evil"),
    *("127.0.0.1@evil.example", "user:password@127.0.0.1:8787", "127.0.0.1 evil", "127.0.0.1/evil", "127.0.0.1#evil"),
    *("127.0.0.1:x", "127.0.0.1:-1", "127.1", "2130706433", "0x7f000001", "127.0.0.2", "0.0.0.0", "[::]", "[::1"),
    *("::1", "[::ffff:127.0.0.1]", "[::1].evil.example", "", "x" * 5000),
)
LEADING_ASTRAY = (
    *("../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "..%5c..%5cetc%5cpasswd"),
    *("%2fetc%2fpasswd", "%00", "page.css%00.js", "rlplan.db", "../dashboard/app.py", "../templates/report.html"),
    *("'%20or%201=1--", "sweep-1%27%20union%20select%201,2,3--", "SWEEP-1", "a" * 8000),
)


@pytest.fixture
def visitor(database: Path) -> Iterator[TestClient]:
    with visiting(database) as client:
        yield client


@pytest.fixture
def stranger(database: Path) -> Iterator[TestClient]:
    with visiting(database, key={}) as client:
        yield client


def harmless(answer: Any, *secrets: str) -> None:
    """Check what holds for every answer, whatever was asked."""
    headers, text = answer.headers, f"{answer.headers}\n{answer.text}"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "private, no-cache"
    assert not {"server", "x-powered-by", "access-control-allow-origin"} & headers.keys()
    assert not [secret for secret in (*TRACES, *secrets) if secret in text]


def test_a_stranger_sees_nothing_and_learns_no_address(stranger: TestClient) -> None:
    headers = ("Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN} {TOKEN}", f"Basic {TOKEN}", TOKEN)
    asked = [(method, path, "") for method in ("GET", "POST") for path in (*PAGES, *MISSING)]
    asked += [("GET", f"{SWEEP}?token={token}", "") for token in NEARLY]
    asked += [("GET", f"/?token={TOKEN}&token={token}", "") for token in NEARLY]
    asked += [("GET", "/", header) for header in headers]
    for method, path, header in asked:
        answer = stranger.request(method, path, headers={"authorization": header})
        assert (answer.status_code, "set-cookie" in answer.headers) == (401, False), (method, path, header)
        harmless(answer, *SECRETS)


@pytest.mark.parametrize("path", ["/", SWEEP, "/nothing?a=1&b=%C3%A9", "/%0d%0aset-cookie:a=b", "//evil.example/"])
def test_the_token_becomes_a_cookie_and_leaves_the_address(stranger: TestClient, path: str) -> None:
    answer = stranger.get(f"http://127.0.0.1:8787{path}{'&' if '?' in path else '?'}token={TOKEN}")
    assert answer.status_code == 303
    harmless(answer, TOKEN)
    pair, *flags = answer.headers["set-cookie"].split("; ")
    assert {flag.lower() for flag in flags} == {"httponly", "path=/", "samesite=strict"}
    where = answer.headers["location"]
    assert re.match(r"/(?![/\\])", where)
    assert stranger.get(where, headers={"cookie": pair}).status_code in (200, 404)


def test_a_cookie_that_somebody_made_up_opens_nothing(database: Path, stranger: TestClient) -> None:
    other = Access("127.0.0.1", 8787, "another-token-of-some-length").cookie[1]
    name, value = ACCESS.cookie
    for cookie in ("", TOKEN, other, value[:-1], value.upper(), '"\\', "=;="):
        assert stranger.get("/", headers={"cookie": f"{name}={cookie}"}).status_code == 401, cookie
    assert stranger.get("/", headers={"cookie": f"rlplan-8788={value}"}).status_code == 401
    assert stranger.get("/", headers={"cookie": f"{name}={value}"}).status_code == 200


def test_the_address_that_is_printed_opens_it_whatever_the_token(database: Path) -> None:
    for token in ("a+token&with=signs#of%41ddresses", "/?token=slashes//and\\more"):
        access = Access("127.0.0.1", 8787, token)
        assert access.url == f"http://127.0.0.1:8787/?token={quote(token, safe='')}"
        with visiting(database, access=access, key={}) as client:
            assert client.get(access.url).status_code == 303


def test_another_host_or_origin_gets_nothing_even_with_the_token(visitor: TestClient) -> None:
    for host in FORGED_HOSTS:
        answer = visitor.get(SWEEP, headers={"host": host})
        assert answer.status_code == 421, host
        harmless(answer, *SECRETS)
    for origin in ("http://evil.example", "null", "http://127.0.0.1:8788", "http://127.0.0.1:8787.evil.example"):
        answer = visitor.get(SWEEP, headers={"origin": origin})
        assert answer.status_code == 403, origin
        harmless(answer, *SECRETS)
    for header in ("x-forwarded-host", "x-original-url", "x-http-method-override", "forwarded", "x-host"):
        answer = visitor.get("/", headers={header: "evil.example"})
        assert (answer.status_code, "evil" in answer.text) == (200, False)
        assert visitor.get("/", headers={header: "127.0.0.1", "host": "evil.example"}).status_code == 421
    for host in ("127.0.0.1", "127.0.0.1:1", "localhost:9000", "LOCALHOST", "[::1]:8787"):
        assert visitor.get("/", headers={"host": host}).status_code == 200, host


def test_on_all_interfaces_numbers_and_the_own_name_are_answered_and_no_other(database: Path) -> None:
    with visiting(database, access=Access("0.0.0.0", 8787, TOKEN)) as client:
        for host in ("192.0.2.7", "192.0.2.7:80", "[2001:db8::7]:8787", "localhost", gethostname()):
            assert client.get("/", headers={"host": host}).status_code == 200, host
        for host in ("evil.example", "192.0.2.7.evil.example", "192.0.2.7.", "[evil]", "1.2.3", "", "*"):
            assert client.get("/", headers={"host": host}).status_code == 421, host


def test_it_only_shows(database: Path, visitor: TestClient) -> None:
    before = database.read_bytes()
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"):
        for path in (*PAGES, f"{SWEEP}/stop"):
            answer = visitor.request(method, path, headers={"origin": "http://127.0.0.1:8787"})
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET"), (method, path)
            harmless(answer)
    assert database.read_bytes() == before
    with live.opened(str(database)) as store, store.read() as session:
        raw = session.connection().connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        raw.execute("PRAGMA query_only = OFF")  # the file itself is open for reading alone
        for statement in ("UPDATE sweeps SET name = 'x'", "DROP TABLE points", "PRAGMA user_version = 7"):
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                raw.execute(statement)


def test_no_address_leads_to_a_file_or_is_read_as_sql(visitor: TestClient) -> None:
    for name in LEADING_ASTRAY:
        for before in ("/", "/static/", "/sweeps/", "/plans/"):
            answer = visitor.get(before + name)
            assert answer.status_code == 404, before + name
            harmless(answer, "root:", "import ", "{%", "SQLite format", "syntax error")
    for path in (*PAGES, *MISSING):
        harmless(visitor.get(f"{path}?a={'b' * 9000}&%00=%ED%A0%80"), TOKEN)


def test_what_is_no_http_is_told_so(database: Path) -> None:
    head = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    wrong = (
        *(
            b"\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GARBAGE",
            b"GET / HTTP/1.1\r\nHost 127.0.0.1",
        ),
        *(head + b"Host: evil.example", head + b"Content-Length: -1", head + b"X: a\x00b", b"GET / HTTP/1.1\r\nA: b"),
        head + b"X: " + b"x" * 100_000,
    )
    with served(database) as (_, port):
        for request in (*wrong, head + b"Upgrade: websocket\r\nConnection: Upgrade", b"POST / HTTP/1.1\r\nHost: [::1]"):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(request + b"\r\n\r\n")
                answer = client.recv(65536)
            assert re.match(rb"HTTP/1.1 (40[01]|421) ", answer), (request[:80], answer[:80])
            assert b"uvicorn" not in answer.lower()


def overwritten(content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Write into the file that is there, as `cp` does."""

    def change(path: Path) -> None:
        whole = path.read_bytes()
        with path.open("r+b") as file:
            file.write(content(whole))
            file.truncate()

    return change


def replaced(put: Callable[[Path], None]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.unlink()
        put(path)

    return change


HARM = {
    "cut off": overwritten(lambda whole: whole[:5000]),
    "emptied": overwritten(lambda _: b""),
    "something else": overwritten(lambda whole: b"<html>" * (len(whole) // 6)),
    "gone": Path.unlink,
    "folder": replaced(Path.mkdir),
    "pipe": replaced(os.mkfifo),
    "link to nothing": replaced(lambda path: path.symlink_to(path.with_name("nothing"))),
}


@pytest.mark.parametrize("what", HARM)
def test_a_database_that_goes_is_said_and_shown_again_when_it_comes_back(
    database: Path, visitor: TestClient, tmp_path: Path, what: str
) -> None:
    assert visitor.get(SWEEP).status_code == 200
    shutil.copyfile(database, tmp_path / "copy.db")
    HARM[what](database)
    for path in ("/", SWEEP):
        answer = becomes(lambda path=path: visitor.get(path), lambda answer: answer.status_code in (404, 503))
        harmless(answer)
        assert 'hx-trigger="every 1s"' in answer.text  # the page looks again by itself
    if what == "folder":
        database.rmdir()
    os.replace(tmp_path / "copy.db", database)
    for path in ("/", SWEEP):
        becomes(lambda path=path: visitor.get(path), lambda answer: answer.status_code == 200)


def test_another_database_in_its_place_is_shown(database: Path, visitor: TestClient, tmp_path: Path) -> None:
    assert visitor.get(SWEEP).status_code == 200
    newer = seeded(tmp_path / "newer.db")
    newer.trial(4096, 64)
    newer.store.close()
    os.replace(tmp_path / "newer.db", database)
    becomes(lambda: visitor.get(SWEEP).text, lambda text: "n4096-B64-s0" in text)
    open_store(tmp_path / "empty.db").close()
    os.replace(tmp_path / "empty.db", database)
    becomes(lambda: visitor.get(SWEEP), lambda answer: answer.status_code == 404)
    assert "There is no sweep here yet" in visitor.get("/").text


def test_a_lock_is_said_and_not_waited_for(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOCK_SECONDS", 0.05)
    with closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as writer:
        writer.execute("PRAGMA journal_mode = DELETE")
        with visiting(database, key=KEY) as visitor:
            assert visitor.get(SWEEP).status_code == 200
            writer.execute("BEGIN EXCLUSIVE")
            assert "is locked" in becomes(lambda: visitor.get(SWEEP), lambda answer: answer.status_code == 503).text
            assert "is locked" in visitor.get("/").text
            writer.execute("ROLLBACK")
            becomes(lambda: visitor.get(SWEEP), lambda answer: answer.status_code == 200)
