"""The pruner inside plain Optuna."""

import logging
import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event, Thread

import optuna
import pytest
from optuna.pruners import BasePruner, MedianPruner
from optuna.trial import FrozenTrial, TrialState

from budgets.errors import InputError
from planner.integrations.optuna_pruner import REASON, PredictedScorePruner
from tests.planner.integrations.crossing import STEPS, Run, runs, with_a_late_starter
from tests.planner.integrations.page import example

Scale = Callable[[float], float]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


def as_loss(score: float) -> float:
    return 2 - 3 * math.log(max(score, 0.01))


def optimise(
    all_runs: Sequence[Run],
    pruner: BasePruner,
    *,
    scale: Scale = lambda score: score,
    storage: str | None = None,
    trials: int | None = None,
    jobs: int = 1,
) -> optuna.Study:
    """Let Optuna try every run once, in order."""
    direction = "maximize" if scale(1) > scale(0) else "minimize"
    study = optuna.create_study(
        study_name="runs", storage=storage, direction=direction, pruner=pruner, load_if_exists=True
    )
    if not study.trials:
        for number in range(len(all_runs)):
            study.enqueue_trial({"run": number})

    def objective(trial: optuna.Trial) -> float:
        value = 0.0
        for step, score in all_runs[trial.suggest_int("run", 0, len(all_runs) - 1)].scores():
            value = scale(score)
            trial.report(value, step - 1)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study.optimize(objective, n_trials=trials or len(all_runs), n_jobs=jobs)
    return study


def outcome(study: optuna.Study, all_runs: Sequence[Run]) -> tuple[float, float]:
    """Return the share of all steps that was used, and how far the best found falls short of the best there is."""
    used = sum(len(trial.intermediate_values) for trial in study.trials) / (STEPS * len(all_runs))
    return used, max(run.end for run in all_runs) - all_runs[study.best_trial.params["run"]].end


@pytest.mark.parametrize(
    ("pruner", "scale"),
    [
        (PredictedScorePruner(STEPS, bounds=(0, 1)), lambda score: score),
        (PredictedScorePruner(STEPS), as_loss),
    ],
    ids=["bounded", "unbounded loss"],
)
def test_the_late_starter_that_the_median_kills_is_kept_and_others_are_pruned_for_a_reason(
    pruner: PredictedScorePruner, scale: Scale, caplog: pytest.LogCaptureFixture
) -> None:
    all_runs, late = with_a_late_starter()
    with caplog.at_level(logging.INFO):
        study = optimise(all_runs, pruner, scale=scale)
    pruned = [trial for trial in study.trials if trial.state is TrialState.PRUNED]
    reasons = [trial.user_attrs[REASON]["reason"] for trial in pruned]
    assert [f"runs: {reason}" for reason in reasons] == [record.getMessage() for record in caplog.records]
    assert all(f"P(trial {one.number} is best at 36)" in why for one, why in zip(pruned, reasons, strict=True))
    used, regret = outcome(study, all_runs)
    assert study.best_trial.params["run"] == late
    assert regret == 0
    assert used < 0.9
    by_median = optimise(all_runs, MedianPruner(), scale=scale)
    assert by_median.trials[late].state is TrialState.PRUNED
    assert outcome(by_median, all_runs)[1] > 0.3


def test_a_study_in_a_database_is_resumed_by_a_new_pruner(tmp_path: Path) -> None:
    all_runs = runs(4, count=4)
    whole = optimise(all_runs, PredictedScorePruner(STEPS, bounds=(0, 1)))
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    for trials in (3, 1):
        parts = optimise(all_runs, PredictedScorePruner(STEPS, bounds=(0, 1)), storage=storage, trials=trials)
    assert [(trial.state, trial.last_step) for trial in parts.trials] == [
        (trial.state, trial.last_step) for trial in whole.trials
    ]


