"""What following rlplan brings a run: the champion alone and ours on the same GPU-hours, families left out.

    python bench/champion.py [--champions usual random rates] [--plays 4] [--out FILE]
    python bench/champion.py --fit     # writes planner/policy/pairs.toml from all families

Tables are AllocBench's (a family a task), PODS, and the unseen generators' (a family a generator). The terms by which
a table is played were fitted on the families that it is not of. Everybody has the same GPU-hours in all: shares of what
nine tenths of a table's runs have.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

from bench.deciding.ours import whole_score
from bench.deciding.pairs import Pairs, as_toml, fit
from bench.deciding.whole_tables import PARTS, WholeTable, whole_tables
from planner.policy.champion import rate_octaves, usual_among
from planner.replay.play import play_whole
from planner.replay.recorded import Recorded
from planner.view import Champion, Configuration

TERMS = Path(__file__).parent.parent / "planner" / "policy" / "pairs.toml"
LOSS = 0.01
PILOT_SHARE = 0.1  # of all GPU-hours, with which the grid is explored


@dataclass(frozen=True)
class Row:
    """One play."""

    table: str
    family: str
    champions: str
    part: float
    gain: float
    best: float
    usual: float
    switched: bool
    challenger_share: float
    explored: float | None  # gain of exploring the grid with a tenth of the GPU-hours, where that was played


def main() -> None:
    """Fit, or play and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fit", action="store_true", help="write the terms that are fitted on all families")
    parser.add_argument("--champions", nargs="+", default=["usual", "random", "advised", "rates"])
    parser.add_argument("--explore", action="store_true", help="play the exploring policy too (an hour)")
    parser.add_argument("--plays", type=int, default=4)
    parser.add_argument("--out", type=Path, help="a CSV of all plays")
    arguments = parser.parse_args()
    tables = whole_tables()
    pairs = Pairs.of(tables)
    if arguments.fit:
        TERMS.write_text(as_toml(fit(pairs)), encoding="utf-8")
        return
    rows = [row for kind in arguments.champions for row in plays(tables, pairs, kind, arguments)]
    for kind in arguments.champions:
        report(kind, [row for row in rows if row.champions == kind])
    if arguments.out:
        with arguments.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(Row.__dataclass_fields__)
            writer.writerows([getattr(row, name) for name in Row.__dataclass_fields__] for row in rows)


def plays(tables: Sequence[WholeTable], pairs: Pairs, kind: str, arguments: argparse.Namespace) -> Iterator[Row]:
    """Play every table at every length, so often, with champions of a kind."""
    for table in tables:
        fitted = fit(pairs.without(table.family))
        usual = usual_among(table.recorded.configurations)
        for part in PARTS:
            total = part * table.length
            ends = table.recorded.truth(total)
            for play, champion in enumerate(champions(table, usual, kind, arguments.plays)):
                own = [choice for choice in usual if choice.axes == champion.axes]
                started = own[0] if kind == "advised" else champion
                terms = Champion((started,), total, usual)
                played = play_whole(table.recorded, terms, seed=play, fitted=fitted)
                yield Row(
                    table.name,
                    table.family,
                    kind,
                    part,
                    played.reached - ends[champion],
                    max(ends.values()) - ends[champion],
                    ends[own[0]] - ends[champion],
                    played.switched,
                    played.challenger_gpu_hours / total,
                    explored_score(table.recorded, total, play) - ends[champion] if arguments.explore else None,
                )


def explored_score(recorded: Recorded, total: float, seed: int) -> float:
    """Return what a final run reaches after pilots of the whole grid took a tenth."""
    pilots = PILOT_SHARE * total
    return whole_score(recorded, budget=pilots, target=total - pilots, seed=seed, workers=1)


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


def report(kind: str, rows: Sequence[Row]) -> None:
    """Print mean gains over the champion alone, their error over families, the worst table and how many lose."""
    heads = "   gain   error   worst  lose>.01  best known  usual at once  switched  challengers"
    print(f"\nchampion = {kind}\n{'':14s}{heads}")
    groups = {"all": rows, "recorded": [row for row in rows if row.table[0] in "AP"]}
    groups |= {"generated": [row for row in rows if row.table[0] not in "AP"]}
    groups |= {f"{part:g} of length": [row for row in rows if row.part == part] for part in PARTS}
    for name, those in groups.items():
        if not those:
            continue
        by_table, by_family = defaultdict(list), defaultdict(list)
        for row in those:
            by_table[row.table, row.part].append(row.gain)
            by_family[row.family].append(row.gain)
        tables = [fmean(gains) for gains in by_table.values()]
        families = [fmean(gains) for gains in by_family.values()]
        error = stdev(families) / len(families) ** 0.5 if len(families) > 1 else 0.0
        losing = fmean(gain < -LOSS for gain in tables)
        print(
            f"{name:14s} {fmean(tables):+.4f}  {error:.4f}  {min(tables):+.3f}  {losing:8.2f}"
            f"  {fmean(row.best for row in those):+10.3f}  {fmean(row.usual for row in those):+13.3f}"
            f"  {fmean(row.switched for row in those):8.2f}  {fmean(row.challenger_share for row in those):11.3f}"
        )
    if explored := [row.explored for row in rows if row.explored is not None]:
        print(f"exploring the grid with a tenth instead: {fmean(explored):+.4f}")


if __name__ == "__main__":
    main()
