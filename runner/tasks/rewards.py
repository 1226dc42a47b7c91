"""Rewards of a user's own tasks: exact text, mathematics, a Python function, or a judge; none can hurt the run.

Mathematics and functions run in a pool of processes that are started when they are needed. A response on which one of
them hangs or dies gets the score of a failure, and a new process goes on with the rest. Where none can be started, or a
judge cannot be asked, nothing is scored: a run must not learn from, nor be judged by, what the machine could not do.
"""

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgets.errors import InputError, TrainingError, suggest
from planner.percent import percent
from runner.machine import cpu_cores
from runner.ports.task import Problem, Reward, Scores
from runner.tasks.reward_child import ChildLost, JudgedResponse, Order, RewardChild
from runner.tasks.reward_judge import Judge

if TYPE_CHECKING:
    from runner.ports.trial import TaskChoice

Items = Sequence[tuple[dict[str, Any], str]]  # problems, as a reward sees them, with responses
EXACT, MATH = "exact", "math"
HTTP = ("http://", "https://")
_MATH_FUNCTION = "runner.tasks.math_answers:score"
_MATH_MEMORY_BYTES = 4 << 30  # 9^{9^{9^9}} would otherwise take all there is
_TURNS = 4  # chunks for each process, so that all of them end at about the same time
_MOST_PROCESSES = 16
_MOST_CALLS = 256  # at once: what verl's example allows its sandbox, as the price of a judge has it
NOTED = 0.01  # share of failed rewards from which a sweep's notes warn
MOST_FAILED = 0.5  # of the rewards of an update or a validation: beyond, most scores stand for no judgement


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
            f"{failed} of {of} rewards failed, at most {percent(MOST_FAILED)} may: {reason}. Have the reward return a "
            "number for every response (0 for one that it cannot judge), within its time limit",
        )


def scores_of(problems: Sequence[Problem], answers: Sequence[JudgedResponse], failed_score: float) -> Scores:
    """Return what is said of each response put together, with the first failure of each kind."""
    values = [failed_score if answer.score is None else answer.score for answer in answers]
    failures = Counter(answer.failure for answer in answers if answer.failure)
    metrics = [answer.metrics for answer in answers]
    notes: dict[str, str] = {}
    for problem, answer in zip(problems, answers, strict=True):
        if answer.failure:
            notes.setdefault(answer.failure, f"problem '{problem.id}': {answer.failure}: {answer.message}")
    return Scores(values, dict(failures), tuple(notes.values()), metrics if any(metrics) else ())