def test_a_study_need_not_wait_for_another_whose_curves_are_being_fitted() -> None:
    begun, release = Event(), Event()

    def compute_at(trial: FrozenTrial, step: int) -> float:
        begun.set()
        assert release.wait(30)
        return step + 1.0

    def judge(pruner: PredictedScorePruner) -> None:
        trial = optuna.create_study(pruner=pruner).ask()
        trial.report(0.1, 0)
        trial.should_prune()

    busy = Thread(target=judge, args=(PredictedScorePruner(10, compute_at=compute_at),))
    other = Thread(target=judge, args=(PredictedScorePruner(10),))
    busy.start()
    assert begun.wait(30)
    other.start()
    other.join(5)
    waited = other.is_alive()
    release.set()
    busy.join()
    other.join()
    assert not waited


def test_one_pruner_serves_one_study_after_the_other_and_is_pickled_with_it() -> None:
    all_runs, pruner = runs(3, count=5), PredictedScorePruner(STEPS, bounds=(0, 1))
    first = optimise(all_runs, pruner)
    again = optimise(all_runs, pruner)  # another study of the same name
    assert [trial.last_step for trial in again.trials] == [trial.last_step for trial in first.trials]
    kept: optuna.Study = pickle.loads(pickle.dumps(again))
    assert kept.pruner.outlooks(kept) == pruner.outlooks(again)
    assert set(pruner.outlooks(again)) == {t.number for t in again.trials if t.state is TrialState.COMPLETE}


def test_failed_and_diverged_trials_are_out_of_the_competition() -> None:
    study = optuna.create_study(direction="maximize", pruner=PredictedScorePruner(10, bounds=(0, 1)))

    def objective(trial: optuna.Trial) -> float:
        for step in range(10):
            trial.report(math.nan if trial.number == 1 and step in (1, 2, 4, 5, 6) else 0.1 * step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
            if trial.number == 0 and step == 8:
                raise ValueError
        return 0.9

    study.optimize(objective, n_trials=3, catch=(ValueError,))
    assert [trial.state for trial in study.trials] == [TrialState.FAIL, TrialState.PRUNED, TrialState.COMPLETE]
    assert study.trials[1].last_step == 6  # a finite score in between begins the count anew
    assert "no finite score 3 times" in study.trials[1].user_attrs[REASON]["reason"]
    pruner = study.pruner
    assert isinstance(pruner, PredictedScorePruner)
    assert set(pruner.outlooks(study)) == {2}


def test_trials_are_compared_at_a_compute_and_not_at_a_step() -> None:
    def compute_at(trial: FrozenTrial, step: int) -> float:
        return (step + 1) * float(trial.params["batch"])

    study = optuna.create_study(
        direction="maximize", pruner=PredictedScorePruner(64, bounds=(0, 1), compute_at=compute_at)
    )
    for batch in (1, 4):
        study.enqueue_trial({"batch": batch})

    def objective(trial: optuna.Trial) -> float:
        batch = trial.suggest_int("batch", 1, 4)
        for step in range(64 // batch):
            trial.report(1 / (1 + 16 / (batch * (step + 1))), step)
            assert not trial.should_prune()
        return 0.8

    study.optimize(objective, n_trials=2)
    assert isinstance(study.pruner, PredictedScorePruner)
    slow, quick = study.pruner.outlooks(study).values()
    assert (slow.median, quick.median) == pytest.approx((0.8, 0.8), abs=0.02)


def test_before_the_first_report_nothing_is_pruned_and_nonsense_is_refused_at_once() -> None:
    study = optuna.create_study(pruner=PredictedScorePruner(10))
    assert not study.ask().should_prune()
    with pytest.raises(InputError, match="target -1"):
        PredictedScorePruner(-1)


def test_the_example_of_the_documentation_works(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example("import optuna"), "plug-ins.md", "exec"), {"__name__": "example"})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12
    assert any("PRUNED P(trial" in line and "best at 40) is" in line for line in lines)
