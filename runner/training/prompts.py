"""The order in which a trial meets its prompts, and which of them it has stopped asking.

Each pass goes through all prompts once, shuffled or from easy to hard. Prompts whose historical pass rate reaches a
limit retire (no-positive-resampling, ScaleRL, arXiv 2510.13786, section 3).
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def derive(seed: int, *purpose: str | int) -> int:
    """Return a seed of 63 bits for one purpose, such as ("rollouts", step, round).

    Nothing is drawn from a generator's state: a trial that is resumed draws the same numbers without one being saved.
    """
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


class PromptStream:
    """An endless stream of prompt indices that can be saved and restored."""

    def __init__(
        self, count: int, seed: int, *, retire_at: float | None = None, pass_rates: Sequence[float] | None = None
    ) -> None:
        """Stream the indices 0 … count − 1; with `pass_rates`, each pass goes from easy to hard."""
        self._count = count
        self._seed = seed
        self._retire_at = retire_at
        self._pass_rates = None if pass_rates is None else np.asarray(pass_rates, dtype=float)
        self.epoch = 0
        self._position = 0
        self._order = self._arranged()
        self._asked = np.zeros(count, dtype=np.int64)
        self._passed = np.zeros(count)

    @property
    def retired(self) -> int:
        """Number of prompts that are not asked any more."""
        return int(self._is_retired().sum())

    def take(self, count: int) -> list[int]:
        """Return the next prompts; a prompt comes twice only when a pass ends within the batch."""
        retired = self._is_retired()
        if retired.all():  # all are mastered: go on asking all rather than stop
            retired = np.zeros(self._count, dtype=bool)
        places: list[int] = []
        while len(places) < count:
            if self._position == self._count:
                self.epoch += 1
                self._position = 0
                self._order = self._arranged()
            index = int(self._order[self._position])
            self._position += 1
            if not retired[index]:
                places.append(index)
        return places

    def record(self, indices: Sequence[int], count: int, pass_rates: Sequence[float]) -> None:
        """Add what `asked` responses to each of these prompts scored on average."""
        np.add.at(self._asked, list(indices), count)
        np.add.at(self._passed, list(indices), count * np.asarray(pass_rates, dtype=float))

    def state(self) -> dict[str, Any]:
        """Return all that a stream made with the same arguments needs to go on."""
        return {
            "epoch": self.epoch,
            "position": self._position,
            "asked": self._asked.tolist(),
            "passed": self._passed.tolist(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self.epoch = state["epoch"]
        self._position = state["position"]
        self._order = self._arranged()
        self._asked = np.asarray(state["asked"], dtype=np.int64)
        self._passed = np.asarray(state["passed"], dtype=float)

    def _is_retired(self) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        if self._retire_at is None:
            return np.zeros(self._count, dtype=bool)
        return (self._asked > 0) & (self._passed >= self._retire_at * self._asked)

    def _arranged(self) -> "np.ndarray[Any, np.dtype[np.int64]]":
        shuffled = np.random.default_rng(derive(self._seed, "order", self.epoch)).permutation(self._count)
        if self._pass_rates is None:
            return shuffled
        return shuffled[np.argsort(-self._pass_rates[shuffled], kind="stable")]
