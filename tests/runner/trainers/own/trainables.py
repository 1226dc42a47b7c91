"""Trainables of Ray Tune's as people have them: a function that reports its checkpoints, and a class."""

import json
import tempfile
from pathlib import Path
from typing import Any

from ray import tune


def learn(config: dict[str, Any]) -> None:
    skill, step = 0.1, 0
    if (checkpoint := tune.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            skill, step = json.loads(Path(folder, "state.json").read_text())
    while True:
        skill, step = skill + config["learning_rate"] * config["rollouts_per_prompt"] * (1 - skill), step + 1
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "state.json").write_text(json.dumps([skill, step]))
            tune.report({"score": skill, "loss": 1 - skill}, checkpoint=tune.Checkpoint.from_directory(folder))


def learn_without_saving(config: dict[str, Any], last: int = 1000) -> None:
    for step in range(1, last + 1):
        tune.report({"score": step / 1000})


def learn_briefly(config: dict[str, Any]) -> None:
    learn_without_saving(config, last=3)


class Learner(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.skill, self.gain = 0.1, config["learning_rate"] * config["rollouts_per_prompt"]

    def step(self) -> dict[str, Any]:
        self.skill += self.gain * (1 - self.skill)
        return {"eval": {"acc": self.skill}, "name": "nothing to be drawn"}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"skill": self.skill}

    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        assert checkpoint is not None
        self.skill = checkpoint["skill"]