def make_reward(choice: "TaskChoice", seed: int = 0, sharers: int = 1) -> Reward:
    """Return the reward that a task asks for, with its function loaded; InputError says why it cannot be.

    `sharers` is how many processes of a machine score responses to it at the same time.
    """
    low, high = choice.reward_range
    if choice.reward == EXACT:
        return ExactReward()
    if choice.reward.startswith(HTTP):
        judge = Judge(choice.reward, choice.reward_seconds, choice.reward_retries, choice.reward_dollars, (low, high))
        judge.require_address()
        calls = (choice.reward_parallel or _MOST_CALLS) // max(1, sharers)
        return Pool(lambda items: [judge.judged(*item) for item in items], choice.failed_reward, max(1, calls))
    processes = (choice.reward_parallel or min(_MOST_PROCESSES, cpu_cores() // 4)) // max(1, sharers)
    is_function = choice.reward != MATH
    reward = ProcessReward(
        reference(choice.reward) if is_function else _MATH_FUNCTION,
        choice.reward_seconds,
        choice.failed_reward,
        seed,
        memory_bytes=None if is_function else _MATH_MEMORY_BYTES,
        between=(low, high) if is_function else (0.0, 1.0),
        processes=max(1, processes),
    )
    reward.start()
    return reward


class Pool:
    """Threads that have responses judged, and what is said put together; safe to be called from several threads."""

    _chunk = 1  # responses that a thread takes at once, at most

    def __init__(self, judged: Callable[[Items], list[JudgedResponse]], failed_score: float, threads: int) -> None:
        self._judged, self._failed_score, self._many = judged, failed_score, threads
        self._threads = ThreadPoolExecutor(threads, "reward")

    def score(self, problems: Sequence[Problem], responses: Sequence[str]) -> Scores:
        """Return one score for each response, with what failed counted and the first of each kind described.

        TrainingError where none can be had, which is no response's fault.
        """
        items = [(problem.row, response) for problem, response in zip(problems, responses, strict=True)]
        size = max(1, min(self._chunk, len(items) // (_TURNS * self._many)))
        parts = [items[first : first + size] for first in range(0, len(items), size)]
        waiting = [self._threads.submit(self._judged, part) for part in parts]
        try:
            answers = [answer for part in waiting for answer in part.result()]
        except BaseException:
            for worker in waiting:
                worker.cancel()
            raise
        return scores_of(problems, answers, self._failed_score)

    def close(self) -> None:
        """Stop what is behind it; scoring again starts it anew."""


class ProcessReward(Pool):
    """Scores responses by a function in processes of its own, one for each thread."""

    _chunk = 64  # what is handed over at once costs less

    def __init__(
        self,
        function: str,
        seconds: float,
        failed_score: float = 0.0,
        seed: int = 0,
        *,
        memory_bytes: int | None = None,
        between: tuple[float, float] = (0.0, 1.0),
        processes: int = 1,
    ) -> None:
        """Score by `function`, called as f(problem, response), within `seconds` for each response.

        A failure counts as `failed_score`. The seed is that of Python's `random` in each new process; `between` are the
        numbers that mean a score of 0 and of 1.
        """
        super().__init__(self._by_process, failed_score, processes)
        here = os.getcwd()
        path = [place or here for place in sys.path]
        path = path if here in path else [*path, here]
        self._order = Order(function, seed, memory_bytes, path, between, seconds)
        self._idle: list[RewardChild] = []
        self._busy: set[RewardChild] = set()
        self._loaded = False  # once it was, the function is not to blame where it no longer can be
        self._closings = 0
        self._lock = threading.RLock()

    def start(self) -> None:
        """Start a process unless one runs; InputError says why the function cannot be loaded."""
        self._give_back(self._taken(), self._closings)

    def close(self) -> None:
        """Kill the processes; scoring again starts new ones."""
        with self._lock:
            self._closings += 1
            for child in self._busy:
                child.kill()  # its thread lets go of it
            while self._idle:
                self._idle.pop().close()

    def _by_process(self, items: Items) -> list[JudgedResponse]:
        """Judge by one process after another: that on which one is lost costs its own answer."""
        answers: list[JudgedResponse] = []
        closings = self._closings
        while len(answers) < len(items):
            if closings != self._closings:
                raise TrainingError("lost", "the reward was closed while it judged")
            child = self._taken()
            try:
                child.send(items[len(answers) :])
                while len(answers) < len(items):
                    answers.append(child.receive())
            except ChildLost as lost:
                answers.append(JudgedResponse(None, lost.kind, str(lost)))
                child.close()
            except BaseException:  # what it still answers would be taken for the next batch
                child.close()
                raise
            finally:
                self._give_back(child, closings)
        return answers

    def _taken(self) -> RewardChild:
        """Return a process that waits for work, started where there is none."""
        with self._lock:
            while self._idle and not self._idle[-1].idle:
                self._idle.pop().close()  # it died between two batches, for which no response is to blame
            child = self._idle.pop() if self._idle else None
        child = child or self._started()
        with self._lock:
            self._loaded = True
            self._busy.add(child)
        return child

    def _give_back(self, child: RewardChild, closings: int) -> None:
        with self._lock:
            self._busy.discard(child)
            if closings == self._closings and child.idle:
                self._idle.append(child)
                return
        child.close()

    def _started(self) -> RewardChild:
        """Start a process, again where that fails for what may pass: a slow disk, or no process to be had."""
        for last in (False, True):
            try:
                return RewardChild(self._order)
            except (InputError, OSError) as error:
                if isinstance(error, InputError) and not self._loaded:
                    raise
                if last:
                    raise TrainingError("lost", f"the reward's process could not be started, twice: {error}") from error
        raise AssertionError


def reference(text: str) -> str:
    """Check the form of a reference to a function, and make a file's path absolute."""
    place, colon, name = text.rpartition(":")
    if not (place and colon and name):
        hint = suggest(text, (EXACT, MATH))
        raise InputError(
            f"unknown reward '{text}': {hint} A Python function is given as package.module:name or "
            "path/to/file.py:name, and a judge as https://…"
        )
    if not all(part.isidentifier() for part in name.split(".")):
        raise InputError(f"reward '{text}': '{name}' after the colon is no name of a Python function")
    if not place.endswith(".py"):
        return text
    file = Path(place).expanduser().resolve()
    if not file.is_file():
        raise InputError(f"reward '{text}': there is no file {file}")
    return f"{file}:{name}"
