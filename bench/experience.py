"""Regret with and without the experience of an earlier sweep, over pairs of tables: the source's and the target's.

    python bench/experience.py [--pairs recorded drawn unseen scales] [--repeats 3] [--out FILE.csv]
    python bench/experience.py --modes related partial-10 partial-20 [--pairs recorded unseen]

Every target is played without a source, with a complete related one, with that one mirrored (what it says of n and of
B is turned round: the worst adviser that looks like one), and with both. A drawn source is another draw of the target's
generator. What a partial source knows is what a sweep of ours has seen that spent 10 or 20 % of the grid's cost.
Differences are of the same plays.
"""

import argparse
import csv
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

os.environ.setdefault("OMP_NUM_THREADS", "1")
if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from bench.deciding.pairs import PAIRS, Pair, about, learnt, learnt_by_sweep
from bench.deciding.statistics import mean_with_error
from bench.deciding.tables import table
from planner.experience.experience import Experience
from planner.experience.teaching import TransferPriors
from planner.pooling.pool import Pool
from planner.pooling.priors import NONE
from planner.replaying.choosing import open_chooser
from planner.replaying.play import play
from planner.sweeping.policies import open_policy

SHARES: Final = (0.02, 0.05, 0.10, 0.20, 0.50)
WITHOUT, RELATED, MIRRORED, BOTH = "without", "related", "mirrored", "both"
MODES: Final = (WITHOUT, RELATED, MIRRORED, BOTH)
PARTIAL: Final = {"partial-10": 0.10, "partial-20": 0.20}  # shares of the source's grid
WIDE: Final = {f"{name}-wide": name for name in PARTIAL}  # the same with what their curves say a third as sure
WIDER: Final = 3.0


@dataclass(frozen=True)
class Outcome:
    """One play: its regret, and what the sources weighed in the end."""

    group: str
    source: str
    target: str
    repeat: int
    mode: str
    share: float
    regret: float
    weight_none: float
    seconds: float


def mirrored(source: Experience) -> Experience:
    """Return what a source would say if large n and B were small ones."""
    sign = np.array([-1.0 if len(set(term.of) & {"n", "B"}) == len(term.of) == 1 else 1.0 for term in source.terms])
    return replace(
        source,
        name=f"mirrored {source.name}",
        mean=sign * source.mean,
        covariance=source.covariance * np.outer(sign, sign),
    )


def less_sure(source: Experience) -> Experience:
    """Return a source whose curves say the same with a variance `WIDER` times as large."""
    before = np.diag(source.prior_sd**-2.0)
    told = np.linalg.inv(source.covariance) - before
    pull = (told + before) @ (source.mean - source.prior_mean) / WIDER
    covariance = np.linalg.inv(told / WIDER + before)
    return replace(source, mean=source.prior_mean + covariance @ pull, covariance=(covariance + covariance.T) / 2)


def sources_of(pair: Pair, repeat: int, mode: str) -> tuple[Experience, ...]:
    """Return what is learnt from in a mode."""
    if mode == WITHOUT:
        return ()
    if mode in PARTIAL:
        return (learnt_by_sweep(pair.source, repeat, PARTIAL[mode]),)
    if mode in WIDE:
        return (less_sure(learnt_by_sweep(pair.source, repeat, PARTIAL[WIDE[mode]])),)
    complete = learnt(pair.source, repeat)
    return {
        RELATED: (complete,),
        MIRRORED: (mirrored(complete),),
        BOTH: (complete, mirrored(complete)),
    }[mode]


def played(task: tuple[Pair, int, tuple[str, ...], tuple[float, ...]]) -> list[Outcome]:
    """Play one pair in every mode and with every budget."""
    pair, repeat, modes, shares = task
    recorded, compared_at = table(pair.target, repeat)
    full, found = recorded.full_cost(compared_at), []
    for mode in modes:
        sources = sources_of(pair, repeat, mode)
        teacher = TransferPriors(sources, about(pair.target)) if sources else None
        for share in shares:
            pool, began = Pool(teacher), time.process_time()
            one = play(
                recorded,
                open_policy("rlplan", search=None, pool=pool),
                budget=share * full,
                target=compared_at,
                seed=repeat,
                chooser=open_chooser("rlplan", pool),
                trace=False,
            )
            none = pool.source_weights().get(NONE, 1.0)
            seconds = time.process_time() - began
            told = pair.group, pair.source, pair.target, repeat, mode, share
            found.append(Outcome(*told, one.regret, none, seconds))
    return found


def main() -> None:
    """Play all pairs and print the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", nargs="+", default=[each for each in PAIRS if each != "new"], choices=list(PAIRS))
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=[*MODES, *PARTIAL, *WIDE])
    parser.add_argument("--budgets", nargs="+", type=float, default=list(SHARES), help="shares of the full grid")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first repetition's seed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a CSV of every play")
    asked = parser.parse_args()
    modes, shares = tuple(dict.fromkeys([WITHOUT, *asked.modes])), tuple(asked.budgets)
    tasks = [
        (pair, repeat, modes, shares)
        for repeat in range(asked.first, asked.first + asked.repeats)
        for group in asked.pairs
        for pair in PAIRS[group]
    ]
    with multiprocessing.get_context("spawn").Pool(asked.processes) as pool:
        done = [one for found in pool.imap_unordered(played, tasks) for one in found]
    for group in asked.pairs:
        _printed(group, [one for one in done if one.group == group], modes, shares)
    if asked.out:
        with asked.out.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Outcome.__dataclass_fields__)
            writer.writerows([getattr(one, name) for name in Outcome.__dataclass_fields__] for one in done)


def _printed(group: str, done: Sequence[Outcome], modes: Sequence[str], shares: Sequence[float]) -> None:
    print(f"\n{group}: mean regret ± standard error, and the weight of no source in the end")
    print(f"  {'':<24}" + "".join(f"{share:>18g}" for share in shares))
    base = {(one.source, one.target, one.repeat, one.share): one.regret for one in done if one.mode == WITHOUT}
    for mode in modes:
        own = [[one for one in done if one.mode == mode and one.share == share] for share in shares]
        print(_line(mode, [f"{mean_with_error([one.regret for one in each])}" for each in own]))
        if mode != WITHOUT:
            differences = [
                [one.regret - base[one.source, one.target, one.repeat, one.share] for one in each] for each in own
            ]
            print(_line("  − without", [f"{mean_with_error(each)}" for each in differences]))
            print(_line("  weight of none", [f"{np.mean([one.weight_none for one in each]):.2f}" for each in own]))
    seconds = {mode: np.mean([one.seconds for one in done if one.mode == mode]) for mode in modes}
    print(
        f"  {len(base) // len(shares)} plays each; CPU-seconds a play: "
        + ", ".join(f"{m} {s:.2f}" for m, s in seconds.items())
    )


def _line(name: str, cells: Sequence[str]) -> str:
    return f"  {name:<24}" + "".join(f"{cell:>18}" for cell in cells)


if __name__ == "__main__":
    main()
