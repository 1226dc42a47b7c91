"""Writes the terms by which champions are judged, fitted on all families: `python -m bench.champion`.

They go into planner/policy/pairs.toml. What following them brings, each family played by what the others say, is
measured by `python -m bench.evidence`, which takes its champions from here.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.deciding.pairs import Pairs, as_toml, fit
from bench.deciding.whole_tables import WholeTable, whole_tables
from planner.policy.champion import rate_octaves
from planner.view import Configuration

TERMS = Path(__file__).parent.parent / "planner" / "policy" / "pairs.toml"


def champions(table: WholeTable, usual: Sequence[Configuration], kind: str, number: int) -> Iterator[Configuration]:
    """Yield champions: every usual choice at a rate that is not the rule's, or draws of usual ones or of any."""
    off = [choice for choice in usual if rate_octaves(choice.axes) not in (0.0, None)]
    if kind == "rates":
        yield from off
        return
    among = [choice for choice in usual if choice not in off] if kind == "usual" else table.recorded.configurations
    for play in range(number):
        rng = np.random.default_rng([play, *table.name.encode()])
        yield among[rng.integers(len(among))]


if __name__ == "__main__":
    TERMS.write_text(as_toml(fit(Pairs.of(whole_tables()))), encoding="utf-8")
