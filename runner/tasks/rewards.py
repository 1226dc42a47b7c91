"""Rewards of a user's own tasks: exact text, mathematics, or a Python function, none of which can hurt the run.

Mathematics and functions run in one process of their own that is started when it is needed. A response on which it
hangs or dies gets the score of a failure, and a new process goes on with the rest. Where none can be started nothing is
scored: a run must not learn from, nor be judged by, what the machine could not do.
"""

import os
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgets.errors import InputError, TrainingError, suggest
from runner.ports.task import Problem, Reward, Scores
from runner.tasks.reward_child import ChildLost, JudgedResponse, Order, RewardChild

if TYPE_CHECKING:
    from runner.ports.trial import TaskChoice

EXACT, MATH = "exact", "math"
_MATH_FUNCTION = "runner.tasks.math_answers:score"
_MATH_MEMORY_BYTES = 4 << 30  # 9^{9^{9^9}} would otherwise take all there is
_CHUNK = 64  # responses handed over at once
MOST_FAILED = 0.01  # of the rewards of an update or a validation; a single one is always allowed


class ExactReward:
    """1 where response and answer are the same text, else 0."""

    def __init__(self, *, strip: bool = True) -> None:
        """Compare without surrounding white space, unless `strip` is off and every character counts."""
        self._strip = strip

    def score(self, problems: Sequence[Problem], responses: Sequence[str]) -> Scores:
        """Return one score for each response."""
        pairs = zip(problems, responses, strict=True)
        if self._strip:
            values = [float(response.strip() == problem.answer.strip()) for problem, response in pairs]
        else:
            values = [float(response == problem.answer) for problem, response in pairs]
        return Scores(values, {})

    def close(self) -> None:
        """There is nothing to stop."""


def require_judged(failed: int, of: int, reason: str) -> None:
    """Raise TrainingError where so many rewards failed that the scores say little of the responses."""
    if failed > max(1.0, MOST_FAILED * of):
        raise TrainingError(
            "reward",
            f"{failed} of {of} rewards failed, at most {MOST_FAILED:.0%} may: {reason}. Have the reward return a "
            "number for every response (0 for one that it cannot judge), within its time limit",
        )


def make_reward(choice: "TaskChoice", seed: int = 0) -> Reward:
    """Return the reward that a task asks for, with its function loaded; InputError says why it cannot be."""
    if not 0 <= choice.failed_reward <= 1:
        raise InputError(f"failed_reward = {choice.failed_reward:g}: it is a score, between 0 (wrong) and 1 (right)")
    if choice.reward == EXACT:
        return ExactReward()
    limit = choice.reward_seconds
    if choice.reward == MATH:
        reward = ProcessReward(_MATH_FUNCTION, limit, choice.failed_reward, seed, memory_bytes=_MATH_MEMORY_BYTES)
    else:
        reward = ProcessReward(reference(choice.reward), limit, choice.failed_reward, seed)
    reward.start()
    return reward


class ProcessReward:
    """Scores responses by a function in a process of its own; safe to be called from several threads."""

    def __init__(
        self,
        function: str,
        seconds: float,
        failed_score: float = 0.0,
        seed: int = 0,
        *,
        memory_bytes: int | None = None,
    ) -> None:
        """Score by `function`, called as f(problem, response), within `seconds` for each response.

        A failure counts as `failed_score`. The seed is that of Python's `random` in each new process.
        """
        here = os.getcwd()
        path = [place or here for place in sys.path]
        self._order = Order(function, seed, memory_bytes, path if here in path else [*path, here])
        self._seconds = seconds
        self._failed_score = failed_score
        self._child: RewardChild | None = None
        self._loaded = (
            False  # whether the function could be loaded once: then it is not to blame where it no longer can
        )
        self._lock = threading.RLock()

    def start(self) -> None:
        """Start the process unless it runs; InputError says why the function cannot be loaded."""
        self._ready()

    def score(self, problems: Sequence[Problem], responses: Sequence[str]) -> Scores:
        """Return one score for each response, with what failed counted and the first of each kind described.

        TrainingError where no process can be started, which is no response's fault.
        """
        items = [(_as_dict(problem), response) for problem, response in zip(problems, responses, strict=True)]
        answers: list[JudgedResponse] = []
        with self._lock:
            while len(answers) < len(items):
                answers += self._answers(items[len(answers) : len(answers) + _CHUNK])
        values = [self._failed_score if answer.score is None else answer.score for answer in answers]
        failures = Counter(answer.failure for answer in answers if answer.failure)
        notes: dict[str, str] = {}
        for problem, answer in zip(problems, answers, strict=True):
            if answer.failure:
                notes.setdefault(answer.failure, f"problem '{problem.id}': {answer.failure}: {answer.message}")
        return Scores(values, dict(failures), tuple(notes.values()))

    def close(self) -> None:
        """Kill the process, if there is one; scoring again would start a new one."""
        with self._lock:
            if self._child is not None:
                self._child.close()
                self._child = None

    def _ready(self) -> RewardChild:
        with self._lock:
            if self._child is not None and not self._child.idle:
                self.close()  # it died between two batches, for which no response is to blame
            if self._child is None:
                self._child = self._started()
                self._loaded = True
            return self._child

    def _started(self) -> RewardChild:
        """Start a process, again where that fails for what may pass: a slow disk, or no process to be had."""
        try:
            return RewardChild(self._order)
        except (InputError, OSError) as error:
            if isinstance(error, InputError) and not self._loaded:
                raise
        try:
            return RewardChild(self._order)
        except (InputError, OSError) as error:
            raise TrainingError("lost", f"the reward's process could not be started, twice: {error}") from error

    def _answers(self, items: Sequence[tuple[dict[str, Any], str]]) -> list[JudgedResponse]:
        """Return answers to the first of the items: to all, or up to the one on which the process was lost."""
        answers: list[JudgedResponse] = []
        try:
            child = self._ready()
            child.send(items, self._seconds)
            for _ in items:
                answers.append(child.receive(self._seconds))
        except ChildLost as lost:
            answers.append(JudgedResponse(None, lost.kind, str(lost)))
            self.close()
        except BaseException:  # an interrupt: what the process still answers would be taken for the next batch
            self.close()
            raise
        return answers


def reference(given: str) -> str:
    """Check the form of a reference to a function, and make a file's path absolute."""
    place, colon, name = given.rpartition(":")
    if not (place and colon and name):
        hint = suggest(given, (EXACT, MATH))
        raise InputError(
            f"unknown reward '{given}': {hint} A Python function is given as package.module:name or "
            "path/to/file.py:name"
        )
    if not all(part.isidentifier() for part in name.split(".")):
        raise InputError(f"reward '{given}': '{name}' after the colon is no name of a Python function")
    if not place.endswith(".py"):
        return given
    file = Path(place).expanduser().resolve()
    if not file.is_file():
        raise InputError(f"reward '{given}': there is no file {file}")
    return f"{file}:{name}"


def _as_dict(problem: Problem) -> dict[str, Any]:
    """Return a problem as a user's function sees it: the fields of its line."""
    return {**(problem.extra or {}), "id": problem.id, "prompt": problem.prompt, "answer": problem.answer}
