"""Seconds of a core that `rlplan replay` takes beyond the program's start, with sources to learn from and without.

    python bench/replay_seconds.py [--task sum-hard] [--source sum-easy] [--repeats 5]

The table is AllocBench's, with its 90 runs. A start is `rlplan replay --help`; the median of the repetitions counts.
"""

import argparse
import gzip
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

DATA = Path(__file__).parent / "data"
BAR_SECONDS = 1.5
BUDGET, TARGET = "10%", "0.005"  # GPU-hours: nearly as far as all runs of both tasks go


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--task", default="sum-hard")
    parser.add_argument("--source", default="sum-easy")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table, source = (unpacked(task, Path(folder)) for task in (given.task, given.source))
        asked = ["replay", str(table), "--budget", BUDGET, "--target", TARGET, "--format", "json"]
        start = seconds(["replay", "--help"], given.repeats)
        print(f"start: {start:.2f} seconds of a core (the median of {given.repeats})")
        for name, further in (("no source", ["none"]), (f"what {given.source} says", [str(source)])):
            beyond = seconds([*asked, "--learn-from", *further], given.repeats) - start
            print(f"{name}: {beyond:.2f} beyond that ({'met' if beyond <= BAR_SECONDS else 'MISSED'}: {BAR_SECONDS})")


def unpacked(task: str, folder: Path) -> Path:
    """Write a table as plain CSV."""
    path = folder / f"{task}.csv"
    path.write_bytes(gzip.decompress((DATA / f"allocbench-{task}.csv.gz").read_bytes()))
    return path


def seconds(arguments: Sequence[str], repeats: int) -> float:
    """Return the median of the seconds of a core that a command takes."""
    took = []
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", "from rlplan.entry import main; main()", *arguments]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(took)


if __name__ == "__main__":
    main()
