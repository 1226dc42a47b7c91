"""Predicted ÷ published GPU-hours of public runs, and the assumption that explains most of the difference.

Nothing is measured here: the cost model prices each run from what was published of it, once at its nominal
assumptions and once for each of them moved within the bounds that VARIATIONS states. `--markdown` prints the tables
as docs/concepts/costs.md and bench/results/prices.md have them.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.calibrated_prices import calibrated_tables
from bench.commands import table
from bench.fit_prices import ROWS
from bench.measured_prices import measured_tables
from budgets import catalogue
from budgets.coefficients import Coefficients, prior
from budgets.cost import GENERATOR_SIDE, TRAINER_SIDE, phase_seconds, step_cost
from budgets.hardware import Hardware
from budgets.lengths import ResponseLengths
from budgets.memory import Placement
from budgets.models import ModelShape
from budgets.signal import DIFFICULTIES, signal_fraction
from budgets.work import Driver, StepLoad, total
from budgets.workload import RecipeTraits, Validation, Workload
from planner.recipes import load_recipe

CAP, MEAN_SHARE, SPREAD, PROMPT_TOKENS = 14_336, 0.4, 0.6, 256
PUBLISHED_SPLIT = Placement(generator_gpus=64, trainer_gpus=16, colocated=False)
CPU_ROLLOUTS = 256  # a step of the tiny model; its batch is not part of the published figure


@dataclass(frozen=True)
class Run:
    """A public run: what was published of it, and what is assumed where nothing was."""

    name: str
    published_gpu_hours: float
    steps: float
    n: int
    prompts: int
    workload: Workload
    hardware: Hardware
    traits: RecipeTraits
    coefficients: Coefficients
    split: Placement | None = None  # None: the best one

    @property
    def gpu_hours(self) -> float:
        """Price the run at its assumptions."""
        if self.split is None:
            arguments = (self.workload, self.hardware, self.traits, self.n, self.prompts, self.coefficients)
            return self.steps * step_cost(*arguments).gpu_hours_per_step
        load = StepLoad.of(self.n, self.prompts, self.traits, signal_fraction(self.workload.pass_rates, self.n))
        phases = phase_seconds(self.workload, self.hardware.gpu, self.split, self.traits, load, self.coefficients)
        sides = (sum(total(phases[phase]) for phase in side) for side in (GENERATOR_SIDE, TRAINER_SIDE))
        return self.steps * max(sides) * self.split.gpus / 3600

    @property
    def ratio(self) -> float:
        """Predicted ÷ published."""
        return self.gpu_hours / self.published_gpu_hours


def scaled(driver: Driver, factor: float) -> Callable[[Run], Run]:
    """Make one driver's seconds so many times as long."""

    def change(run: Run) -> Run:
        log_mean = {**run.coefficients.log_mean, driver: run.coefficients.log_mean[driver] + math.log(factor)}
        return replace(run, coefficients=replace(run.coefficients, log_mean=log_mean))

    return change


def longer(share: float) -> Callable[[Run], Run]:
    """Let the mean response be a share of the cap."""
    return lambda run: replace(run, workload=run.workload.with_mean_response(share * run.workload.responses.cap))


def staleness(bound: int) -> Callable[[Run], Run]:
    """Let sequences stay in flight for so many updates."""
    return lambda run: replace(run, traits=replace(run.traits, staleness_bound=bound))


def as_published(run: Run) -> Run:
    """Split the GPUs as the study did instead of the best way."""
    return replace(run, split=PUBLISHED_SPLIT)


def batched(rollouts: int) -> Callable[[Run], Run]:
    """Generate the same rollouts in steps of another size."""
    factor = rollouts / CPU_ROLLOUTS
    return lambda run: replace(run, prompts=round(run.prompts * factor), steps=run.steps / factor)


@dataclass(frozen=True)
class Variation:
    """One assumption, and the ends of what it may be."""

    name: str
    bounds: str
    settings: tuple[Callable[[Run], Run], ...]
    applies: Callable[[Run], bool] = lambda run: True


def on_gpus(run: Run) -> bool:
    """Tell the study's asynchronous runs from the tiny model."""
    return run.traits.asynchronous


VARIATIONS = (
    Variation("mean response", "0.2, 0.8, 0.95 of the cap", tuple(map(longer, (0.2, 0.8, 0.95))), on_gpus),
    Variation(
        "decode bandwidth use", "÷ 2, × 1.3", tuple(scaled(Driver.DECODE_BANDWIDTH, factor) for factor in (2, 1 / 1.3))
    ),
    Variation(
        "training time",
        "× 2.5, ÷ 1.3",
        tuple(scaled(Driver.TRAIN_COMPUTE, factor) for factor in (2.5, 1 / 1.3)),
    ),
    Variation("sequences in flight", "staleness bound 1 instead of 8", (staleness(1),), on_gpus),
    Variation("decode overhead", "× 3", (scaled(Driver.DECODE_OVERHEAD, 3),)),
    Variation("split of the GPUs", "64 + 16 as published, instead of the best", (as_published,), on_gpus),
    Variation("rollouts a step", "64, 1,024", (batched(64), batched(1024)), lambda run: not on_gpus(run)),
)


