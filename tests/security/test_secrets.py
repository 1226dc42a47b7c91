"""What must not be seen: a database's password, and the variables of a trainer."""

from pathlib import Path

import pytest
from sqlalchemy import select

from planner.store import open_store
from planner.store.engine import masked
from planner.store.schema import Plan, Sweep, Trial
from rlplan.wording.command_lines import command
from tests.rlplan.conftest import Run, run  # noqa: F401 (a fixture)
from tests.rlplan.web.visits import visiting

SECRET = "geheim123"


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("rlplan.db", "rlplan.db"),
        ("postgresql://me@host:5432/db?host=/tmp/a@b", "postgresql://me@host:5432/db?host=/tmp/a@b"),
        (f"postgresql://me:{SECRET}@host/db", "postgresql://me:***@host/db"),
        (f"postgresql://me:@/?{SECRET}@host:port/db", "postgresql://me:***@host:port/db"),
        (
            f"postgresql://h/db?password={SECRET}&sslpassword={SECRET}&x=1",
            "postgresql://h/db?password=***&sslpassword=***&x=1",
        ),
    ],
)
def test_a_location_is_named_without_its_secrets(given: str, seen: str) -> None:
    assert masked(given) == seen


def test_nobody_sees_the_password_of_a_database(run: Run, tmp_path: Path) -> None:  # noqa: F811
    url = f"sqlite:///{tmp_path}/rlplan.db?password={SECRET}"
    said = [run("propose", "--db", url, "--budget", "5000"), run("rank", "plan-1", "--db", url)]
    said.append(run("report", "r.html", "--db", url))
    assert [each.code for each in said] == [0, 0, 0]
    with visiting(url) as visitor:
        pages = [visitor.get(path).text for path in ("/", "/plans/plan-1")]
    pages.append((tmp_path / "r.html").read_text())
    assert "rlplan sweep plan-1" in pages[0]
    for text in [*pages, *(each.out + each.err for each in said)]:
        assert SECRET not in text


def test_a_command_with_a_secret_names_where_that_goes() -> None:
    assert (
        command("resume", "sweep-1", f"postgresql://me:{SECRET}@host/db")
        == "rlplan resume sweep-1  # with RLPLAN_DB set"
    )
    assert (
        command("resume", "sweep-1", "postgresql://me@host/db") == "rlplan resume sweep-1 --db postgresql://me@host/db"
    )


def test_the_variables_of_a_trainer_are_not_shown(run: Run, database: Path, tmp_path: Path) -> None:  # noqa: F811
    config = {"trainer": {"name": "command", "options": {"environment": {"HF_TOKEN": SECRET}}}}
    with open_store(database) as store, store.write() as session:
        for row in (session.scalars(select(table)).first() for table in (Plan, Sweep, Trial)):
            row.config = {**row.config, **config}
        trial = session.scalars(select(Trial.name)).first()
    told = [run("status", trial), run("report", "r.html")]
    told.append(run("status", trial, "--format", "json"))
    assert [each.code for each in told] == [0] * len(told)
    for text in [each.out + each.err for each in told] + [(tmp_path / "r.html").read_text()]:
        assert SECRET not in text
    assert "HF_TOKEN" in told[2].out
