"""What a run reaches alone, with rlplan, and with others' rules, on the same GPU-hours in all: `make evidence`.

    python -m bench.evidence [--champions usual random rates] [--plays 8] [--out bench/results/evidence.md]

Tables are AllocBench's (a family a task), PODS, and the unseen generators' (a family a generator), each played by
terms that were fitted without its family. "Alone" trains the champion with all GPU-hours. Others' rules explore the
grid with a tenth or three tenths of them, at whichever share they end higher on average; the chosen run goes on from
its pilot's end with all that is left.
`--advised` starts with the usual sizes at the rule's rate, as `propose` offers, with the champion's other axes. "In
hindsight" is the configuration that ends highest with all GPU-hours.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, stdev

from bench.champion import champions
from bench.deciding.ours import opened, seen_to_the_end
from bench.deciding.pairs import Pairs, fit
from bench.deciding.whole_tables import PARTS, WholeTable, whole_tables
from planner.policy.champion import FACTORS, rate_octaves, usual_among
from planner.replay.play import play_whole
from planner.view import Axes, Champion, Configuration

RULES = {"asha": "ASHA", "hyperband": "successive halving", "median": "median rule", "random": "random search"}
LOSS = 0.01
SHARES = (0.1, 0.3)  # of all GPU-hours, for pilots of others' rules
OURS, ADVISED, HINDSIGHT = "rlplan", "rlplan --advised", "in hindsight"
CHAMPIONS = {"usual": "a usual choice", "random": "any cell of the grid", "rates": "a usual choice at a wrong rate"}
PICTURE = "evidence.svg"


@dataclass(frozen=True)
class Reached:
    """What a way of spending all GPU-hours reached, over the champion alone."""

    family: str
    table: str
    part: float
    way: str
    gain: float


@cache
def pairs_of_all() -> tuple[tuple[WholeTable, ...], Pairs]:
    """Return all tables, and what the terms are fitted on, once a process."""
    tables = tuple(whole_tables())
    return tables, Pairs.of(tables)


def played(task: tuple[int, str, int]) -> list[Reached]:
    """Play a table, at every length, with champions of a kind."""
    number, kind, plays = task
    tables, pairs = pairs_of_all()
    table = tables[number]
    fitted, usual = fit(pairs.without(table.family)), usual_among(table.recorded.configurations)
    rows = []
    for part in PARTS:
        total = part * table.length
        ends = table.recorded.truth(total)
        explored = dict(_explored(table, total))
        for seed, champion in enumerate(champions(table, usual, kind, plays)):
            alone = ends[champion]
            starts = {OURS: champion, ADVISED: advised(champion, usual)}
            ours = {
                way: play_whole(table.recorded, Champion((start,), total, usual), seed=seed, fitted=fitted).reached
                for way, start in starts.items()
            }
            ways = {**ours, HINDSIGHT: max(ends.values()), **explored}
            rows += [Reached(table.family, table.name, part, way, score - alone) for way, score in ways.items()]
    return rows


def advised(champion: Configuration, usual: Sequence[Configuration]) -> Configuration:
    """Return what studies advise instead of a champion: the usual sizes at the rule's rate, its other axes kept."""

    def others(axes: Axes) -> Axes:
        return tuple(axis for axis in axes if axis[0] not in FACTORS)

    alike = [choice for choice in usual if others(choice.axes) == others(champion.axes)]
    return min(alike, key=lambda choice: abs(rate_octaves(choice.axes) or 0.0))


def _explored(table: WholeTable, total: float) -> Iterator[tuple[str, float]]:
    """Yield what others' rules reach: their pilots, and the chosen one's run with all that is left."""
    for rule in RULES:
        for share in SHARES:
            policy, chooser = opened(rule)
            pilots = share * total
            terms = {"budget": pilots, "target": total - pilots, "seed": 0, "workers": 1}
            chosen, view = seen_to_the_end(policy, chooser, table.recorded, rest_to_final=True, **terms)
            yield f"{rule} {share:g}", table.recorded.truth(view.final_run(chosen))[chosen]


