"""Rollouts of several turns: TRL's own loop of tools plays them, and in a validation as in the training.

It runs in TRL's environment, in every process of the trial.
"""

import asyncio
import copy
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from trl import GRPOTrainer

from runner.tasks.reward_process import described, load

_OF_A_BATCH = ("environments", "_batch_environments", "_sync_tool_dicts", "_async_tool_dicts")  # what TRL plays with


class Rollouts(NamedTuple):
    """What TRL has generated in one go."""

    ids: list[list[int]]  # of each, all but its prompt
    own: list[list[int]] | None  # 1 where the model wrote the token, 0 where a tool did; None: all are the model's
    environments: list[Any] | None

    def lengths(self) -> list[int]:
        """Return how many tokens of each are the model's."""
        return [sum(marks) for marks in self.own] if self.own is not None else [len(ids) for ids in self.ids]

    def last_turns(self) -> list[list[int]]:
        """Return what the model wrote last in each; nothing where a tool did."""
        if self.own is None:
            return self.ids
        starts = [max((place + 1 for place, is_own in enumerate(marks) if not is_own), default=0) for marks in self.own]
        return [ids[start:] for ids, start in zip(self.ids, starts, strict=True)]


class Player(GRPOTrainer):
    """GRPOTrainer that keeps what it has generated last, and generates for validations too."""

    rollouts: Rollouts

    def __init__(self, reward_funcs: list[Callable[..., Any]], **arguments: Any) -> None:
        count = len(reward_funcs)
        self._validates = False
        super().__init__(reward_funcs=reward_funcs, **arguments)
        # TRL adds that of an environment, which `earned` asks for: it is counted and shaped as every reward is.
        for functions in (self.reward_funcs, self.reward_func_names, self.reward_processing_classes):
            del functions[count:]
        self.reward_weights: Any = self.reward_weights[:count]
        self.num_generations_eval = 1  # a validation repeats its rows itself

    def answer(self, rows: list[dict[str, Any]]) -> None:
        """Have `rollouts` answer rows of a validation, one each; metrics and what else is of a batch stay."""
        batch = {name: getattr(self, name) for name in _OF_A_BATCH if hasattr(self, name)}
        training = self.model.training
        self.model.eval()
        self._validates = True
        try:
            super()._generate_and_score_completions(rows)
        except _AnsweredError:
            pass
        finally:
            self._validates = False
            self.model.train(training)
            for name, value in batch.items():
                setattr(self, name, value)
            self._metrics["eval"].clear()

    def earned(self) -> list[Any] | None:
        """Return what the environments say that their rollouts are worth, or their errors; None: they say nothing."""
        played = self.rollouts.environments
        if not played or not hasattr(played[0], "get_reward"):
            return None
        if not inspect.iscoroutinefunction(played[0].get_reward):
            return [_outcome(environment.get_reward) for environment in played]

        async def awaited() -> list[Any]:
            return await asyncio.gather(*(environment.get_reward() for environment in played), return_exceptions=True)

        return asyncio.run_coroutine_threadsafe(awaited(), self.async_loop).result()

    def _generate(self, prompts: list[Any]) -> Any:
        made = super()._generate(prompts)
        self.rollouts = Rollouts(made[1], made[2], self.environments)
        if self._validates:
            raise _AnsweredError
        return made


class _AnsweredError(Exception):
    """A validation needs nothing of what TRL would make of its rollouts for an update."""


def load_reference(option: str, reference: str) -> Any:
    """Return a class or function of the user's; ValueError where there is none."""
    try:
        return load(reference)
    except Exception as error:  # a module may raise anything when it is imported
        raise ValueError(
            f"[trainer.options] {option} = '{reference}' cannot be loaded: {described(error)}. Give it as "
            "package.module:name or path/to/file.py:name"
        ) from error


def with_fields(environment: Callable[[], Any], problems: list[Any]) -> Callable[[], Any]:
    """Return what makes an environment whose `reset` gets the fields of its problem, of which TRL has the number."""

    def made() -> Any:
        one = environment()
        reset = getattr(one, "reset", None)
        if reset is not None:  # else TRL says so
            one.reset = lambda number, **_: reset(**copy.deepcopy(problems[number].row))
        return one

    return made


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # of the user's
        return error
