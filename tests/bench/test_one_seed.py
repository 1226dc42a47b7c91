"""One seed of a recorded table at a time: a choice has a regret of its own run and one of its configuration."""

import pytest

from bench.deciding import tables
from bench.one_seed import MEANS, OTHERS, SEEDS, SHARES, limits, line, one_seed, peers_played, played


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


def test_who_knows_the_means_is_left_with_luck_alone() -> None:
    found = limits([("sum-hard", 1.0, seed) for seed in SEEDS])
    assert {one.mean for one in found if one.method == MEANS} == {0.0}
    assert sum(one.own for one in found if one.method == MEANS) > 0.0
    assert sum(one.mean for one in found if one.method == OTHERS) > 0.0


def test_every_rule_chooses_after_the_same_play_and_peers_after_theirs() -> None:
    done = played(("sum-easy", 0.5, 1, 0, "asha")) + peers_played([("sum-easy", 0.5, 1)], 2, ["grid-halving"])
    assert {one.rule for one in done if one.method == "asha"} == {"believed", "last", "long"}
    assert len([one for one in done if one.method == "grid-halving"]) == 2 * len(SHARES)
    assert "±" in line(done, "grid-halving", "last", SHARES)
