"""docs/database.md must describe what there is, and its queries must run."""

import re
from pathlib import Path

import pytest
from sqlalchemy import text

from planner.store import open_store
from planner.store.base import Base
from planner.store.database import RANKED_ALLOCATIONS

DOCUMENT = (Path(__file__).parents[3] / "docs" / "database.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", Base.metadata.sorted_tables, ids=lambda table: table.name)
def test_every_table_and_column_is_described(table) -> None:
    assert f"**`{table.name}`**" in DOCUMENT
    described = {column.name for column in table.columns if f"`{column.name}`" in DOCUMENT}
    parents = {"id", "plan_id", "sweep_id", "recommendation_id"}
    assert {column.name for column in table.columns} - parents <= described


def test_every_column_of_the_view_is_described() -> None:
    _, _, after = DOCUMENT.partition("## The view")
    section = after.partition("\n## ")[0]
    assert [each.name for each in RANKED_ALLOCATIONS.c if f"`{each.name}`" not in section] == []


def test_the_queries_run(tmp_path: Path) -> None:
    queries = re.findall(r"```sql\n(.*?)```", DOCUMENT, re.DOTALL)
    assert len(queries) == 3
    with open_store(tmp_path / "rlplan.db") as store, store.read() as session:
        for query in queries:
            session.execute(text(query)).all()
