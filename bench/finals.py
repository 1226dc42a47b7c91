"""Ten final runs launched after sweeps of an embedded task: were promises kept, hours used, what would stopping save?

    python bench/finals.py --folder F [--task sum-easy] [--budget 0.03] [--finals 10]

Each final run has a database of its own: `rlplan sweep` with another seed, then `rlplan launch`. What has been run is
kept in the folder and not run again. A promise is kept where the run's last score lies within its 90 % interval. What
`--stop-when-won` would have saved is read off the runs, which go on to their end: the share of the updates behind the
validation at which nothing was left to win, and the mean of the last three scores there against that at the end. The
hours used are the share of what a final run was given.
"""

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.commands import rlplan

BAR_KEPT, BAR_USED, BAR_SAVED, BAR_LOST = 0.8, 0.95, 0.10, 0.005
LAST = 3  # validations whose mean is the score of a moment


@dataclass(frozen=True)
class Final:
    """A final run that has ended."""

    seed: int
    promised: dict[str, float]
    reached: float
    priced: float
    took: float
    used: float  # of the GPU-hours that it was given
    saved: float  # share of its updates behind the moment at which nothing was left to win; 0 without one
    lost: float
    warnings: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Whether it ended within what was promised."""
        return self.promised["low"] <= self.reached <= self.promised["high"]


def ended(folder: Path, seed: int, task: str, budget: float) -> Final:
    """Sweep and launch, unless that was done, and return what became of the final run."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "rlplan.db").exists():
        rlplan(folder, "sweep", "--task", task, "--budget", str(budget), "--seed", str(seed))
    rlplan(folder, "launch", accepted=(0, 3, 5))
    final = rlplan(folder, "status")["final"]
    told = rlplan(folder, "decisions", final["sweep"])["decisions"]
    won = next((each["seen"]["step"] for each in told if each["action"] == "won"), None)
    return read(final, won, seed)


def read(final: dict[str, Any], won: int | None, seed: int) -> Final:
    """Read a final run as `status --format json` has it; `won` is the update from which on nothing was left to win."""
    scores = [each for each in final["scores"] if each["step"] > final["from_step"]]
    saved = lost = 0.0
    if won is not None:
        until = [each["score"] for each in scores if each["step"] <= won]
        saved = (scores[-1]["step"] - won) / (scores[-1]["step"] - final["from_step"])
        lost = statistics.fmean(each["score"] for each in scores[-LAST:]) - statistics.fmean(until[-LAST:])
    return Final(
        seed=seed,
        promised=final["promised"],
        reached=scores[-1]["score"],
        priced=final["priced_gpu_hours"],
        took=final["gpu_hours_spent"],
        used=final["gpu_hours_spent"] / final["budget_gpu_hours"],
        saved=saved,
        lost=lost,
        warnings=tuple(each["rule"] for each in final["warnings"]),
    )


def line(final: Final) -> str:
    """Write a final run as a row of the table."""
    warned = ", ".join(final.warnings) or "–"
    promised = "{score:.3f} ({low:.3f} to {high:.3f})".format(**final.promised)
    return (
        f"| {final.seed} | {promised} | {final.reached:.3f} | {'yes' if final.kept else 'no'} | "
        f"{final.took / final.priced:.2f} | {final.used:.3f} | {final.saved:.0%} | {final.lost:+.3f} | {warned} |"
    )


def main() -> int:
    """Run what is missing, print the table, and return how many bars were missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("bench-finals"), help="databases and runs")
    parser.add_argument("--task", default="sum-easy")
    parser.add_argument("--budget", type=float, default=0.03, help="GPU-hours of each sweep and its final run")
    parser.add_argument("--finals", type=int, default=10)
    given = parser.parse_args()
    print("| seed | promised | reached | kept | hours ÷ price | hours used | stopping saves | and loses | warnings |")
    print("|---" * 9 + "|", flush=True)
    finals = []
    for seed in range(given.finals):
        finals.append(ended(given.folder / f"{given.task}-{seed}", seed, given.task, given.budget))
        print(line(finals[-1]), flush=True)
    kept = statistics.fmean(each.kept for each in finals)
    saved, lost = (statistics.fmean(getattr(each, name) for each in finals) for name in ("saved", "lost"))
    used = min(each.used for each in finals)
    bars = (
        (f"promises kept: {kept:.0%}, bar {BAR_KEPT:.0%}", kept >= BAR_KEPT),
        (f"hours used: {used:.3f} at least, bar {BAR_USED:g}", used >= BAR_USED),
        (f"stopping saves {saved:.0%} of the updates, and so of the hours, bar {BAR_SAVED:.0%}", saved >= BAR_SAVED),
        (f"and loses {lost:+.4f} of score in the mean, bar {BAR_LOST:g}", lost <= BAR_LOST),
    )
    widths = [each.promised["high"] - each.promised["low"] for each in finals]
    misses = [each.reached - each.promised["score"] for each in finals]
    width, miss = statistics.fmean(widths), statistics.fmean(misses)
    print(f"\nwidth of the promised interval {width:.3f}, reached less promised {miss:+.3f}, means")
    print("\n" + "\n".join(f"{'met' if met else 'MISSED'}: {said}" for said, met in bars))
    return sum(not met for _, met in bars)


if __name__ == "__main__":
    sys.exit(main())
