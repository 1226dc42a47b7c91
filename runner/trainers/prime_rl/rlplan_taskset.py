"""The problems of a trial as a taskset of verifiers, scored by rlplan's reward.

A copy lies in the trial's folder, where prime-rl's processes import it; `split` says which of the problems it has.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import verifiers.v1 as vf

FOLDER = Path(__file__).absolute().parent
sys.path.insert(0, str(FOLDER / "parts"))

from runner.trainers.trial_reward import Judge, judge_in  # noqa: E402

__all__ = ["RlplanTaskset"]


def judge() -> Judge:
    """Return the judge of this trial."""
    return judge_in(str(FOLDER))


class RlplanConfig(vf.TasksetConfig):
    """Which problems, and the seed of their order."""

    split: Literal["train", "validation"] = "train"
    seed: int = 0


class RlplanData(vf.TaskData):
    """A problem by its place in the trial's file."""

    number: int


class RlplanTask(vf.Task[RlplanData, vf.State, vf.TaskConfig]):
    """A prompt, and what its answer is worth."""

    @vf.reward
    async def rlplan(self, task: RlplanData, trace: Any) -> float:
        """Return what is trained on, or in a validation the plain score."""
        score = await judge().awaited(task.number, trace.last_reply)
        return judge().worth(task.number, score, trace.num_output_tokens)


class RlplanTaskset(vf.Taskset[RlplanTask, RlplanConfig]):
    """The training problems in the order of the trial's seed, or those to validate on."""

    def load(self) -> Iterator[RlplanTask]:
        """Yield them."""
        scorer, many = judge(), judge().train_problems
        train = self.config.split == "train"
        numbers = list(range(many) if train else range(many, len(scorer.problems)))
        if train:
            random.Random(self.config.seed).shuffle(numbers)
        for number in numbers:
            prompt: Any = scorer.problems[number].prompt
            messages = prompt if isinstance(prompt, str) else [dict(message) for message in prompt]
            data = RlplanData(number=number, prompt=messages)
            yield RlplanTask(data, self.config.task)
