from pathlib import Path

import numpy as np
import pytest

from bench.deciding.outcomes import Method, Outcome
from bench.deciding.statistics import Results
from bench.deciding.tables import names, suite

PEERS = Path(__file__).parents[2] / "bench/deciding/peers"
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
        Outcome("held-out/x", repeat, 1, method, share, regret + wobble[repeat % 2], None)
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


class Promoter:
    """Trains each of three configurations for one level, and then the first on to the second."""

    def __init__(self, task: type) -> None:
        self.tasks = [task(0, 0, 1.0), task(1, 1, 1.0), task(2, 2, 1.0), task(0, 0, 2.0)]

    def next(self) -> object:
        return self.tasks.pop(0) if self.tasks else None

    def reported(self, trial: object, level: float, score: float) -> bool:
        return True

    def ended(self, trial: object, level: float, score: float) -> None:
        pass


def test_the_clock_charges_what_all_workers_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PEERS))
    import board as boards
    import clock as clocks

    at = np.array([1.0, 2.0, 3.0, 4.0])
    scores = (np.array([0.3, 0.4, 0.5, 0.6]), np.array([0.4, 0.4, 0.4, 0.4]), np.array([0.1, 0.2, 0.9, 1.0]))
    board = boards.Board([{"n": n} for n in (1, 2, 4)], [[(at, one)] for one in scores], 4.0)
    levels = boards.Levels(board, 1.0)
    stretches = clocks.Clock(board, levels, 2, 10.0).play(Promoter(clocks.Task))
    assert [(one.configuration, one.start, one.end) for one in stretches] == [
        (0, 0, 1),
        (1, 0, 1),
        (2, 1, 2),
        (0, 1, 2),
    ]
    assert clocks.choices(board, stretches, 1.9) == {}
    assert clocks.choices(board, stretches, 2.0) == {"last": 1, "rung": 1, "long": 1}
    assert clocks.choices(board, stretches, 4.0) == {"last": 0, "rung": 0, "long": 1}
