"""Environments of a user's, in which one counts up to what a problem says; what they do is noted where they run."""

import json
from pathlib import Path
from typing import Any


def noted(**what: Any) -> None:
    with Path("notes.jsonl").open("a") as file:
        file.write(json.dumps(what) + "\n")


class Silent:
    def reset(self, **fields: Any) -> str:
        self.at, self._target = 0, fields["target"]
        noted(did="reset", fields=sorted(fields))
        return f" to {self._target}"

    def raise_by(self, amount: int) -> str:
        """Raise the counter.

        Args:
            amount: By how much.

        Returns:
            Where it stands.
        """
        self.at += amount
        noted(did="raise_by", amount=amount)
        return str(self.at)


class Counter(Silent):
    def get_reward(self) -> float:
        noted(did="get_reward")
        return 1.0 if self.at == self._target else 0.25


class Beyond(Silent):
    def get_reward(self) -> float:
        return 7.0


class Awaited(Silent):
    async def get_reward(self) -> float:
        return float(self.at == self._target)


class Broken(Silent):
    def get_reward(self) -> float:
        raise RuntimeError("no referee")


def raise_by(amount: int) -> str:
    """Raise a counter.

    Args:
        amount: By how much.

    Returns:
        Where it stands.
    """
    noted(did="raise_by", amount=amount)
    return str(amount)
