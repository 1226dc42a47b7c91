from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.rlplan.sweep_rows import Seeder
from tests.rlplan.web.dashboard.visits import TOKEN, visiting

ADDRESSES = [
    "/",
    "/sweeps",
    "/sweeps/sweep-1",
    "/sweeps/sweep-1/sections/now",
    "/sweeps/sweep-1/trials/1",
    "/sweeps/sweep-1/data.json",
    "/sweeps/sweep-1/events",
    "/healthz",
    "/static/rlplan.css",
    "/nothing",
]
SECRETS = ("sweep-1", "n512", "qwen", "rlplan.db")


@pytest.fixture
def locked(sweep: Seeder, database: Path) -> Iterator[TestClient]:
    with visiting(database, token=TOKEN) as client:
        yield client


@pytest.mark.parametrize("given", ["", "?token=wrong", f"?token={TOKEN[:-1]}", f"?token={TOKEN}x", "?token="])
def test_without_the_token_nothing_is_shown(locked: TestClient, given: str) -> None:
    for address in ADDRESSES:
        answer = locked.get(address + given)
        assert answer.status_code == 401, address
        assert not any(secret in answer.text for secret in SECRETS), address
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": TOKEN},
        {"cookie": f"rlplan-key-8787={TOKEN}"},
        {"cookie": "rlplan-key-8787="},
    ],
)
def test_what_is_not_the_token_opens_nothing(locked: TestClient, headers: dict[str, str]) -> None:
    assert locked.get("/", headers=headers).status_code == 401


def test_the_token_opens_with_a_header(locked: TestClient) -> None:
    assert locked.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_token_leaves_the_address_and_a_cookie_stays(locked: TestClient) -> None:
    answer = locked.get(f"/sweeps/sweep-1?a=b&token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sweeps/sweep-1?a=b")
    cookie = answer.headers["set-cookie"]
    assert TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert locked.get("/sweeps/sweep-1").status_code == 200
    assert locked.get("/static/rlplan.css").status_code == 200


@pytest.mark.parametrize("path", ["//evil.example/", "///evil.example", "/%5Cevil.example", "/\\evil.example"])
def test_the_way_back_leads_nowhere_else(locked: TestClient, path: str) -> None:
    answer = locked.get(f"http://127.0.0.1:8787{path}?token={TOKEN}")
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/evil")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil", "", "a b", "127.0.0.1:x"])
def test_a_forged_host_is_turned_away(visitor: TestClient, host: str) -> None:
    for address in ADDRESSES:
        answer = visitor.get(address, headers={"host": host})
        assert answer.status_code in (400, 421), address
        assert not any(secret in answer.text for secret in SECRETS), address


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1:1", "[::1]:8787"])
def test_this_machine_s_names_are_let_in(visitor: TestClient, host: str) -> None:
    assert visitor.get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_it_only_shows(visitor: TestClient, method: str) -> None:
    for address in ("/", "/sweeps/sweep-1", "/sweeps/sweep-1/pause", "/sweeps/sweep-1/stop"):
        answer = visitor.request(method, address)
        assert answer.status_code == 405, address
        assert answer.headers["allow"] == "GET, HEAD"


def test_every_answer_has_the_headers(visitor: TestClient) -> None:
    for address in ADDRESSES:
        answer = visitor.head(address)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == ("no-cache" if "static" in address else "no-store")
        assert "server" not in answer.headers


def test_heads_alone_are_given_too(visitor: TestClient) -> None:
    for address in ADDRESSES[:-1]:
        assert visitor.head(address).status_code == 200, address


def test_there_is_nothing_else(visitor: TestClient) -> None:
    for address in ("/docs", "/redoc", "/openapi.json", "/static/", "/static/htmx.LICENSE.txt"):
        assert visitor.get(address).status_code == 404, address


@pytest.mark.parametrize(
    "name",
    ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "....//app.py", "%00", "/etc/passwd", "..%5capp.py", "rlplan.css/"],
)
def test_no_path_leads_to_a_file(visitor: TestClient, name: str) -> None:
    for before in ("/static/", "/sweeps/", "/sweeps/sweep-1/sections/", "/sweeps/sweep-1/trials/"):
        answer = visitor.get(before + name)
        assert answer.status_code == 404, before
        assert "import" not in answer.text


def test_no_name_is_read_as_sql(visitor: TestClient) -> None:
    for name in ("' OR 1=1 --", "sweep-1' --", "sweep-1;drop table sweeps", "%"):
        assert visitor.get(f"/sweeps/{name}").status_code == 404, name
        assert visitor.get(f"/sweeps/sweep-1/trials/{name}").status_code == 404, name
    assert visitor.get("/sweeps/sweep-1").status_code == 200