@dataclass(frozen=True)
class Summary:
    """Gains of one way over the champion alone."""

    mean: float
    error: float | None  # over families; of one there is none
    worst: float  # table
    losing: float  # share of tables that lose more than .01
    families: int

    @classmethod
    def of(cls, rows: Sequence[Reached]) -> "Summary":
        """Average over tables and lengths; the error is over families."""
        by_table, by_family = defaultdict(list), defaultdict(list)
        for row in rows:
            by_table[row.table, row.part].append(row.gain)
            by_family[row.family].append(row.gain)
        tables = [fmean(gains) for gains in by_table.values()]
        families = [fmean(gains) for gains in by_family.values()]
        error = stdev(families) / len(families) ** 0.5 if len(families) > 1 else None
        return cls(fmean(tables), error, min(tables), fmean(gain < -LOSS for gain in tables), len(families))


def summaries(rows: Sequence[Reached]) -> dict[str, Summary]:
    """Return a summary of each way, others' rules at the share at which they end higher."""
    by_way = defaultdict(list)
    for row in rows:
        by_way[row.way].append(row)
    whole = {way: Summary.of(of_way) for way, of_way in by_way.items()}
    best = {
        f"{name}, {share:.0%} for pilots": whole[f"{rule} {share:g}"]
        for rule, name in RULES.items()
        for share in [max(SHARES, key=lambda share: whole[f"{rule} {share:g}"].mean)]
    }
    return {OURS: whole[OURS], ADVISED: whole[ADVISED], **best, HINDSIGHT: whole[HINDSIGHT]}


def page(results: Mapping[str, Mapping[str, Summary]], tables: int, families: int, plays: int) -> str:
    """Return the page of results."""
    lines = [
        "# Your run alone, and with rlplan\n",
        f"`make evidence`: {tables} tables of {families} families (AllocBench, PODS, unseen generators), {plays} plays "
        f"at {', '.join(f'{part:g}' for part in PARTS)} of their length each. Everybody has the same GPU-hours in all; "
        "terms are fitted without the family that is played. Gains are over the champion left alone, errors over "
        "families. Others' rules explore the grid first, and the run that they choose goes on from its pilot.\n",
        f"![Gains over the champion left alone]({PICTURE})\n",
    ]
    for kind, ways in results.items():
        lines.append(f"## The champion is {CHAMPIONS[kind]} ({ways[OURS].families} families)\n")
        lines.append("| | gain | worst table | tables that lose more than .01 |\n|---|---:|---:|---:|")
        lines += [
            f"| {way} | {row.mean:+.4f}{'' if row.error is None else f' ± {row.error:.4f}'} | {row.worst:+.3f} "
            f"| {row.losing:.0%} |"
            for way, row in ways.items()
        ]
        lines.append("")
    return "\n".join(lines)


def draw(results: Mapping[str, Mapping[str, Summary]], path: Path) -> None:
    """Draw the mean gains with their errors."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(4 * len(results), 2.8), sharey=True, squeeze=False)
    for place, (kind, ways) in zip(axes[0], results.items(), strict=True):
        shown = {way.partition(",")[0]: row for way, row in ways.items() if way != HINDSIGHT}
        means, errors = [row.mean for row in shown.values()], [row.error or 0.0 for row in shown.values()]
        colours = ["#0072b2" if way in (OURS, ADVISED) else "#999999" for way in shown]
        place.barh(list(shown), means, xerr=errors, color=colours)
        place.axvline(0, color="black", linewidth=0.8)
        place.set_title(CHAMPIONS[kind], fontsize=10)
        place.set_xlabel("score over the champion alone")
    axes[0, 0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Play everything on two processes, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--champions", nargs="+", default=list(CHAMPIONS), choices=list(CHAMPIONS))
    parser.add_argument("--plays", type=int, default=8)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "evidence.md")
    arguments = parser.parse_args()
    tables, _ = pairs_of_all()
    tasks = [(number, kind, arguments.plays) for number in range(len(tables)) for kind in arguments.champions]
    by_kind = defaultdict(list)
    with ProcessPoolExecutor(arguments.processes) as processes:
        for (_, kind, _), rows in zip(tasks, processes.map(played, tasks), strict=True):
            by_kind[kind] += rows
    results = {kind: summaries(by_kind[kind]) for kind in arguments.champions}
    families = len({table.family for table in tables})
    arguments.out.write_text(page(results, len(tables), families, arguments.plays), encoding="utf-8")
    draw(results, arguments.out.with_name(PICTURE))
    print(arguments.out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
