"""What came of every play, in rows: one for each table, repetition, number of workers, method and budget."""

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path


@dataclass(frozen=True, order=True)
class Method:
    """A tool's method with its settings: how long its runs may become, and the rule by which it chooses."""

    name: str
    reach: str = ""
    rule: str = ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.name, self.reach, self.rule) if part)


@dataclass(frozen=True)
class Outcome:
    """One choice and its price."""

    table: str
    repeat: int
    workers: int
    method: Method
    share: float  # of the full grid's cost
    regret: float
    seconds: float = 0.0  # of the CPU, for the play

    @property
    def group(self) -> str:
        """`simulated`, `held-out` or `allocbench`."""
        return self.table.partition("/")[0]


def write(outcomes: Iterable[Outcome], path: Path) -> None:
    """Write them as CSV."""
    columns = [field.name for field in fields(Outcome) if field.name != "method"]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["method", "reach", "rule", *columns])
        writer.writeheader()
        for one in outcomes:
            row = asdict(one)
            method = row.pop("method")
            writer.writerow({"method": method["name"], "reach": method["reach"], "rule": method["rule"], **row})
