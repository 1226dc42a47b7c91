"""The recorded runs that come with the benches."""

import pytest

from bench.deciding import tables


@pytest.mark.parametrize("name", tables.names(tables.NEW_TASKS))
def test_a_table_of_a_new_task_has_the_whole_grid_once(name: str) -> None:
    recorded, target = tables.table(name, 0)
    assert len(recorded.runs) == len(recorded.configurations) == 30
    assert min(run.length for run in recorded.runs) > 0.9 * target
