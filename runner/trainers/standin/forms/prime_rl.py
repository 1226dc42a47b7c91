"""How prime-rl writes: rows of its orchestrator and of its trainer, a validation's traces, checkpoints in two parts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.trainers.standin.writing import Plain, Said


class Form(Plain):
    """Two files; a validation is said before the trainer's row of a step, and traces are there before it is said."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Open the trainer's file too."""
        super().__init__(given)
        self._every = int(given["validate_every"])
        self._trainer = Path(given["trainer_metrics"]).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115
        self._began = 0.0

    def stands(self, step: int, at: float) -> None:
        """Say nothing: the first row says how long it took since then."""
        self._began = at

    def say(self, said: Said, *, in_two: bool = False) -> None:
        """Write what a step did."""
        step = said.step
        if step:
            took = {"time/step": said.at - self._began, "time/pack": 0.0}
            tokens = {"train/agg/all/agent/num_output_tokens/mean": self._tokens}
            self._line({"step": step, "time": said.at, **took, **tokens}, in_two=in_two)
            self._began = said.at
        if said.score is not None:
            self._validated(said)
        for due in (step, step + 1) if step else ():
            if due % self._every == 0:
                self._line({"step": due, "time": said.at, f"eval/{self._given['validation']}/policy_version": step})
        if step:
            row = {"step": step, "time": said.at, "time/forward_backward": 0.0, "loss/mean": said.loss}
            self._trainer.write(json.dumps(row) + "\n")

    def save(self, step: int, *, torn: bool) -> None:
        """Write a checkpoint, and then the last file of each part."""
        super().save(step, torn=torn)
        for name in self._given["holds"]:
            path = self._path(step) / name
            path.parent.mkdir(exist_ok=True)
            path.touch()

    def _validated(self, said: Said) -> None:
        step, error = max(1, said.step), said.error or 0.0
        path = Path(self._given["traces"]) / f"step_{step}" / "eval" / "effective" / "traces.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Two problems, whose mean and whose error are those of the step.
        scores = [(said.score or 0.0) + sign * error for sign in (-1, 1)]
        path.write_text("".join(json.dumps(_episode(number, score)) + "\n" for number, score in enumerate(scores)))
        prefix = f"eval/{self._given['validation']}"
        means = {f"{prefix}/all/agent/avg@{self._given['samples']}": said.score}
        self._line({"step": step, "time": said.at, **means, f"{prefix}/policy_version": said.step})


def _episode(number: int, score: float) -> dict[str, Any]:
    rewards = {"rlplan": {"score": score, "weight": 1.0}}
    return {"traces": [{"task": {"data": {"number": number}}, "rewards": rewards}]}
