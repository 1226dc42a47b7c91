"""Wall time of cold `rlplan` processes against their bars.

Beside it stands the time of a core, which other programs disturb less. Python itself is timed in turn with each
command, because the machine is noisy: the ratio holds when its speed drifts.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 15
RLPLAN = str(Path(sys.executable).with_name("rlplan"))
COMMANDS = {
    "rlplan --help": ([RLPLAN, "--help"], 0.2),
    "rlplan price": ([RLPLAN, "price"], 0.5),
    "rlplan check": ([RLPLAN, "check", "run.sh"], 0.6),
    "rlplan propose --budget 5000": ([RLPLAN, "propose", "--budget", "5000"], 0.8),
}
SCRIPT = """\
python3 -m verl.trainer.main_ppo data.train_files=gsm8k/train.parquet data.train_batch_size=1024 \\
    data.max_response_length=1024 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.rollout.n=8 trainer.n_gpus_per_node=8 trainer.total_epochs=15
"""
PYTHON = [sys.executable, "-c", "pass"]


def main() -> int:
    """Print the table, and return how many bars were missed."""
    missed = 0
    print(f"{'command':<30} {'bar':>6} {'median':>8} {'slowest':>8} {'core':>8} {'× python':>9}  ({RUNS} cold runs)")
    for name, (command, bar) in COMMANDS.items():
        pairs = [(timed(command), timed(PYTHON)) for _ in range(RUNS)]
        median, core = (statistics.median(own[which] for own, _ in pairs) for which in range(2))
        ratio = statistics.median(own[0] / python[0] for own, python in pairs)
        verdict = "met" if median <= bar else f"MISSED by {median - bar:.2f} s"
        missed += median > bar
        slowest = max(own[0] for own, _ in pairs)
        print(f"{name:<30} {bar:>4.2f} s {median:>6.2f} s {slowest:>6.2f} s {core:>6.2f} s {ratio:>9.1f}  {verdict}")
    return missed


def timed(command: list[str]) -> tuple[float, float]:
    """Run a command once in a directory with a script alone, and return its seconds, and those of a core."""
    env = {**os.environ, "COLUMNS": "80"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "run.sh").write_text(SCRIPT)
        begin, core = time.perf_counter(), core_seconds()
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=env)
        return time.perf_counter() - begin, core_seconds() - core


def core_seconds() -> float:
    """Return the seconds that cores have worked for the processes which this one has started and awaited."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
