"""Means with their errors, the best of the peers, and how much less ours needs."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from bench.deciding.outcomes import Method, Outcome

RANDOM: Final = ("syne-tune/random", "random")
BEYOND_NOISE: Final = 2.0  # standard errors


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error; tables count alike, repetitions of a table are draws."""

    mean: float
    error: float
    count: int
    over_tables: float = math.nan  # the standard error where tables are draws as well


def estimated(values: Sequence[tuple[str, float]]) -> Estimate:
    """Average values that come with the table they are of."""
    by_table: dict[str, list[float]] = defaultdict(list)
    for table, value in values:
        by_table[table].append(value)
    means = [float(np.mean(those)) for those in by_table.values()]
    variances = [
        float(np.var(those, ddof=1)) / len(those) if len(those) > 1 else math.nan for those in by_table.values()
    ]
    over_tables = float(np.std(means, ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else math.nan
    return Estimate(float(np.mean(means)), math.sqrt(sum(variances)) / len(means), len(values), over_tables)


Key = tuple[str, int, float]  # method's name, workers, share


class Results:
    """Outcomes of one group of tables, by method, workers and budget."""

    def __init__(self, outcomes: Iterable[Outcome], ours: str) -> None:
        """Sort them."""
        self.ours = ours
        self._of: dict[tuple[Method, int, float], dict[tuple[str, int], Outcome]] = defaultdict(dict)
        for one in outcomes:
            self._of[one.method, one.workers, one.share][one.table, one.repeat] = one

    @property
    def workers(self) -> list[int]:
        """The numbers of workers that were played."""
        return sorted({workers for _, workers, _ in self._of})

    def shares(self, name: str) -> list[float]:
        """The budgets that a method was played at."""
        return sorted({share for method, _, share in self._of if method.name == name})

    @property
    def peers(self) -> list[str]:
        """All methods but ours."""
        return sorted({method.name for method, _, _ in self._of} - {self.ours})

    def regret(self, method: Method, workers: int, share: float) -> Estimate:
        """Return the mean regret of a method with its settings."""
        return estimated([(table, one.regret) for (table, _), one in self._of[method, workers, share].items()])

    def best_settings(self, name: str, workers: int, share: float) -> Method | None:
        """Return the settings with which a method does best here: a peer is given what suits it most."""
        found = [method for method, count, spent in self._of if (method.name, count, spent) == (name, workers, share)]
        return min(found, key=lambda method: self.regret(method, workers, share).mean, default=None)

    def best_peer(self, workers: int, share: float) -> Method | None:
        """Return the best of all peers here, with its best settings; those that ran everywhere alone."""
        settings = [self.best_settings(name, workers, share) for name in self.peers]
        found = [one for one in settings if one is not None]
        most = max((len(self._of[one, workers, share]) for one in found), default=0)
        found = [one for one in found if len(self._of[one, workers, share]) == most]
        return min(found, key=lambda method: self.regret(method, workers, share).mean, default=None)

    def difference(self, ours: tuple[Method, float], theirs: tuple[Method, float], workers: int) -> Estimate:
        """Return the mean of ours − theirs over what both have played, pair by pair."""
        mine, other = (self._of[method, workers, share] for method, share in (ours, theirs))
        common = [key for key in mine if key in other]
        return estimated([(key[0], mine[key].regret - other[key].regret) for key in common])

    def needed(self, workers: int, regret: float) -> tuple[float, str]:
        """Return the share of the full grid at which ours comes down to a regret, between budgets by interpolation.

        The sign says whether it is less than the smallest budget ("<"), or more than the largest (">").
        """
        ours = self.best_settings(self.ours, workers, self.shares(self.ours)[0])
        assert ours is not None
        shares = self.shares(self.ours)
        regrets = np.minimum.accumulate([self.regret(ours, workers, share).mean for share in shares])
        if regrets[0] <= regret:
            return shares[0], "<" if regrets[0] < regret else ""
        if regrets[-1] > regret:
            return shares[-1], ">"
        after = int(np.flatnonzero(regrets <= regret)[0])
        logs = np.log(shares[after - 1 : after + 1])
        part = (regrets[after - 1] - regret) / (regrets[after - 1] - regrets[after])
        return float(np.exp(logs[0] + part * (logs[1] - logs[0]))), ""

    def against_random(self, workers: int, share: float) -> Estimate | None:
        """Return ours − random, random with the settings that suit it best."""
        ours = self.best_settings(self.ours, workers, share)
        settings = [self.best_settings(name, workers, share) for name in RANDOM]
        found = [one for one in settings if one is not None]
        if ours is None or not found:
            return None
        random = min(found, key=lambda method: self.regret(method, workers, share).mean)
        return self.difference((ours, share), (random, share), workers)
