"""Prints what AllocBench shows, number by number."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.allocating.frontiers import OptimalGroupFit
from planner.curves.verdicts import Verdict
from runner.simulation.frontier import FRONTIERS

from .early import PARTS, Early, early
from .effects import (
    at_fixed_product,
    best_cell_law,
    effects,
    farthest_falls,
    recipe_differences,
    study_law,
    verdicts,
)
from .ranks import crossings
from .surface import by_cell, common_end, long_enough, optimum, pooled_sd, scores_at
from .table import Run, read

COMPUTES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)  # of the compute that every cell reaches
NOTABLE_FALL = 0.05


@dataclass(frozen=True, eq=False)
class Found:
    """The tables that there are, by task, and the predictions of their ends."""

    tables: dict[str, list[Run]]
    recipes: dict[str, list[Run]]
    predicted: dict[str, list[Early]]


def read_all(data: Path, tasks: Sequence[str]) -> Found:
    """Read the tables of these tasks that are in a folder."""

    def those(prefix: str) -> dict[str, list[Run]]:
        files = {task: data / f"{prefix}{task}.csv.gz" for task in tasks}
        return {task: read(path) for task, path in files.items() if path.is_file()}

    tables = those("allocbench-")
    predicted = {task: [early(long_enough(runs), part) for part in PARTS] for task, runs in tables.items()}
    return Found(tables, those("allocbench-recipes-"), predicted)


def report(found: Found) -> None:
    """Print everything."""
    for task, runs in found.tables.items():
        print(f"\n# {task}")
        print_size(runs)
        print_optimum(runs)
        print_laws(task, runs)
        print_effects(runs)
        print_noise(runs)
        print_crossings(runs)
        print_early(found.predicted[task])
        print_collapses(long_enough(runs))
    for task, runs in found.recipes.items():
        print_recipes(task, runs)


def print_size(runs: Sequence[Run]) -> None:
    """What there is."""
    cells, seeds = by_cell(runs), sorted({run.seed for run in runs})
    hours = [float(run.gpu_hours[-1]) for run in runs]
    raw = sum(float(run.seconds[-1]) for run in runs) / 3600
    end = 1000 * common_end(runs)
    points = sum(run.score.size for run in runs)
    print(f"{len(runs)} runs, {len(cells)} cells, seeds {seeds}, {points} points")
    print(f"{raw:.2f} CPU-hours measured, {sum(hours):.2f} quiet; in thousandths of a quiet hour:")
    print(
        f"runs last {1000 * min(hours):.1f} to {1000 * max(hours):.1f}; {len(long_enough(runs))} of them reach the "
        f"common end, {end:.2f}; every cell reaches {common_end(runs, 'rollouts'):,.0f} rollouts"
    )
    print(f"before training {np.mean([run.score[0] for run in runs]):.3f}")


def print_optimum(runs: Sequence[Run]) -> None:
    """The best cell and the best n at several computes, against GPU-hours and against rollouts."""
    for x, unit, factor in (("gpu_hours", "10⁻³ h", 1000.0), ("rollouts", "rollouts", 1.0)):
        print(f"\n{unit:>9} {'best cell':>10} {'score':>6} {'surface':>10} {'90 % of n*':>11} {'within 0.02':>12}")
        for part in COMPUTES:
            best = optimum(runs, part * common_end(runs, x), x)
            cell, surface = (f"{n}×{B}" for n, B in (best.cell, best.surface_cell))
            interval = f"{best.low:g}–{best.high:g}"
            row = f"{factor * best.compute:>9,.4g} {cell:>10} {best.score:>6.3f} {surface:>10}"
            print(f"{row} {interval:>11} {best.tied:>12}")


def print_laws(task: str, runs: Sequence[Run]) -> None:
    """The law of n*(C), fitted in two ways, beside the published one."""
    published = FRONTIERS["easy" if task.endswith("easy") else "hard"].optimal_group
    print("\nlog2 n* = L/(1 + exp(−k(log10 C − c0))) + b, C in rollouts")
    print(f"{'':<22}{'L':>7} {'k':>7} {'c0':>6} {'b':>6}")
    numbers = f"{published.rise:>7.2f} {published.steepness:>7.2f} {published.midpoint:>6.2f} {published.floor:>6.2f}"
    print(f"{'IsoCompute':<22}{numbers}")
    best, reached = best_cell_law(runs)
    for name, fit in (("the study's steps", study_law(runs)), ("best cell by compute", best)):
        if isinstance(fit, OptimalGroupFit):
            L, k, c0, b = fit.parameters.values()
            ends = ", ".join(f"{n:.1f}" for n in fit.predict([reached.compute[0], reached.compute[-1]]))
            print(f"{name:<22}{L:>7.2f} {k:>7.2f} {c0:>6.2f} {b:>6.2f}   n* from, to: {ends}; RSS {fit.rss:.1f}")
        else:
            print(f"{name:<22}  {fit}")
    changes = np.flatnonzero(np.diff(reached.group)) + 1
    path = [f"{reached.group[0]}"] + [f"{reached.group[i]} from {reached.compute[i]:,.0f}" for i in changes]
    print(textwrap.fill(f"best cell's n from {reached.compute[0]:,.0f} rollouts on: " + ", ".join(path), 100))


def print_effects(runs: Sequence[Run]) -> None:
    """What predicts a cell's score, and what an octave is worth."""
    print(
        "\nR²: of a quadratic in n, B, n·B, or n and B, for cells left out; octaves: of n at fixed B, of B at fixed n"
    )
    print(f"{'10⁻³ h':>7} {'best':>6} {'sd':>6}   {'n':>6} {'B':>6} {'n·B':>6} {'both':>6} {'of n':>9} {'of B':>8}")
    for part in COMPUTES:
        found = effects(runs, part * common_end(runs))
        explained = " ".join(f"{value:>6.2f}" for value in found.explained.values())
        print(
            f"{1000 * found.compute:>7.3g} {found.best:>6.3f} {found.spread:>6.3f}   {explained}"
            f" {found.per_octave_group:>+9.4f} {found.per_octave_prompts:>+8.4f}"
        )
    for part in (1 / 8, 1.0):
        print(f"\nscores at fixed n·B, n×B, at {1000 * part * common_end(runs):.3g} thousandths of an hour")
        for product, cells in at_fixed_product(runs, part * common_end(runs)).items():
            print(f"{product:>6}: " + "  ".join(f"{n}×{B} {score:.3f}" for (n, B), score in cells.items()))


