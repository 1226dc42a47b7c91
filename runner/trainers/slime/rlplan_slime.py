"""What slime calls of rlplan, in its own processes: reward, advantages, and what is told of each step.

A copy lies in the trial's folder, which is in PYTHONPATH. slime counts batches of rollouts from 0; what is told of
batch r belongs to step r + 1, but for the validation before the first.
"""

import json
import sys
import time
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FOLDER = Path(__file__).absolute().parent
sys.path.insert(0, str(FOLDER / "parts"))

from runner.trainers.trainer_process import MetricsWriter, group_scores  # noqa: E402
from runner.trainers.trial_reward import judge_in  # noqa: E402

_batches: set[int] = set()  # batches whose rollouts this process has made


@cache
def run() -> dict[str, Any]:
    """Return what start.py was told."""
    settings: dict[str, Any] = json.loads((FOLDER / "run.json").read_text(encoding="utf-8"))
    return settings


def say(step: int, logs: dict[str, Any] | None = None, **fields: Any) -> None:
    """Write a line, by a clock that the machines of a trial have in common."""
    MetricsWriter(FOLDER, run(), time.time).say(step, logs, **fields)


async def reward(_: Any, sample: Any, **__: Any) -> float:
    """Return what is trained on, or of a problem to validate on the plain score."""
    judge, number = judge_in(str(FOLDER)), int(sample.label)
    score = await judge.awaited(number, sample.response)
    return judge.worth(number, score, sample.response_length)


def advantages_of(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """Return the rewards, and rlplan's advantages of them; truncated responses are left out where it is said so."""
    import torch

    from runner.grpo.advantages import advantages  # noqa: PLC0415

    if run()["mask_truncated"]:
        for sample in samples:
            sample.remove_sample = sample.remove_sample or sample.status.name == "TRUNCATED"
    rewards = torch.tensor([float(sample.get_reward_value(args)) for sample in samples])
    order = sorted(range(len(samples)), key=lambda place: samples[place].group_index)
    settings: Any = SimpleNamespace(**run()["advantage"])
    shaped = torch.empty_like(rewards)
    shaped[order] = advantages(rewards[order], run()["rollouts_per_prompt"], settings)
    return rewards.tolist(), shaped.tolist()


def listen(*_: Any) -> None:
    """Have all that this process logs told."""
    _listen_once()


@cache
def _listen_once() -> None:
    from slime.observability import logging_utils  # noqa: PLC0415

    log = logging_utils.log

    def telling(args: Any, metrics: dict[str, Any], step_key: str) -> Any:
        tell_logged(metrics, step_key)
        return log(args, metrics, step_key)

    logging_utils.log = telling


def tell_logged(metrics: dict[str, Any], step_key: str) -> None:
    """Tell the numbers of a step; slime counts updates in train/step, and batches elsewhere."""
    batch = int(metrics[step_key]) // (run()["updates"] if step_key == "train/step" else 1)
    if step_key != "eval/step":
        say(batch + 1, {name: value for name, value in metrics.items() if name != step_key})


def tell_rollouts(rollout_id: int, *_: Any) -> bool:
    """Note that a batch has been made; slime then logs it itself.

    What train_async.py makes ahead would come before the last step's validation: there the training logs alone count.
    """
    if "program" not in run():
        listen()
    _batches.add(rollout_id)
    return False


def tell_validation(rollout_id: int, _: Any, data: dict[str, Any], __: Any = None) -> bool:
    """Tell the scores of every sample, by problem; slime then logs their mean itself."""
    pairs = [pair for group in data.values() for pair in zip(group["samples"], group["rewards"], strict=True)]
    scores = group_scores((sample.label, score) for sample, score in pairs)
    say(rollout_id + 1 if rollout_id in _batches else 0, scores=scores)
    return False
