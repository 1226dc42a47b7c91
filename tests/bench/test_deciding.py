import numpy as np
import pytest

from bench.deciding.outcomes import Method, Outcome
from bench.deciding.statistics import Results
from bench.deciding.tables import names, suite

OURS, THEIRS = Method("rlplan", "", "own"), Method("asha", "full", "last")


@pytest.mark.parametrize("name", [*names("simulated"), *names("held-out")])
def test_equal_seeds_give_equal_tables_and_others_others(name: str) -> None:
    one, again, other = (suite([name], seed)[name] for seed in (1, 1, 2))
    assert [run.scores.tolist() for run in one[0].runs] == [run.scores.tolist() for run in again[0].runs]
    assert [run.scores.tolist() for run in one[0].runs] != [run.scores.tolist() for run in other[0].runs]
    assert 30 <= len(one[0].configurations) <= 60
    assert one[0].length == pytest.approx(1.1 * one[1])


def outcomes(method: Method, regrets: dict[float, float], repeats: int = 4) -> list[Outcome]:
    wobble = np.array([-0.001, 0.001])
    return [
        Outcome("held-out/x", repeat, 1, method, share, regret + wobble[repeat % 2])
        for share, regret in regrets.items()
        for repeat in range(repeats)
    ]


def test_the_share_that_ours_needs_lies_between_budgets_or_beyond_them() -> None:
    results = Results(outcomes(OURS, {0.02: 0.08, 0.08: 0.04, 0.5: 0.01}), "rlplan")
    assert results.needed(1, 0.06) == (pytest.approx(0.04), "")
    assert results.needed(1, 0.09) == (0.02, "<")
    assert results.needed(1, 0.001) == (0.5, ">")


def test_the_best_peer_has_its_best_settings_and_was_played_everywhere() -> None:
    rows = outcomes(OURS, {0.1: 0.01})
    rows += outcomes(THEIRS, {0.1: 0.05}) + outcomes(Method("asha", "short", "long"), {0.1: 0.03})
    rows += outcomes(Method("cqr", "full", "last"), {0.1: 0.001}, repeats=2)
    results = Results(rows, "rlplan")
    assert results.best_peer(1, 0.1) == Method("asha", "short", "long")
    assert results.difference((OURS, 0.1), (THEIRS, 0.1), 1).mean == pytest.approx(-0.04)
