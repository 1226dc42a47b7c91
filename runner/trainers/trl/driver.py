"""What rlplan knows of TRL 1.16: how its GRPOTrainer is started, what it says, and which checkpoints are whole."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from planner.recipes.schema import Recipe
from runner.ports.trial import TrialConfig
from runner.trainers.ability import Difference
from runner.trainers.driver import Attempt, Checkpoint, Launch, Reading
from runner.trainers.driving import as_done, asked_itself, complete, opened_task, started
from runner.trainers.following import LineSource
from runner.trainers.trl.folder import files_of, run_of
from runner.trainers.trl.options import options_of
from runner.trainers.trl.recipes import differences
from runner.trainers.trl.shape import require_runnable

NAMES = {  # TRL's → ours
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "reward": "reward",
    "reward_std": "reward_deviation",
    "rewards/pass_rate/mean": "pass_rate",
    "frac_reward_zero_std": "zero_variance_share",
    "completions/clipped_ratio": "truncated_share",
    "entropy": "entropy",
    "kl": "kl",
    "clip_ratio/low_mean": "clipped_low_share",
    "clip_ratio/high_mean": "clipped_high_share",
    "cispo_clip_ratio": "clipped_high_share",
}
_SAID = re.compile(r"^rlplan (input|checkpoint): (.*)$", re.MULTILINE)
_MARK = "complete.json"


class TrlDriver:
    """TRL's GRPOTrainer by train.py, which waits at the gate."""

    name = "trl"
    stop_signal = None
    gated = True

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that TRL cannot run, and a task that cannot be opened."""
        options_of(config)
        config = _as_done(config)
        require_runnable(config)
        run_of(config, opened_task(config), Attempt(Path(), 1, 0, 1, None))

    def differences(self, recipe: Recipe, *, vllm: bool = True) -> Sequence[Difference]:
        """Return what TRL does otherwise, on a GPU with vLLM unless told that there is none."""
        return list(differences(recipe, vllm=vllm))

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start start.py on every host, which starts that host's processes."""
        config = _as_done(config)
        argv, files = ("start.py", str(rank)), files_of(config, opened_task(config), attempt)
        return started(config, attempt, rank, argv, files, {"TRL_EXPERIMENTAL_SILENCE": "1"}, everywhere=True)

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[LineSource]:
        """Return the file that following.py writes."""
        return [LineSource(attempt.metrics, readings)]

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those that following.py has marked."""
        return complete(folder, "checkpoint-{step}", holds=(_MARK,))

    def form(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return what marks a checkpoint, for one who writes it instead."""
        return {"metrics": str(attempt.metrics), "mark": _MARK}

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Return what train.py itself has said of its end."""
        said = _SAID.findall(tail)
        if not said:
            return None
        kind, message = said[-1]
        refused = kind == "input"
        return kind, f"TRL refused its configuration: {message}" if refused else f"TRL could not go on: {message}"

    def rehearse(self, config: TrialConfig) -> Sequence[str]:
        """Have TRL make its GRPOConfig of the settings, in its own environment."""
        config = _as_done(config)
        files = files_of(config, opened_task(config), Attempt(Path(), 1, 0, 1, None))
        code, said = asked_itself(config, files, "train.py", "--rehearse")
        if code == 0:
            return []
        known = self.classify(code, said)
        return [known[1] if known else f"TRL's environment cannot be used: {said.splitlines()[-1]}"]


JUDGE = TrlDriver()


def driver(config: TrialConfig) -> TrlDriver:
    """Return the driver."""
    return TrlDriver()


def readings(line: str) -> list[Reading]:
    """Return what a line of the metrics says; one that a crash has torn says nothing."""
    with suppress(ValueError, KeyError):
        said: Mapping[str, Any] = json.loads(line)
        logs: Mapping[str, Any] = said.get("logs", {})
        metrics = {ours: float(logs[theirs]) for theirs, ours in NAMES.items() if logs.get(theirs) is not None}
        return [
            Reading(
                said["step"],
                said.get("score"),
                said.get("score_standard_error"),
                logs.get("completions/mean_length"),
                said["at_seconds"],
                {**metrics, **said.get("validation", {})},
                said["seconds"],
                whole="logs" in said or "score" in said,
            )
        ]
    return []


def _as_done(config: TrialConfig) -> TrialConfig:
    """Return the trial with the recipe as TRL trains it."""
    return as_done(config, "TRL", partial(JUDGE.differences, vllm=config.machine.engine == "vllm"))
