from pathlib import Path
from socket import gethostname

import pytest

from tests.rlplan.web.dashboard.visits import visiting
from tests.security.attacker import PAGES, SWEEP, TOKEN, harmless
from tests.security.conftest import Fort

FORGED = (
    *("evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "127.0.0.1.", "localhost."),
    *("localhost.evil.example:{port}", "127.0.0.1@evil.example", "evil.example@127.0.0.1"),
    *("user:password@127.0.0.1:{port}", "127.0.0.1:{port}@evil.example", "127.0.0.1:{port}, evil.example"),
    *("127.0.0.1 evil.example", "127.0.0.1/evil.example", "127.0.0.1#evil.example", "127.0.0.1?", "127.0.0.1:"),
    *("127.0.0.1:x", "127.0.0.1:-1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.2", "0.0.0.0"),
    *("[::]", "[::1", "::1", "[::1%25lo]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1].evil.example"),
    "locаlhost".encode().decode("latin-1"),  # with a Cyrillic letter
    *("\xb5", "", "x" * 5000),
)
OF_PROXIES = (
    *("x-forwarded-host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-prefix", "x-original-url"),
    *("x-rewrite-url", "x-http-method-override", "forwarded", "x-real-ip", "x-host"),
)


@pytest.mark.parametrize("host", FORGED)
def test_a_forged_host_gets_nothing_even_with_the_token(fort: Fort, host: str) -> None:
    for path in ("/", f"{SWEEP}/data.json", f"{SWEEP}/state"):
        given = fort.target.get(path, host=host.format(port=fort.target.port))
        assert given.status in (400, 421)
        harmless(given, "n512", "qwen", "rlplan.db")
    assert fort.target.ask("POST", f"{SWEEP}/stop", fort.target.key | {"host": host}).status in (400, 421)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:1", "localhost:9000", "LOCALHOST", "[::1]", "[::1]:8787"])
def test_this_machine_s_own_names_are_answered_at_any_port(fort: Fort, host: str) -> None:
    assert fort.target.get("/healthz", host=host).status == 200


@pytest.mark.parametrize(
    "hosts", [[], ["127.0.0.1", "evil.example"], ["evil.example", "127.0.0.1"], ["127.0.0.1", "127.0.0.1"]]
)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_there_is_exactly_one_host(fort: Fort, hosts: list[str], version: str) -> None:
    lines = [f"GET / HTTP/{version}", "Connection: close", f"Authorization: Bearer {fort.target.token}"]
    request = "\r\n".join([*lines, *(f"Host: {host}" for host in hosts), "", ""])
    given = fort.target.raw(request.encode())
    assert given.status in (400, 421)
    assert "sweep-1" not in given.everything


@pytest.mark.parametrize(
    "start", ["http://evil.example", "http://127.0.0.1@evil.example", "evil.example", "*", "?", "#"]
)
def test_an_address_with_a_host_in_it_is_no_page(fort: Fort, start: str) -> None:
    given = fort.target.get(f"{start}/")
    assert given.status == 404
    harmless(given, "sweep-1")
    given = fort.target.ask("GET", f"{start}/?token={fort.target.token}")
    assert "://evil" not in (given["location"] or "")


@pytest.mark.parametrize("header", OF_PROXIES)
def test_what_a_proxy_would_say_is_not_heard(fort: Fort, header: str) -> None:
    for value in ("evil.example", "/static/rlplan.css", "https", "POST", "for=evil;host=evil.example;proto=https"):
        given = fort.target.ask("GET", f"{SWEEP}?token={fort.target.token}", {header: value})
        assert (given.status, given["location"]) == (303, SWEEP)
    given = fort.target.get("/healthz", **{header: "evil.example"})
    assert given.status == 200
    assert "evil" not in given.everything
    assert fort.target.ask("GET", "/healthz", {header: "127.0.0.1", "host": "evil.example"}).status == 421


@pytest.mark.parametrize("host", ["192.0.2.7", "192.0.2.7:80", "[2001:db8::7]:8787", "localhost", gethostname()])
def test_on_all_interfaces_numbers_and_the_own_name_are_answered(database: Path, host: str) -> None:
    with visiting(database, host="0.0.0.0", token=TOKEN) as client:
        assert client.get("/healthz", headers={"host": host}).status_code == 401  # by whoever has the token


@pytest.mark.parametrize("host", ["evil.example", "192.0.2.7.evil.example", "192.0.2.7.", "[evil]", "1.2.3", "", "*"])
def test_on_all_interfaces_no_other_name_is(database: Path, host: str) -> None:
    with visiting(database, host="0.0.0.0", token=TOKEN) as client:
        answer = client.get("/healthz", headers={"host": host, "authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 421


def test_each_page_is_of_this_origin_alone(fort: Fort) -> None:
    for path in PAGES:
        given = fort.target.get(path, origin="http://evil.example")
        assert given.status == 200
        harmless(given)
