"""What came of every play, in rows: one for each table, repetition, number of workers, method and budget."""

import csv
from collections.abc import Iterable, Sequence
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
    """One choice and its price; `within` is what the method said of being within 0.02 of the best."""

    table: str
    repeat: int
    workers: int
    method: Method
    share: float  # of the full grid's cost
    regret: float
    within: float | None = None
    seconds: float = 0.0  # of the CPU, for the play

    @property
    def group(self) -> str:
        """`simulated`, `held-out` or `allocbench`, or a group of pairs."""
        return self.table.partition("/")[0]

    @property
    def paired(self) -> bool:
        """Whether it is of a pair of tables."""
        return ">" in self.table


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


def read(paths: Sequence[Path]) -> list[Outcome]:
    """Read what `write` wrote."""
    outcomes = []
    for path in paths:
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                outcomes.append(
                    Outcome(
                        row["table"],
                        int(row["repeat"]),
                        int(row["workers"]),
                        Method(row["method"], row["reach"], row["rule"]),
                        float(row["share"]),
                        float(row["regret"]),
                        float(row["within"]) if row["within"] else None,
                        float(row["seconds"]),
                    )
                )
    return outcomes
