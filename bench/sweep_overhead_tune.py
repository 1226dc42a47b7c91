"""One side of sweep_overhead.py: plain Ray Tune with ASHA over the trials of a sweep that is in a database."""

import json
import os
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.update(TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1", RAY_AIR_NEW_OUTPUT="0")

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler

WORKERS = 2


class Trial(tune.Trainable):
    """Trains one trial with rlplan's trainer, a validation a step."""

    def setup(self, config: dict[str, Any]) -> None:
        """Start the trial."""
        from runner.backends.builtin import BuiltinBackend
        from runner.ports.backend import Segment
        from runner.ports.trial import TrialConfig

        given = config["given"]
        began = time.time()
        self._backend = BuiltinBackend()
        self._backend.start(TrialConfig.model_validate(given["trial"]), Path(tempfile.mkdtemp()))
        self._points = self._backend.advance(Segment(given["steps"]))
        self._notes = Path(given["notes"]) / f"{time.time_ns()}.json"
        self._noted: dict[str, Any] = {"begin": began, "metrics": []}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take another trial into the same process."""
        self._backend.close()
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Train to the next score."""
        for point in self._points:
            self._noted["metrics"].append({"seconds": point.metrics["seconds"]})
            if point.score is not None:
                self._note()
                return {"score": point.score, "done": False}
        self._note()
        return {"score": 0.0, "done": True}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Keep nothing: ASHA never goes back."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Take nothing."""

    def _note(self) -> None:
        self._notes.write_text(json.dumps({**self._noted, "end": time.time()}))


def main(database: str, out: str) -> None:
    """Run the trials and write when they ran and what their updates took."""
    with sqlite3.connect(database) as connection:
        rows = connection.execute(
            "SELECT trials.config, candidates.pilot_steps FROM trials JOIN candidates ON candidates.id = candidate_id"
        ).fetchall()
        every = json.loads(connection.execute("SELECT config FROM plans").fetchone()[0])["validation"]["every_steps"]
    notes = Path(out).with_suffix(".notes")
    notes.mkdir()
    space = [{"trial": json.loads(config), "steps": steps, "notes": str(notes)} for config, steps in rows]
    validations = max(steps for _, steps in rows) // every + 1
    ray.init("local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    scheduler = ASHAScheduler(
        time_attr="training_iteration", max_t=validations, grace_period=max(1, validations // 9), reduction_factor=3
    )
    tune.Tuner(
        tune.with_resources(Trial, {"cpu": 1}),
        param_space={"given": tune.grid_search(space)},
        tune_config=tune.TuneConfig(metric="score", mode="max", scheduler=scheduler, reuse_actors=True),
        run_config=tune.RunConfig(storage_path=str(Path(out).parent / "tune"), verbose=0),
    ).fit()
    done = [json.loads(file.read_text()) for file in notes.iterdir()]
    Path(out).write_text(
        json.dumps(
            {
                "begin": min(each["begin"] for each in done),
                "end": max(each["end"] for each in done),
                "metrics": [metric for each in done for metric in each["metrics"]],
                "trials": len(done),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
