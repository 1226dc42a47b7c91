import re
from pathlib import Path

import pytest
from sqlalchemy import select

from planner.store.schema import Request
from tests.security.attacker import PAGES, SWEEP, Answer, harmless, serving
from tests.security.conftest import Fort

METHODS = ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "GETT", "X" * 99)
KINDS = ("pause", "resume", "stop")


def visit(fort: Fort) -> tuple[str, str]:
    """Return the cookie and the seal of somebody who has opened the page."""
    page = fort.target.get(SWEEP)
    found = re.search(r'name="seal" value="([0-9a-f]{64})"', page.text)
    assert found is not None
    return (page["set-cookie"] or "").partition(";")[0], found[1]


def press(fort: Fort, kind: str, cookie: str, body: str, **headers: str) -> Answer:
    given = {"origin": f"http://{fort.target.host}", "cookie": cookie} | headers
    return fort.target.ask("POST", f"{SWEEP}/{kind}", fort.target.key | {k: v for k, v in given.items() if v}, body)


def asked(fort: Fort) -> int:
    with fort.sweep.store.read() as session:
        return len(session.scalars(select(Request)).all())


@pytest.mark.parametrize("method", METHODS)
def test_without_control_it_only_shows(database: Path, method: str) -> None:
    before = database.read_bytes()
    with serving(database) as target:
        for path in (*PAGES, *(f"{SWEEP}/{kind}" for kind in KINDS)):
            given = target.ask(method, path, {"origin": f"http://{target.host}"})
            assert (given.status, given["allow"]) == (405, "GET, HEAD")
            harmless(given)
        assert "<form" not in target.get(SWEEP).text
        assert "<button formaction" not in target.get(SWEEP).text
    assert database.read_bytes() == before


@pytest.mark.parametrize("method", METHODS[1:])
def test_with_control_there_are_no_other_methods_either(fort: Fort, method: str) -> None:
    for path in (SWEEP, f"{SWEEP}/stop"):
        assert fort.target.ask(method, path, fort.target.key).status == 405, path


@pytest.mark.parametrize("kind", KINDS)
def test_to_look_at_an_action_does_not_act(fort: Fort, kind: str) -> None:
    cookie, seal = visit(fort)
    for method in ("GET", "HEAD"):
        headers = fort.target.key | {"cookie": cookie, "origin": f"http://{fort.target.host}"}
        given = fort.target.ask(method, f"{SWEEP}/{kind}?seal={seal}", headers)
        assert (given.status, given["allow"]) == (405, "POST")
    assert asked(fort) == 0


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "http://localhost:{port}",
        "file://127.0.0.1:{port}",
        "http://127.0.0.1:{port}@evil.example",
        "http://evil.example@127.0.0.1:{port}",
        "http://127.0.0.1:{port}.evil.example",
        "http://[",
        "http://[evil",
        "//[",
        "127.0.0.1:{port}",
        "\xff",
        "http://127.0.0.1:{port} http://evil.example",
        "x" * 9000,
    ],
)
def test_another_site_s_form_does_nothing(fort: Fort, origin: str) -> None:
    cookie, seal = visit(fort)
    given = press(fort, "stop", cookie, f"seal={seal}", origin=origin.format(port=fort.target.port))
    assert given.status == 403
    harmless(given, seal)
    assert asked(fort) == 0


@pytest.mark.parametrize("site", ["", "cross-site", "same-site", "none", "Same-Origin", "same-origin, cross-site"])
def test_without_an_origin_the_browser_must_say_that_it_is_here(fort: Fort, site: str) -> None:
    cookie, seal = visit(fort)
    given = press(fort, "stop", cookie, f"seal={seal}", **{"origin": "", "sec-fetch-site": site})
    assert given.status == 403
    assert asked(fort) == 0


@pytest.mark.parametrize(
    "body",
    [
        "",
        "seal=",
        f"seal={'0' * 64}",
        "seal=%00",
        "seal=%C3%A9",
        "seal[]={seal}",
        "SEAL={seal}",
        '{{"seal": "{seal}"}}',
        "seal={seal}x",
        "seal=x&seal={seal}",
        "&".join(f"a{number}=b" for number in range(30)),
        "%" * 1500,
        ";" * 1500,
        "x" * 5000,
    ],
)
def test_without_the_seal_a_form_does_nothing(fort: Fort, body: str) -> None:
    cookie, seal = visit(fort)
    given = press(fort, "stop", cookie, body.format(seal=seal))
    assert given.status == 403
    harmless(given, seal)
    assert asked(fort) == 0


def test_another_visitor_s_seal_does_nothing(fort: Fort) -> None:
    (mine, _), (theirs, seal) = visit(fort), visit(fort)
    assert mine != theirs
    name = theirs.partition("=")[0]
    for cookie in (mine, "", f"{name}=", f"{name}=x", f"{theirs}x", f'{name}="'):
        assert press(fort, "stop", cookie, f"seal={seal}").status == 403
    assert asked(fort) == 0


@pytest.mark.parametrize(
    "session", ["chosen", "x" * 24 + "=", "x" * 9000, '"\\012set-cookie: a=b"', "\xe9" * 24, "eyJzZWFsIjogIngifQ=="]
)
def test_a_session_that_somebody_made_up_is_not_taken(fort: Fort, session: str) -> None:
    name = f"rlplan-{fort.target.port}"
    page = fort.target.get(SWEEP, cookie=f"{name}={session}")
    assert page.status == 200
    cookie = page["set-cookie"] or ""
    assert re.fullmatch(rf"{name}=[\w.=-]{{80,}}; path=/; httponly; samesite=strict", cookie)
    assert session not in cookie


def test_each_part_of_the_key_is_needed(fort: Fort) -> None:
    """The token, the session, its seal and the origin: none stands in for another."""
    cookie, seal = visit(fort)
    origin = {"origin": f"http://{fort.target.host}", "cookie": cookie}
    assert fort.target.ask("POST", f"{SWEEP}/stop", origin, f"seal={seal}").status == 401
    assert press(fort, "stop", "", f"seal={seal}").status == 403
    assert press(fort, "stop", cookie, f"seal={fort.target.token}").status == 403
    assert press(fort, "stop", cookie, f"seal={seal}", origin="").status == 403
    assert asked(fort) == 0
    given = press(fort, "delete", cookie, f"seal={seal}")
    assert given.status == 404
    given = press(fort, "resume", cookie, f"seal={seal}")  # which is genuine, and makes no sense
    assert given.status in (404, 409)
    assert asked(fort) == 0


def test_a_sweep_s_name_leads_a_press_nowhere_else(fort: Fort) -> None:
    cookie, seal = visit(fort)
    headers = fort.target.key | {"origin": f"http://{fort.target.host}", "cookie": cookie}
    for name in ("%2F%2Fevil.example", "..", "%0d%0alocation:evil", "none"):
        given = fort.target.ask("POST", f"/sweeps/{name}/stop", headers, f"seal={seal}")
        assert given.status == 404
        assert given["location"] is None