def study_run(name: str, gpu_hours: float, steps: float, prompts: int, model: str = "llama-3.1-8b") -> Run:
    """Describe a run of the ScaleRL study: 16 rollouts a prompt on 80 GB200, 1,000 × 16 validated every 100 steps."""
    responses = ResponseLengths(MEAN_SHARE * CAP, CAP, SPREAD)
    validation = Validation(1000, 16, 100)
    shape = catalogue.model(model)
    workload = Workload(shape, PROMPT_TOKENS, responses, 53_000, DIFFICULTIES["mixed"], validation)
    hardware = Hardware(catalogue.gpu("gb200"), 80, 80)
    known = prior(hardware.gpu)
    traits = load_recipe("scalerl").traits().uninterrupted  # the mean that is assumed is that of what it came to
    return Run(name, gpu_hours, steps, 16, prompts, workload, hardware, traits, known)


def tiny_run() -> Run:
    """Describe 60,000 rollouts of a 3-layer, 96-wide model on three-digit sums: about a minute on one core."""
    shape = ModelShape("tiny", 96, 3, 4, 4, 24, 4 * 96, 16, 64, tied_embeddings=True)
    responses, validation = ResponseLengths(5, 5, 0.0), Validation(1, 1, 10_000)
    workload = Workload(shape, 8, responses, 10_000, DIFFICULTIES["mixed"], validation)
    hardware = Hardware(catalogue.gpu("cpu"), 1, 1)
    steps, traits = 60_000 / CPU_ROLLOUTS, load_recipe("dr-grpo").traits()
    known = prior(hardware.gpu)
    return Run("(e) tiny model, one CPU core", 1 / 60, steps, 16, 16, workload, hardware, traits, known)


RUNS = (
    study_run("(a) flagship, 2,048 completions", 100_000, 7400, 128),
    study_run("(b) flagship, 2,048 prompts × 16", 100_000, 7400, 2048),
    study_run("(c) batch 768", 1500, 1000, 48),
    study_run("(d) Scout, 768 completions", 50_000, 7100, 48, "llama-4-scout"),
    study_run("(d') Scout, 2,048 completions", 50_000, 7100, 128, "llama-4-scout"),
    tiny_run(),
)


def miss(run: Run) -> float:
    """Return how far a prediction lies from the published figure, as a logarithm."""
    return abs(math.log(run.ratio))


def nearest(run: Run, variation: Variation) -> Run:
    """Return the run at the setting of one assumption that comes nearest to the published figure."""
    return min((setting(run) for setting in variation.settings), key=miss)


def all_moved(run: Run) -> Run:
    """Move every assumption at once to the end of its bounds that pushes towards the published figure."""
    direction = 1 if run.ratio < 1 else -1
    moved = run
    for variation in VARIATIONS:
        if variation.applies(run):
            candidates = (run, *(setting(run) for setting in variation.settings))
            furthest = max(range(len(candidates)), key=lambda index: direction * candidates[index].ratio)
            moved = variation.settings[furthest - 1](moved) if furthest else moved
    return moved


def summary() -> list[list[str]]:
    """Lay out each run: published, predicted with its interval, their ratio, and what moves it most."""
    rows = [["run", "published", "predicted (90 %)", "ratio", "dominates", "ratio with it", "all moved"]]
    for run in RUNS:
        cost = step_cost(run.workload, run.hardware, run.traits, run.n, run.prompts)
        low, high = (run.steps * end for end in (cost.gpu_hours_per_step_low, cost.gpu_hours_per_step_high))
        moved = {one.name: nearest(run, one) for one in VARIATIONS if one.applies(run)}
        best = min(moved, key=lambda name: miss(moved[name]))
        within = miss(moved[best]) >= miss(run)
        rows.append(
            [
                run.name,
                f"{hours(run.published_gpu_hours)} h",
                f"{hours(run.gpu_hours)} h ({hours(low)}–{hours(high)})",
                f"{run.ratio:.2f}",
                "none" if within else best,
                f"{(run if within else moved[best]).ratio:.2f}",
                f"{all_moved(run).ratio:.2f}",
            ]
        )
    return rows


def details() -> list[list[str]]:
    """Lay out the ratio of each run with one assumption at a time at each of its settings."""
    rows = [["assumption", "moved to", *(run.name.split()[0] for run in RUNS)]]
    rows.append(["nominal", "", *(f"{run.ratio:.2f}" for run in RUNS)])
    for variation in VARIATIONS:
        cells = [
            ", ".join(f"{setting(run).ratio:.2f}" for setting in variation.settings) if variation.applies(run) else "–"
            for run in RUNS
        ]
        rows.append([variation.name, variation.bounds, *cells])
    rows.append(["all moved at once", "", *(f"{all_moved(run).ratio:.2f}" for run in RUNS)])
    return rows


def hours(amount: float) -> str:
    """Write hours with as many digits as they deserve."""
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.2g}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--measured", action="store_true", help="compare with measured steps instead of whole runs")
    parser.add_argument("--rows", type=Path, default=ROWS, help="measured steps, with the columns of the shipped table")
    arguments = parser.parse_args()
    markdown = arguments.markdown
    if arguments.measured:
        for title, rows in (*measured_tables(arguments.rows), *calibrated_tables(arguments.rows)):
            print(f"{title}\n\n{table(rows, markdown=markdown)}\n")
        return
    print("GPU-hours of public runs, published and predicted at nominal assumptions\n")
    print(table(summary(), markdown=markdown))
    print("\nPredicted ÷ published with one assumption moved at a time\n")
    print(table(details(), markdown=markdown))


if __name__ == "__main__":
    main()
