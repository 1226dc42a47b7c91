import re
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest
from itsdangerous import TimestampSigner

from rlplan.web.dashboard.settings import checked
from tests.security.attacker import MISSING, PAGES, SWEEP, TOKEN, harmless, serving
from tests.security.conftest import Fort

SECRETS = ("sweep-1", "n512", "qwen", "rlplan.db", TOKEN)
NEARLY = (
    *("", TOKEN[:-1], TOKEN[1:], TOKEN + "x", TOKEN.upper(), f"%20{TOKEN}", f"{TOKEN}%00", f"{TOKEN}%0a"),
    TOKEN.replace("a", "%D0%B0", 1),  # the Cyrillic letter
    *("%C3%A9%F0%9F%94%91%ED%A0%80%FF", "x" * 12_000, "[]"),
)
HEADERS = (
    *("Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN} {TOKEN}", f"Bearer \xe9{TOKEN}", f"Basic {TOKEN}"),
    *(f"Digest {TOKEN}", TOKEN, f"Bearer {'x' * 9000}"),
)
ELSEWHERE = (
    *("//evil.example/", "///evil.example/..", "/\\evil.example", "/%5Cevil.example", "/%2F%2Fevil.example"),
    "/%09/evil",
)


@pytest.mark.parametrize("path", [*PAGES, *MISSING])
def test_a_stranger_sees_nothing_and_learns_no_address(fort: Fort, path: str) -> None:
    for method in ("GET", "HEAD", "POST", "PUT"):
        given = fort.target.ask(method, path)
        assert given.status == 401
        assert given["set-cookie"] is None
        harmless(given, *SECRETS)


@pytest.mark.parametrize("token", NEARLY)
def test_a_token_that_is_nearly_right_opens_nothing(fort: Fort, token: str) -> None:
    for path in (f"/?token={token}", f"{SWEEP}/state?token={token}", f"/?token={TOKEN}&token={token}"):
        given = fort.target.ask("GET", path)
        assert given.status == 401
        assert given["set-cookie"] is None
        harmless(given, *SECRETS)


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_that_is_nearly_right_opens_nothing(fort: Fort, header: str) -> None:
    assert fort.target.ask("GET", "/", {"authorization": header}).status == 401


def cookie_of(content: str, key: str) -> str:
    """Return what a dashboard with that token would give a visitor to keep."""
    return TimestampSigner(key).sign(b64encode(content.encode())).decode()


ADMITTED = '{"admitted": true}'


def test_what_a_visitor_keeps_opens_the_dashboard(fort: Fort) -> None:
    cookie = cookie_of(ADMITTED, TOKEN)
    assert fort.target.ask("GET", "/", {"cookie": f"rlplan-{fort.target.port}={cookie}"}).status == 200


def test_a_cookie_that_somebody_made_up_opens_nothing(fort: Fort) -> None:
    made_up = (
        *(TOKEN, "", "\xe9", '"\\', "=;=", b64encode(ADMITTED.encode()).decode()),
        cookie_of(ADMITTED, TOKEN)[:-1],
        cookie_of(ADMITTED, TOKEN).swapcase(),
        cookie_of(ADMITTED, f"{TOKEN}x"),
        cookie_of(ADMITTED, ""),
        cookie_of('{"admitted": false}', TOKEN),
        cookie_of('{"seal": "x"}', TOKEN),
    )
    for cookie in made_up:
        given = fort.target.ask("GET", "/", {"cookie": f"rlplan-{fort.target.port}={cookie}"})
        assert given.status == 401, cookie


def test_another_dashboard_s_cookie_opens_nothing(fort: Fort, database: Path) -> None:
    with serving(database, token="another-token-of-some-length") as other:
        cookie = (other.ask("GET", f"/?token={other.token}")["set-cookie"] or "").partition(";")[0]
        assert other.ask("GET", "/", {"cookie": cookie}).status == 200
        moved = cookie.replace(str(other.port), str(fort.target.port))
        assert fort.target.ask("GET", "/", {"cookie": moved}).status == 401


@pytest.mark.parametrize("path", ["/", SWEEP, "/nothing?a=1&b=%C3%A9", "/%0d%0aset-cookie:a=b", "/a%3Fb%23c"])
def test_the_token_becomes_a_cookie_and_leaves_the_address(fort: Fort, path: str) -> None:
    given = fort.target.ask("GET", f"{path}{'&' if '?' in path else '?'}token={TOKEN}")
    assert given.status == 303
    harmless(given, TOKEN)
    cookie = given["set-cookie"] or ""
    flags = {each.strip().lower() for each in cookie.split(";")[1:]}
    assert flags == {"httponly", "path=/", "samesite=strict"}
    where = given["location"] or ""
    assert re.match(r"/(?![/\\])", where)
    assert fort.target.ask("GET", where, {"cookie": cookie.partition(";")[0]}).status in (200, 404)


def test_the_token_is_on_no_page_and_in_no_log(fort: Fort) -> None:
    for path in (*PAGES, *MISSING):
        harmless(fort.target.get(path), TOKEN)
        fort.target.ask("GET", f"{path}?token={TOKEN}")
        fort.target.ask("GET", path, {"referer": f"http://{fort.target.host}/?token={TOKEN}", "user-agent": TOKEN})
    assert TOKEN not in fort.said()


@pytest.mark.parametrize("target", ELSEWHERE)
def test_the_way_back_leads_to_no_other_host(fort: Fort, target: str) -> None:
    where = fort.target.ask("GET", f"{target}?token={TOKEN}")["location"] or ""
    assert re.match(r"/(?![/\\\t])", where)


def test_a_token_is_not_taken_from_a_form(fort: Fort) -> None:
    given = fort.target.ask("POST", f"{SWEEP}/stop", {"origin": f"http://{fort.target.host}"}, f"token={TOKEN}")
    assert given.status == 401


@pytest.mark.parametrize("token", ["a+token&with=signs#of%41ddresses", "/?token=slashes//and\\more"])
def test_the_address_that_is_printed_opens_the_dashboard(database: Path, token: str) -> None:
    with serving(database, token=token) as target:
        printed = checked(str(database), "127.0.0.1", target.port, token).url
        path = printed.removeprefix(f"http://{target.host}")
        assert path == f"/?token={quote(token, safe='')}"
        assert target.ask("GET", path).status == 303
