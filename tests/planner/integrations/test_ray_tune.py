"""The scheduler inside plain Ray Tune; one Ray for all tests, for it starts slowly."""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import tune

from budgets.errors import InputError
from planner.integrations.ray_tune import predicted_score_scheduler
from tests.planner.integrations.crossing import STEPS, Run, with_a_late_starter
from tests.planner.integrations.page import example

ROOT = str(Path(__file__).parents[3])
ALL_RUNS, LATE = with_a_late_starter()
WORST, FAILS_AT = 0, 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    paths = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH", "")]))
    environment = {"env_vars": {"PYTHONPATH": paths}}
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    yield
    ray.shutdown()


class Training(tune.Trainable):
    """Gives the scores of one run, and fails early in one of them the first time."""

    def setup(self, config: dict[str, Any]) -> None:
        self._scores = dict(ALL_RUNS[config["run"]].scores())
        fails = config.get("fails", {})
        self._fails = Path(fails["once"]) if fails.get("run") == config["run"] else None

    def step(self) -> dict[str, Any]:
        step = self.iteration + 1
        if step == FAILS_AT and self._fails is not None and not self._fails.exists():
            self._fails.touch()
            raise RuntimeError("as the test wants")
        return {"score": self._scores[step], "done": step == STEPS}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return True

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        (Path(checkpoint_dir) / "step").write_text(str(self.iteration))

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        assert (Path(checkpoint_dir) / "step").exists()  # Ray Tune itself knows the iteration


def used(results: tune.ResultGrid) -> dict[int, int]:
    return {each.config["run"]: each.metrics["training_iteration"] for each in results}


@pytest.mark.soak
@pytest.mark.usefixtures("cluster")
def test_an_interrupted_experiment_is_restored_with_the_curves_that_it_had(tmp_path: Path) -> None:
    """Its worst trial fails early; after the restart it is stopped for what the others had scored before."""
    scheduler = predicted_score_scheduler(STEPS, bounds=(0, 1))
    fails = {"run": WORST, "once": str(tmp_path / "once")}
    first = tune.Tuner(
        Training,
        param_space={"run": tune.grid_search([WORST, LATE, 7]), "fails": fails},
        tune_config=tune.TuneConfig(
            metric="score", mode="max", scheduler=scheduler, reuse_actors=True, max_concurrent_trials=2
        ),
        run_config=tune.RunConfig(name="runs", storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert len(first.errors) == 1
    assert used(first) == {WORST: FAILS_AT - 1, LATE: STEPS, 7: STEPS}
    results = tune.Tuner.restore(str(tmp_path / "runs"), Training, resume_errored=True).fit()
    assert not results.errors
    assert results.get_best_result().config["run"] == LATE
    assert FAILS_AT < used(results)[WORST] < STEPS


def test_metric_and_mode_are_given_once_to_the_scheduler_or_to_tune() -> None:
    own = predicted_score_scheduler(10, metric="score", mode="max")
    assert not own.set_search_properties("score", None)
    assert own.set_search_properties(None, None)
    with pytest.raises(InputError, match=r"metric 'score' and mode None: give both"):
        predicted_score_scheduler(10).set_search_properties("score", None)
    with pytest.raises(InputError, match="target 0"):
        predicted_score_scheduler(0)


def trial(name: str, status: str = "RUNNING") -> Any:
    return SimpleNamespace(
        trial_id=name, status=status, last_result={}, is_finished=lambda: status in ("ERROR", "TERMINATED")
    )


def fed(scheduler: Any, name: str, run: Run, steps: int) -> list[str]:
    scheduler.on_trial_add(None, trial(name))
    answers = []
    for step, score in list(run.scores())[:steps]:
        answers.append(scheduler.on_trial_result(None, trial(name), {"training_iteration": step, "loss": 1 - score}))
    return answers


@pytest.fixture
def scheduler() -> Any:
    made: Any = predicted_score_scheduler(STEPS, bounds=(0, 1))
    assert made.set_search_properties("loss", "min")
    return made


def test_a_pickled_and_a_restored_scheduler_go_on_as_if_nothing_had_been(scheduler: Any, tmp_path: Path) -> None:
    for number in (9, 7, LATE):
        assert set(fed(scheduler, f"t{number}", ALL_RUNS[number], STEPS)) == {"CONTINUE"}
    copied = pickle.loads(pickle.dumps(scheduler))
    scheduler.save(str(tmp_path / "state"))
    restored: Any = predicted_score_scheduler(STEPS)
    restored.restore(str(tmp_path / "state"))
    answers = fed(scheduler, "t0", ALL_RUNS[WORST], STEPS)
    assert "STOP" in answers
    for other in (copied, restored):
        assert fed(other, "t0", ALL_RUNS[WORST], STEPS) == answers
        assert other.reasons == scheduler.reasons


def test_failed_and_removed_trials_are_out_until_they_come_again(scheduler: Any) -> None:
    for number in (9, 7, LATE):
        fed(scheduler, f"t{number}", ALL_RUNS[number], 20)
    scheduler.on_trial_error(None, trial("t9"))
    scheduler.on_trial_remove(None, trial("t7"))
    scheduler.on_trial_complete(None, trial(f"t{LATE}"), {})
    assert set(scheduler.outlooks()) == {f"t{LATE}"}
    scheduler.on_trial_add(None, trial("t9"))
    scheduler.on_trial_add(None, trial("t7", "ERROR"))
    assert set(scheduler.outlooks()) == {"t9", f"t{LATE}"}


@pytest.mark.parametrize(("hard", "answer", "verb"), [(True, "STOP", "stopped"), (False, "PAUSE", "paused")])
def test_trials_are_compared_at_what_they_report_and_stopped_or_paused(hard: bool, answer: str, verb: str) -> None:
    scheduler: Any = predicted_score_scheduler(2 * STEPS, time_attr="gpu_hours", bounds=(0, 1), hard_stop=hard)
    answers = set()
    scheduler.set_search_properties("score", "max")
    for number in (9, 7, LATE, WORST):
        scheduler.on_trial_add(None, trial(f"t{number}"))
        for step, score in list(ALL_RUNS[number].scores())[:30]:
            result = {"gpu_hours": 2.0 * step, "score": score}
            answers.add(scheduler.on_trial_result(None, trial(f"t{number}"), result))
    assert answers == {"CONTINUE", answer}
    assert set(scheduler.reasons) == {f"t{WORST}"}
    assert "is best at 72) is " in scheduler.reasons[f"t{WORST}"].reason
    assert scheduler.debug_string() == f"Using PredictedScoreScheduler: 1 trials {verb}."


def test_results_without_the_metric_or_the_time_are_passed_over(scheduler: Any) -> None:
    scheduler.on_trial_add(None, trial("t"))
    for result in ({"loss": 0.5}, {"training_iteration": 1}, {"training_iteration": 1, "loss": "low"}):
        assert scheduler.on_trial_result(None, trial("t"), result) == "CONTINUE"
    assert scheduler.outlooks() == {}


@pytest.mark.usefixtures("cluster")
def test_the_example_of_the_documentation_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran: dict[str, Any] = {"__name__": "example"}
    exec(compile(example("from ray import tune"), "plug-ins.md", "exec"), ran)
    printed = capsys.readouterr().out
    assert "{'rate': 0.03}" in printed
    assert ran["scheduler"].reasons
    assert all(why.reason in printed for why in ran["scheduler"].reasons.values())
