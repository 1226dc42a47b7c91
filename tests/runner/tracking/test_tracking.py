"""A sweep's copy in an experiment tracker: whole, each value once, and never in the way of the sweep."""

import sys
import threading
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ray.tune.logger import LoggerCallback

from planner.config.cluster import TrackingSection
from planner.store import Store, open_store
from planner.store.schema import SegmentOutcome
from planner.view import TrialState
from runner.tracking.beside import beside, follow, mirrored
from runner.tracking.loggers import STEP, SWEEP_TAG, LoggedRun, open_logger
from runner.tracking.mirror import Mirror
from tests.rlplan.sweep_rows import Seeder


class Recording(LoggerCallback):
    """A logger of Tune's that is down for the first so many runs."""

    def __init__(self, down: int = 0) -> None:
        self.down = down
        self.runs = dict[str, LoggedRun]()
        self.results = defaultdict[str, list[dict[str, Any]]](list)

    def log_trial_start(self, trial: Any) -> None:
        self.down -= 1
        if self.down >= 0:
            raise ConnectionError("refused\nby many words")
        self.runs[trial.trial_id] = trial

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        self.results[trial.trial_id].append(result)

    def of(self, trial: str) -> tuple[LoggedRun, list[dict[str, Any]]]:
        """Return the run of a trial, and its results."""
        (name,) = (name for name in self.runs if name.endswith(trial))
        return self.runs[name], self.results[name]


class Looks(threading.Event):
    """Ends after so many looks, and notes how long each wait was."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.left, self.waits = looks, list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        self.left -= 1
        if not self.left:
            self.set()
        return False


def seeded(store: Store) -> tuple[Seeder, int]:
    """A sweep with one trial, scored at steps 0 and 10."""
    sweep = Seeder(store)
    trial = sweep.trial(8, 32)
    sweep.begin(trial, 0)
    for step in (0, 10):
        sweep.score(trial, step, 0.1 + step / 100)
    return sweep, trial


def test_a_tracker_gets_every_point_once_also_from_a_driver_that_goes_on(tmp_path: Path) -> None:
    first, second = Recording(), Recording()
    with open_store(tmp_path / "rlplan.db") as store:
        sweep, trial = seeded(store)
        Mirror(store, sweep.sweep, tmp_path, lambda group: first).copy()
        sweep.settle(trial, SegmentOutcome.LOST, 20.0)
        sweep.move(trial, TrialState.LOST)
        sweep.move(trial, TrialState.PAUSED)
        sweep.score(trial, 10, 0.3, attempt=2)  # done again, and further
        sweep.score(trial, 20, 0.4, attempt=2)
        Mirror(store, sweep.sweep, tmp_path, lambda group: second).copy()

    (run, before), (same_run, after) = first.of("n8-B32-s0"), second.of("n8-B32-s0")
    assert [(result[STEP], result["score"]) for result in before if "score" in result] == [(0, 0.1), (10, 0.2)]
    assert before[1] | {"gpu_hours": 30.0, "pass_rate": 0.2} == before[1]
    assert run.config | {"rollouts_per_prompt": 8, "prompts_per_batch": 32} == run.config
    assert next(iter(first.runs)) == run.group
    assert same_run.trial_id == run.trial_id
    assert [result[STEP] for result in after if "score" in result] == [20]
    assert after[-1] == {"state": "paused", "gpu_hours_spent": 20.0, STEP: 20}


def test_a_tracker_that_fails_is_named_once_and_gets_all_of_it_later(tmp_path: Path) -> None:
    said: list[str] = []
    tracker, looks = Recording(down=2), Looks(3)
    with open_store(tmp_path / "rlplan.db") as store:
        sweep, _ = seeded(store)
        follow(Mirror(store, sweep.sweep, tmp_path, lambda group: tracker).copy, looks, "mlflow", said.append)
    assert said == ["mlflow takes nothing (ConnectionError: refused): the sweep goes on without it"]
    assert looks.waits == [20.0, 40.0, 10.0]
    assert [result[STEP] for result in tracker.of("n8-B32-s0")[1] if "score" in result] == [0, 10]


def test_a_tracker_that_hangs_holds_a_sweep_up_no_longer_than_it_may(tmp_path: Path) -> None:
    said: list[str] = []
    hangs = [sys.executable, "-c", "import time; time.sleep(600)"]
    with beside(hangs, "", tmp_path / "logs/tracking.log", "wandb", said.append, last=0.1):
        pass
    assert said == ["wandb does not answer: what it has not had of the sweep stays in the database alone"]


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_mlflow_has_a_run_for_each_trial_in_that_of_its_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    where = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", where)
    said: list[str] = []
    with open_store(tmp_path / "rlplan.db") as store:
        sweep, trial = seeded(store)
        for step in (20, 30):  # two drivers, one after the other
            with mirrored(TrackingSection(to="mlflow"), store.address, sweep.sweep, tmp_path, said.append):
                sweep.score(trial, step, 0.5)
    client = mlflow.MlflowClient(where)
    runs = client.search_runs([client.get_experiment_by_name("rlplan").experiment_id])
    assert said == []
    of_trial, of_sweep = sorted(runs, key=lambda run: len(run.info.run_name), reverse=True)
    assert of_trial.data.tags[SWEEP_TAG] == of_sweep.info.run_name
    assert of_trial.data.tags["state"] == "running"
    assert of_trial.data.params["prompts_per_batch"] == "32"
    assert [point.step for point in client.get_metric_history(of_trial.info.run_id, "score")] == [0, 10, 20, 30]
    assert of_trial.data.metrics["gpu_hours"] == 90.0


def test_tensorboard_has_a_folder_for_each_run(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with open_store(tmp_path / "rlplan.db") as store:
        sweep, _ = seeded(store)
        mirror = Mirror(store, sweep.sweep, tmp_path, partial(open_logger, TrackingSection(to="tensorboard")))
        mirror.copy()
        mirror.close()
    (folder,) = tmp_path.glob("tracking/*-n8-B32-s0")
    events = EventAccumulator(str(folder))
    events.Reload()
    assert [(point.step, point.value) for point in events.Scalars("ray/tune/score")] == [
        (0, pytest.approx(0.1)),
        (10, pytest.approx(0.2)),
    ]
