"""rlplan's reward in the interpreter of a named trainer, from the files of launch.py; no torch is needed.

An adapter beside the trial's `parts` puts that folder first in sys.path, and asks `judge_in` for its folder's judge.
"""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from budgets.errors import TrainingError
from runner.ports.task import Problem, Scores, spent_in
from runner.tasks.reward_child import JudgedResponse
from runner.tasks.reward_process import answer_of, described
from runner.tasks.rewards import ExactReward, make_reward, scores_of

REPORTS = "reward-reports"  # a folder in the trial's: a file for each process whose rewards say more than scores
_MOST_WAITING = 256  # responses of one process whose scores are waited for at once


class Judge:
    """Scores the responses to a trial's problems, which are named by their place in its file."""

    def __init__(self, folder: Path) -> None:
        """Load the reward; what it cannot load it says as the trial's check does."""
        lines = (folder / "problems.jsonl").read_text(encoding="utf-8").splitlines()
        self.problems = [Problem(**json.loads(line)) for line in lines]
        settings: dict[str, Any] = json.loads((folder / "reward.json").read_text(encoding="utf-8"))
        self.train_problems: int = settings["train_problems"]
        self._shaping, self._longest = settings["shaping"], settings["longest"]
        sys.path += [path for path in settings["paths"] if path not in sys.path]
        choice: Any = SimpleNamespace(**settings["reward"])
        self._range, self._failed_score = choice.reward_range, choice.failed_reward
        self._reports = folder / REPORTS / f"{socket.gethostname()}-{os.getpid()}.jsonl"
        seed, sharers = settings["seed"], settings["sharers"]
        self._reward = ExactReward(strip=False) if choice.embedded else make_reward(choice, seed, sharers)
        self._waiting = ThreadPoolExecutor(_MOST_WAITING, "scoring")

    def scores(self, numbers: Sequence[int], responses: Sequence[str]) -> list[float]:
        """Return the plain score of each response, 0 to 1, and report to rlplan what else was said, and what failed."""
        try:
            scored = self._reward.score([self.problems[number] for number in numbers], responses)
        except TrainingError as error:
            self._report(kind=error.kind, reason=str(error))
            raise
        return self._counted(numbers, scored)

    def earned(self, numbers: Sequence[int], rewards: Sequence[Any]) -> list[float]:
        """Return the plain scores that the rewards of environments mean, and report likewise; some may be errors."""
        answers = [
            (None, "raised", described(reward), {})
            if isinstance(reward, Exception)
            else answer_of(reward, *self._range)
            for reward in rewards
        ]
        problems = [self.problems[number] for number in numbers]
        judged = [JudgedResponse(*answer) for answer in answers]
        return self._counted(numbers, scores_of(problems, judged, self._failed_score))

    def _counted(self, numbers: Sequence[int], scored: Scores) -> list[float]:
        validating = [number >= self.train_problems for number in numbers]
        pairs = zip(validating, scored.metrics, strict=True) if scored.metrics else ()
        metrics = [spent_in(metrics_of_one) if validates else metrics_of_one for validates, metrics_of_one in pairs]
        if scored.failed or any(metrics):
            self._report(failed=scored.failed, reason=scored.reason, metrics=metrics)
        for note in scored.notes:
            print(f"reward: {note}", flush=True)  # noqa: T201  (the trainer's log is where it is looked for)
        return scored.values

    async def awaited(self, number: int, response: str) -> float:
        """Return the plain score of one response, while the caller's event loop goes on."""
        loop = asyncio.get_running_loop()
        return (await loop.run_in_executor(self._waiting, self.scores, [number], [response]))[0]

    def _report(self, **fields: Any) -> None:
        self._reports.parent.mkdir(exist_ok=True)
        with self._reports.open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")

    def shaped(self, score: float, tokens: int | None = None) -> float:
        """Return what is trained on: the score between wrong and correct, less DAPO's penalty for a long response."""
        shaping = self._shaping
        reward = shaping["wrong"] + (shaping["correct"] - shaping["wrong"]) * score
        cache_tokens = shaping["overlong_share"] * self._longest
        if not cache_tokens or tokens is None:
            return float(reward)
        return float(reward + min(0.0, max(-1.0, (self._longest - cache_tokens - tokens) / cache_tokens)))

    def worth(self, number: int, score: float, tokens: int | None = None) -> float:
        """Return what is trained on, or of a problem to validate on the plain score."""
        return self.shaped(score, tokens) if number < self.train_problems else score


@cache
def judge_in(folder: str) -> Judge:
    """Return the judge of a trial's folder, one for each process."""
    return Judge(Path(folder))
