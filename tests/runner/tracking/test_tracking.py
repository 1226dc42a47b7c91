"""A sweep's copy in an experiment tracker: whole, each value once, and never in the way of the sweep."""

import sys
import threading
from pathlib import Path

import pytest

from planner.config.cluster import TrackingSection
from planner.store import Store, open_store
from planner.store.schema import SegmentOutcome
from planner.trials import TrialState
from runner.tracking.beside import beside, follow, mirrored
from runner.tracking.mirror import Mirror
from runner.tracking.port import News
from tests.rlplan.sweep_rows import Seeder


class Fake:
    """A tracker that is down for the first so many calls."""

    def __init__(self, down: int = 0) -> None:
        self.down, self.news = down, list[News]()

    def take(self, news: News) -> None:
        self.down -= 1
        if self.down >= 0:
            raise ConnectionError("refused\nby many words")
        self.news.append(news)

    def close(self) -> None:
        pass

    def of(self, trial: str) -> list[News]:
        return [each for each in self.news if each.run.endswith(trial)]


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
    first, second = Fake(), Fake()
    with open_store(tmp_path / "rlplan.db") as store:
        sweep, trial = seeded(store)
        Mirror(store, sweep.sweep, tmp_path, lambda: first).copy()
        sweep.settle(trial, SegmentOutcome.LOST, 20.0)
        sweep.move(trial, TrialState.LOST)
        sweep.move(trial, TrialState.PAUSED)
        sweep.score(trial, 10, 0.3, attempt=2)  # done again, and further
        sweep.score(trial, 20, 0.4, attempt=2)
        Mirror(store, sweep.sweep, tmp_path, lambda: second).copy()

    (begun,), (gone_on,) = first.of("n8-B32-s0"), second.of("n8-B32-s0")
    assert [(step, values["score"]) for step, values in begun.points] == [(0, 0.1), (10, 0.2)]
    assert begun.points[1][1] | {"gpu_hours": 30.0, "pass_rate": 0.2} == begun.points[1][1]
    assert begun.config | {"rollouts_per_prompt": 8, "prompts_per_batch": 32} == begun.config
    assert first.news[0].run == first.news[0].group == begun.group
    assert gone_on.run == begun.run
    assert [step for step, _ in gone_on.points] == [20]
    assert gone_on.summary == {"state": "paused", "gpu_hours_spent": 20.0}


def test_a_tracker_that_fails_is_named_once_and_gets_all_of_it_later(tmp_path: Path) -> None:
    said: list[str] = []
    tracker, looks = Fake(down=2), Looks(3)
    with open_store(tmp_path / "rlplan.db") as store:
        sweep, _ = seeded(store)
        follow(Mirror(store, sweep.sweep, tmp_path, lambda: tracker).copy, looks, "mlflow", said.append)
    assert said == ["mlflow takes nothing (ConnectionError: refused): the sweep goes on without it"]
    assert looks.waits == [20.0, 40.0, 10.0]
    assert [step for news in tracker.of("n8-B32-s0") for step, _ in news.points] == [0, 10]


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
    assert of_trial.data.tags["mlflow.parentRunId"] == of_sweep.info.run_id
    assert [each.step for each in client.get_metric_history(of_trial.info.run_id, "score")] == [0, 10, 20, 30]
