"""Make the models of the embedded tasks, and measure them: `python -m bench.base_models [task …]`."""

import argparse
import logging
import math
import statistics
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from bench.base_models.measuring import sampled
from bench.base_models.teaching import DESIGNS, PROBE_PROBLEMS, base_model
from budgets.errors import InputError
from budgets.signal import difficulty_of
from planner.config.layers import task_file
from runner.policy.model import load_model
from runner.tasks.embedded import EMBEDDED, MODELS, sum_problems

LOG = logging.getLogger("bench.base_models")

SAMPLES = 16


def main() -> None:
    """Make the named models, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m bench.base_models", description=__doc__)
    parser.add_argument("tasks", nargs="*", metavar="task", help=", ".join(DESIGNS))
    parser.add_argument("--out", type=Path, help="write here, and leave the shipped files as they are")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for task in given.tasks or DESIGNS:
        if task not in DESIGNS:
            parser.error(f"unknown task '{task}': known are {', '.join(DESIGNS)}")
        make(task, given.out)


def make(task: str, out: Path | None = None) -> None:
    """Train, save, load what was saved, measure, and refuse a model that is not in its band."""
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    design, embedded = DESIGNS[task], EMBEDDED[task]
    train, _ = sum_problems(task, embedded)
    folder = (out or Path(str(files("runner.tasks").joinpath(MODELS)))) / task
    ship(base_model(design, embedded, embedded.max_response_tokens, train[:PROBE_PROBLEMS]), folder)
    model = load_model(str(folder))
    found = sampled(model, train, SAMPLES, embedded.max_response_tokens, design.seed)
    mean = statistics.fmean(found.pass_rates)
    logs = [math.log(length) for length in found.lengths]
    LOG.info(
        "%s: avg@%d %.4f (%s), truncated %.4f, mean length %.2f, log standard deviation %.3f",
        task, SAMPLES, mean, difficulty_of(found.pass_rates), found.truncated,
        statistics.fmean(found.lengths), statistics.pstdev(logs),
    )  # fmt: skip
    low, high = design.pass_rates
    if not low <= mean <= high:
        raise InputError(f"{task}: the mean pass rate is {mean:.4f}, not within {low} to {high}: adjust its design")
    rates_file = task_file(f"{task}.pass-rates.txt") if out is None else out / f"{task}.pass-rates.txt"
    write_pass_rates(found.pass_rates, SAMPLES, task, rates_file)


def ship(model: Any, folder: Path) -> None:
    """Save the model as a Hugging Face checkpoint in FP16: half the size, and the rounding is harmless."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    model.to(torch.float16).save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors writes for the owner alone


def write_pass_rates(rates: Sequence[float], samples: int, task: str, file: Path) -> None:
    """Write one rate a line, in the order of the train problems."""
    head = f"# {task}: avg@{samples} of the base model on each train problem, at temperature 1"
    lines = [f"{rate:.4f}" for rate in rates]
    file.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