def print_noise(runs: Sequence[Run]) -> None:
    """How much seeds differ, against what the validation itself scatters."""
    print()
    for part in COMPUTES[2:]:
        scores = scores_at(runs, part * common_end(runs))
        print(
            f"sd between seeds at {part:.3g} of the compute: {pooled_sd(scores):.4f}; "
            f"between cells {np.std([each.mean() for each in scores.values()]):.4f}"
        )
    error = np.mean([run.standard_error[-1] for run in runs])
    steps = np.concatenate([np.diff(run.score[run.score.size // 2 :]) for run in runs])
    scatter = steps.std() / np.sqrt(2)
    print(f"stated standard error of a last score {error:.4f}; from point to point in the second half {scatter:.4f}")


def print_crossings(runs: Sequence[Run]) -> None:
    """Whether the early order is the final one."""
    print(f"\n{'first':>6} {'rank corr.':>10} {'pairs crossed':>14} {'regret':>7} {'regret, one seed':>17}")
    for each in crossings(runs, (0.05, 0.1, 0.25, 0.5)):
        print(
            f"{each.part:>6.0%} {each.correlation:>10.2f} {each.crossed:>14.0%} {each.regret_of_cells:>7.3f} "
            f"{each.regret_of_seeds:>17.3f}"
        )


def print_early(found: Sequence[Early]) -> None:
    """How well the beginning tells the end."""
    for each in found:
        heads = f"{'CRPS':>8} {'MAE':>7} {'bias':>7} {'cover':>6} {'width':>6} {'rank':>6}"
        print(f"\n{f'first {each.part:.0%} of {len(each.cases)} runs':<24} {heads}")
        for name, scores in each.scores.items():
            bias = float(np.mean(scores.point - scores.truth))
            honest = scores.honesty
            interval = f"{honest.coverage:>6.0%} {honest.mean_width:>6.3f}" if honest else f"{'–':>6} {'–':>6}"
            error = np.abs(scores.point - scores.truth).mean()
            row = f"{name:<24} {scores.crps.mean():>8.4f} {error:>7.4f} {bias:>+7.4f}"
            print(f"{row} {interval} {each.order[name]:>6.2f}")


def print_collapses(runs: Sequence[Run]) -> None:
    """Verdicts on whole curves, and which runs end below their best."""
    counts = {verdict: members for verdict, members in verdicts(runs).items() if members}
    print("\nverdicts: " + ", ".join(f"{len(members)} {verdict}" for verdict, members in counts.items()))
    for verdict in (Verdict.COLLAPSED, Verdict.DECLINING, Verdict.FLAT):
        if verdict in counts:
            print(f"  {verdict}: " + ", ".join(run.name for run in counts[verdict]))
    falls = [(fall, run) for fall, run in farthest_falls(runs) if fall >= NOTABLE_FALL]
    print(
        f"runs that end {NOTABLE_FALL} or more below their best: {len(falls)}; "
        + ", ".join(f"{run.name} −{fall:.2f}" for fall, run in falls[:10])
    )


def print_recipes(task: str, runs: Sequence[Run]) -> None:
    """Recipes side by side on the cells that all have, by GPU-hours and by rollouts."""
    print(f"\n# recipes on {task}")
    for x, unit, factor in (("gpu_hours", "10⁻³ h", 1000.0), ("rollouts", "rollouts", 1.0)):
        end = min(common_end((run for run in runs if run.recipe == name), x) for name in {run.recipe for run in runs})
        for part in (1 / 8, 1 / 4, 1 / 2, 1.0):
            found = recipe_differences(runs, part * end, x)
            cells = list(next(iter(found.values()))[0])
            heads = "".join(f"{f'{n}×{B}':>8}" for n, B in cells)
            print(f"\n{f'at {factor * part * end:,.4g} {unit}':<18}{heads}{'mean':>8}")
            for recipe, (scores, mean, error) in found.items():
                row = "".join(f"{scores[cell]:>8.3f}" for cell in cells)
                print(f"{recipe:<18}{row}{mean:>8.3f} ± {error:.3f}")
            winners = [max(found, key=lambda recipe: found[recipe][0][cell]) for cell in cells]
            print("best in: " + ", ".join(f"{recipe} {winners.count(recipe)}" for recipe in found))
