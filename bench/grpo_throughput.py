"""Rollouts per second of whole GRPO steps: ours and TRL's GRPOTrainer on the same work, in turn.

    python bench/grpo_throughput.py --trl-python .venv-trl/bin/python

Both get the same weights, prompts, rewards, group size, batch, longest response, learning rate, precision (FP32, with
TRL's activation checkpointing off) and threads. An embedded task is trained as it would be; `--task random` has a
random model that never ends, so that every response has the full length. Each measurement is a process of its own: a
few steps to warm up, then the mean step. The two take turns; the table shows medians over the rounds and their ratio.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
BAR = 3.0


def main() -> None:
    """Prepare the model once, run both sides in turn and print the table."""
    given = arguments()
    with tempfile.TemporaryDirectory() as folder:
        work = {name: getattr(given, name) for name in ("task", "n", "B", "response", "steps", "threads", "device")}
        run([sys.executable, str(HERE / "grpo_side.py"), "prepare", folder, json.dumps(work)])
        sides = {"rlplan": [sys.executable, str(HERE / "grpo_side.py"), "rlplan"]}
        sides["TRL"] = [given.trl_python, str(HERE / "grpo_side_trl.py")]
        rates: dict[str, list[float]] = {name: [] for name in sides}
        details = {}
        for _ in range(given.rounds):
            for name, command in sides.items():
                out = json.loads(run([*command, folder, json.dumps(work)], given.threads).splitlines()[-1])
                rates[name].append(out["rollouts_per_second"])
                details[name] = out
    table(given, rates, details)


def table(given: argparse.Namespace, rates: dict[str, list[float]], details: dict[str, dict[str, object]]) -> None:
    """Print medians, spread and the ratio."""
    what = (
        f"{given.response} tokens a step, random 2-layer Llama of width 128" if given.task == "random" else given.task
    )
    print(f"{given.n} × {given.B} rollouts, {what}; {given.threads} threads, {given.device}, {given.rounds} rounds")
    for name, values in rates.items():
        spread = f"{min(values):,.0f}–{max(values):,.0f}"
        print(f"  {name:8} {statistics.median(values):8,.0f} rollouts/s   ({spread})   {details[name]['detail']}")
    ratios = [ours / theirs for ours, theirs in zip(rates["rlplan"], rates["TRL"], strict=True)]
    ratio = statistics.median(ratios)
    verdict = "met" if ratio >= BAR else f"missed by {(1 - ratio / BAR):.0%}"
    print(f"  ratio    {ratio:8.2f} × (rounds: {', '.join(f'{r:.2f}' for r in ratios)}); bar {BAR:g} ×: {verdict}")


def run(command: list[str], threads: int = 1) -> str:
    """Run one side and return what it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    environment["PYTHONPATH"] = str(HERE.parent)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:3])} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trl-python", default=".venv-trl/bin/python", help="interpreter of TRL's environment")
    parser.add_argument("--task", default="sum-easy", help="an embedded task, or random: full-length nonsense")
    parser.add_argument("-n", type=int, default=16, help="rollouts per prompt")
    parser.add_argument("-B", type=int, default=16, help="prompts per batch")
    parser.add_argument("--response", type=int, default=16, help="tokens of each response of the random task")
    parser.add_argument("--steps", type=int, default=12, help="timed steps of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    return parser.parse_args()


if __name__ == "__main__":
    main()
