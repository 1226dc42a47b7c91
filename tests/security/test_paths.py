from pathlib import Path

import pytest

from tests.security.attacker import SWEEP, harmless
from tests.security.conftest import Fort

BEFORE = ("/", "/static/", "/sweeps/", f"{SWEEP}/sections/", f"{SWEEP}/trials/", f"{SWEEP}/")
LEADING_ASTRAY = (
    *("../../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "..%252f..%252fetc%252fpasswd"),
    *("..%5c..%5cetc%5cpasswd", "..\\..\\etc\\passwd", "....//....//etc/passwd", "..;/etc/passwd", "/etc/passwd"),
    *("%2fetc%2fpasswd", "file:///etc/passwd", "%00", "rlplan.css%00.js", "rlplan.css%0d%0aset-cookie:a=b"),
    *("rlplan.css/", "./rlplan.css"),
    "%c0%ae%c0%ae/etc/passwd",  # overlong dots
    "%ef%bc%8e%ef%bc%8e/etc/passwd",  # dots of full width
    "%e2%80%ae",
    "%ed%a0%80",  # half a character
    *("%", "%zz", "~root", "C:%5cwindows%5cwin.ini", "rlplan.db", "rlplan.db-wal", "app.py", "../app.py"),
    *("../guard.py", "__init__.py", "base.html", "../templates/base.html", ".git/config", "a" * 8000, "a/" * 2000),
)
AS_SQL = (
    *("'", "%22", "'%20or%201=1--", "sweep-1'--", "sweep-1%27%20union%20select%201,2,3--"),
    *("sweep-1;drop%20table%20trials", "sweep-1%00", "1%20or%201", "1;%20pragma%20query_only=off", "%25", "_weep-1"),
    *("sweep-%3f", ":name", "$1", "SWEEP-1", "sweep-1%20"),
)


@pytest.mark.parametrize("name", LEADING_ASTRAY)
def test_no_address_leads_to_a_file(fort: Fort, name: str) -> None:
    for before in BEFORE:
        given = fort.target.get(before + name)
        assert given.status == 404, before
        harmless(given, "root:", "import ", "{%", "SQLite format", "[core]")
        assert given["set-cookie"] is None


@pytest.mark.parametrize("name", AS_SQL)
def test_no_name_is_read_as_sql(fort: Fort, name: str) -> None:
    for path in (f"/sweeps/{name}", f"/sweeps/{name}/state", f"/sweeps/{name}/data.json", f"{SWEEP}/trials/{name}"):
        given = fort.target.get(path)
        assert given.status == 404, path
        harmless(given, "syntax error")
    assert fort.target.get(f"{SWEEP}/trials/1").status == 200


@pytest.mark.parametrize(
    "query",
    [
        *("x", "-1", "1.0", "1e3", "0x1", "%D9%A3", "1%00", "", "%201", "1;drop", "1%20or%201", "None"),
        *("9" * 10, "9" * 40, "0" * 12 + "9" * 30, "0" * 12 + "9" * 5000),
    ],
)
def test_no_page_of_the_list_but_by_a_number(fort: Fort, query: str) -> None:
    for path in ("/", "/sweeps"):
        given = fort.target.get(f"{path}?before={query}")
        assert given.status == 400
        harmless(given)
    assert fort.target.get("/?before=0").status == 200


@pytest.mark.parametrize(
    "query", ["a=" + "b" * 9000, "&" * 5000, "%00=%00", "=", "a[]=1&a[b]=2", "%ED%A0%80", "?" * 99]
)
def test_what_else_is_asked_changes_nothing(fort: Fort, query: str) -> None:
    for path in (f"/?{query}", f"/static/rlplan.css?{query}", f"{SWEEP}/sections/now?{query}"):
        assert fort.target.get(path).status == 200


def test_nothing_was_found_and_nothing_was_said(fort: Fort) -> None:
    assert fort.target.get("/healthz").status == 200
    assert fort.said().count("\n") <= 1
    assert sorted(each.name for each in fort.database.parent.iterdir() if each.suffix != ".txt") == [
        "rlplan.db",
        "rlplan.db-shm",
        "rlplan.db-wal",
    ]
    assert not Path("evil").exists()
