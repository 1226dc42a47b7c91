"""One seed of a recorded table at a time: a choice has a regret of its own run and one of its configuration."""

import pytest

from bench.deciding import tables
from bench.one_seed import SEEDS, one_seed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_has_one_run_of_each_cell_and_the_truth_of_all_seeds(seed: int) -> None:
    table, (whole, target) = one_seed("sum-hard", 1.0, seed), tables.opened("sum-hard", 1.0)
    assert {run.seed for run in table.runs.runs} == {seed}
    assert len(table.runs.runs) == len(table.runs.configurations) == 30
    assert dict(table.mean) == whole.truth(target)
    best_run = max(table.own, key=lambda each: table.own[each])
    best_mean = max(table.mean, key=lambda each: table.mean[each])
    assert table.regrets(best_run)[0] == table.regrets(best_mean)[1] == 0.0
    assert min(min(table.regrets(each)) for each in table.own) >= 0.0


@pytest.mark.parametrize("name", tables.names(tables.NEW_TASKS))
def test_a_table_of_a_new_task_has_the_whole_grid_once(name: str) -> None:
    recorded, target = tables.table(name, 0)
    assert len(recorded.runs) == len(recorded.configurations) == 30
    assert min(run.length for run in recorded.runs) > 0.9 * target
