"""The environment of a trial's problems for NeMo-RL, scored by rlplan's reward; a copy lies in the trial's folder."""

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).absolute().parent
sys.path.insert(0, str(FOLDER / "parts"))

import ray  # noqa: E402, TID253
import torch  # noqa: E402, TID253
from nemo_rl.environments.interfaces import EnvironmentInterface, EnvironmentReturn  # noqa: E402

from runner.trainers.trial_reward import judge_in  # noqa: E402

RUN = json.loads((FOLDER / "run.json").read_text(encoding="utf-8"))
AT_ONCE = 256 if "asynchronous" in RUN else 1  # calls: asynchronous training asks for each response by itself


@ray.remote(max_concurrency=AT_ONCE)
class RlplanEnvironment(EnvironmentInterface):
    """One turn: the response, and what it is worth. The answer in a data file is the problem's place in ours."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Open the trial's problems."""
        self._judge = judge_in(config["folder"])

    def step(self, message_log_batch: list[Any], metadata: list[Any]) -> EnvironmentReturn:
        """Return what is trained on, or of a problem to validate on the plain score."""
        numbers = [int(row["ground_truth"]) for row in metadata]
        texts = [
            "".join(message["content"] for message in log if message["role"] == "assistant")
            for log in message_log_batch
        ]
        scores = self._judge.scores(numbers, texts)
        worth = [self._judge.worth(number, score) for number, score in zip(numbers, scores, strict=True)]
        return EnvironmentReturn(
            observations=[{"role": "environment", "content": ""}] * len(worth),
            metadata=metadata,
            next_stop_strings=[None] * len(worth),
            rewards=torch.tensor(worth, dtype=torch.float32),
            terminateds=torch.ones(len(worth)),
            answers=None,
        )

    def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, float]]:
        """Add nothing."""
        return batch, {}

    def shutdown(self) -> None:
        """Leave nothing behind: the reward's child ends with this process."""
