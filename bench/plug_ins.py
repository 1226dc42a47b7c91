"""What the Optuna pruner saves and loses on runs whose early order is not their final one, beside Optuna's own.

    python -m bench.plug_ins [--studies 20]

Each study tries twelve runs one after the other; see tests/planner/integrations/crossing.py for their curves. Regret is
how far the true end of the run that a study calls the best falls short of the best run's; it is called so by its last
score, noise included, so that it is not nought without pruning either.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Sequence

import optuna
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner, SuccessiveHalvingPruner

from planner.integrations.optuna_pruner import PredictedScorePruner
from tests.planner.integrations.crossing import STEPS, Run, runs

PRUNERS: dict[str, Callable[[], BasePruner]] = {
    "predicted score, bounds given": lambda: PredictedScorePruner(STEPS, bounds=(0, 1)),
    "predicted score, no bounds": lambda: PredictedScorePruner(STEPS),
    "none": NopPruner,
    "median": MedianPruner,
    "median, after half": lambda: MedianPruner(n_warmup_steps=STEPS // 2),
    "successive halving": SuccessiveHalvingPruner,
    "Hyperband": lambda: HyperbandPruner(1, STEPS),
}

FIRST_SEED = 100  # the runs of lower ones were looked at while the rule was made


def main() -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--studies", type=int, default=20)
    studies = parser.parse_args().studies
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print("| pruner | steps used | mean regret | largest | best run found |\n|---|---|---|---|---|")
    for name, pruner in PRUNERS.items():
        used, regret = zip(*(outcome(runs(FIRST_SEED + seed), pruner()) for seed in range(studies)), strict=True)
        error = statistics.stdev(regret) / math.sqrt(studies)
        found = sum(each < 1e-9 for each in regret)
        print(
            f"| {name} | {statistics.mean(used):.0%} | {statistics.mean(regret):.3f} ± {error:.3f} | {max(regret):.3f} "
            f"| {found} of {studies} |",
            flush=True,
        )


def outcome(all_runs: Sequence[Run], pruner: BasePruner) -> tuple[float, float]:
    """Return the share of all steps that one study used, and its regret."""
    study = optuna.create_study(direction="maximize", pruner=pruner)
    for number in range(len(all_runs)):
        study.enqueue_trial({"run": number})

    def objective(trial: optuna.Trial) -> float:
        score = 0.0
        for step, score in all_runs[trial.suggest_int("run", 0, len(all_runs) - 1)].scores():
            trial.report(score, step - 1)
            if trial.should_prune():
                raise optuna.TrialPruned
        return score

    study.optimize(objective, n_trials=len(all_runs))
    used = sum(len(trial.intermediate_values) for trial in study.trials) / (STEPS * len(all_runs))
    return used, max(run.end for run in all_runs) - all_runs[study.best_trial.params["run"]].end


if __name__ == "__main__":
    main()
