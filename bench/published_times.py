"""Holds what `rlplan check` reads and prices against the seconds that others published of their own scripts.

    python bench/published_times.py FOLDER

FOLDER holds the repositories as OWNER+NAME, or OWNER+NAME@COMMIT; `bench/data/published_times.csv` says which script,
what its source says beside it (the GPU, and what it was started with), and what was published. Where the source gives a
command and no file, its facts stand there. A step is priced without validation and checkpoints, a run with them.
"""

import argparse
import csv
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.pricing.measured_runs import NO_VALIDATION
from planner.vetting.launch import Launch
from planner.vetting.verdict import Interval, Verdict, verdict
from rlplan.actions.checking import check_script
from rlplan.requests.checking import CheckRequest

ROWS = Path(__file__).parent / "data" / "published_times.csv"
ASKED = {
    "gpu": str,
    "model": str,
    "gpus": int,
    "prompts_per_batch": int,
    "response_tokens": int,
    "mean_response_tokens": float,
}


@dataclass(frozen=True, slots=True)
class Held:
    """A published time beside what was predicted; without a prediction what stands in its way."""

    row: Mapping[str, str]
    launch: Launch | None
    predicted: Interval | None
    error: str = ""

    @property
    def seconds(self) -> float:
        """What was published."""
        return float(self.row["seconds"])

    @property
    def inside(self) -> bool:
        """Whether the interval holds it."""
        return self.predicted is not None and self.predicted[1] <= self.seconds <= self.predicted[2]


def held_against(row: Mapping[str, str], folder: Path) -> Held:
    """Read a script, price it, and put what was published beside the price."""
    asked: dict[str, Any] = {name: kind(row[name]) if row[name] else None for name, kind in ASKED.items()}
    with tempfile.TemporaryDirectory() as own:
        path = folder / row["script"] if row["script"] else Path(own) / "run.sh"
        if not row["script"]:
            path.write_text(row["command"])
        try:
            found = check_script(CheckRequest(path, **asked, db=f"{own}/none.db")).checked.verdict
        except InputError as error:
            return Held(row, None, None, str(error).splitlines()[0].replace(f"{folder}/", ""))
    return Held(row, found.launch, (found if row["of"] == "run" else _without_rests(found)).step_seconds)


def _without_rests(found: Verdict) -> Verdict:
    """Return the verdict on the same launch that never validates and never saves."""
    workload = replace(found.launch.workload, validation=NO_VALIDATION)
    return verdict(replace(found.launch, workload=workload, save_every=None))


def lines_of(all_held: list[Held]) -> Iterator[str]:
    """Yield the summary and the table."""
    priced = [each for each in all_held if each.predicted is not None]
    inside = sum(each.inside for each in priced)
    misses = sorted(abs(math.log(each.predicted[0] / each.seconds)) for each in priced if each.predicted)
    yield (
        f"{inside} of {len(priced)} published times ({inside / len(priced):.0%}) are inside the 90 % interval; the "
        f"typical miss of the median is × {math.exp(misses[len(misses) // 2]):.2f}. None of these runs is in the fit; "
        "of those marked so their model on their GPU is, in another run."
    )
    yield ""
    yield "| run | n × B | updates | GPUs | mean of cap | predicted s | interval | published s | |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for each in all_held:
        yield _line(each)


def _line(each: Held) -> str:
    name = each.row["name"] + (" (model and GPU in the fit)" if each.row["in_fit"] == "workload" else "")
    if each.launch is None or each.predicted is None:
        return f"| {name} | | | | | | | {each.seconds:g} | {each.error} |"
    launch, (median, low, high) = each.launch, each.predicted
    lengths = launch.workload.responses
    sizes = f"{launch.rollouts_per_prompt} × {launch.prompts_per_batch} | {launch.updates}"
    gpus = f"{launch.hardware.gpus_per_trial} {launch.hardware.gpu.name}"
    mean = f"{lengths.mean:,.0f}{'' if launch.length_known else '?'} of {lengths.cap:,}"
    miss = "" if each.inside else f"× {median / each.seconds:.2f}"
    return f"| {name} | {sizes} | {gpus} | {mean} | {median:.0f} | {low:.0f}–{high:.0f} | {each.seconds:g} | {miss} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    with ROWS.open(encoding="utf-8", newline="") as file:
        found = [held_against(row, given.folder) for row in csv.DictReader(file)]
    sys.stdout.write("\n".join(lines_of(found)) + "\n")


if __name__ == "__main__":
    main()
