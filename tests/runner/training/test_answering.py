"""Responses that a closing phrase interrupts: where, what is trained on, and what is scored."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from budgets.errors import InputError, TrainingError
from planner.recipes import load_recipe
from planner.recipes.schema import Interruptions, Recipe
from runner.ports.engine import Interruption
from runner.ports.task import Closing, Problem, Scores, Task
from runner.ports.trial import TrialConfig, ValidationPlan
from runner.tasks.embedded import EMBEDDED, embedded_task
from runner.training.collector import Collector, interruption_of
from runner.training.prompts import PromptStream
from runner.training.trainer import validate
from runner.training.trial import Stopwatch
from tests.runner.tiny import DIGITS, END, Digits, tiny_config, tiny_task
from tests.runner.training.scripted import ScriptedEngine

CLOSED = 12  # no digit: the tests' phrase, which decodes to nothing


class Encoding(Digits):
    def encode(self, text: str) -> list[int]:
        return [int(character) if character.isdigit() else CLOSED for character in text]


class Remembering:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def score(self, problems: list[Problem], responses: list[str]) -> Scores:
        self.asked += [(problem.answer, text) for problem, text in zip(problems, responses, strict=True)]
        return Scores(
            [float(text.startswith(problem.answer)) for problem, text in zip(problems, responses, strict=True)], {}
        )

    def close(self) -> None: ...


def closing(phrase: str = "98", **changes: object) -> Recipe:
    settings = {"earliest": 0.25, "latest": 0.5, "phrase": phrase, "closed_by": "9", **changes}
    return Recipe(name="closing", interruptions=Interruptions.model_validate(settings))


def task_of(response: int = 12, closing: Closing | None = Closing()) -> Task:  # noqa: B008 (it is frozen)
    return replace(tiny_task(response=response), tokenizer=Encoding(), reward=Remembering(), closing=closing)


def config_of(recipe: Recipe) -> TrialConfig:
    return tiny_config(recipe, n=2, B=3)


def interrupted(prompt: list[int], row: int) -> list[int]:
    """Answer rightly after a phrase, or wrongly without one."""
    other = (prompt[0] + 1) % DIGITS
    return [other, other, other, CLOSED, prompt[0], END] if row else [other, END]


def test_shares_of_the_longest_length_become_tokens() -> None:
    assert interruption_of(closing(), task_of(12)) == Interruption((9, 8), 3, 6, (9,))
    assert interruption_of(closing(latest=None), task_of(10)) == Interruption((9, 8), 3, 3, (9,))
    study = load_recipe("scalerl").interruptions
    long = interruption_of(closing(earliest=study.earliest, latest=study.latest), task_of(14_336))
    assert long is not None
    assert (long.earliest, long.latest) == (10_000, 12_000)


def test_of_the_embedded_tasks_the_one_with_steps_is_interrupted() -> None:
    tasks = {name: embedded_task(name) for name in EMBEDDED}
    scalerl = {name: interruption_of(load_recipe("scalerl"), task) for name, task in tasks.items()}
    assert {name for name, found in scalerl.items() if found} == {"sum-steps"}
    found, task = scalerl["sum-steps"], tasks["sum-steps"]
    assert interruption_of(load_recipe("grpo"), task) is None
    assert found is not None
    assert found.phrase == found.closed_by == tuple(task.tokenizer.encode(";="))
    longest = max(len(task.tokenizer.encode(problem.answer.rpartition("=")[2])) for problem in task.train)
    assert found.latest + len(found.phrase) + longest + 1 <= task.max_response_tokens, "a sum and its end have room"


def test_a_phrase_that_leaves_no_room_says_how_much_it_needs() -> None:
    with pytest.raises(
        InputError, match=r"at most 6 tokens after 2 to 3, with a phrase of 4 .* at least 12 tokens"
    ) as told:
        interruption_of(closing("9876"), task_of(6))
    assert "interruptions.earliest = 'none'" in str(told.value)
    assert interruption_of(closing("9876"), task_of(12)) is not None
    with pytest.raises(InputError, match="has the end token of the model"):
        interruption_of(closing("9876"), replace(task_of(), tokenizer=Ending()))


class Ending(Encoding):
    end_id = 8


def test_forced_tokens_are_outside_of_the_loss_and_the_answer_after_them_within() -> None:
    recipe, task = closing("c", closed_by="c"), task_of()
    stream = PromptStream(len(task.train), seed=0)
    (batch,) = Collector(config_of(recipe), task, ScriptedEngine(interrupted), stream).collect(0, Stopwatch())
    assert batch.measured["interrupted_share"] == 0.5
    assert batch.measured["pass_rate"] == 0.5
    long = torch.arange(batch.rows) % 2 == 1
    assert torch.equal(batch.loss_mask[~long], batch.mask[~long])
    assert batch.loss_mask[long].tolist() == [[True, True, True, False, True, True]] * int(long.sum())
    assert batch.mask[long].all()
    plain = Collector(config_of(Recipe(name="r")), task, ScriptedEngine(interrupted), stream)
    assert "interrupted_share" not in plain.collect(0, Stopwatch())[0].measured


@pytest.mark.parametrize(
    ("closing_", "expected"),
    [
        (Closing(), [("6", "7"), ("6", "6")]),
        (Closing(answer=lambda answer: answer + "!"), [("6", "7"), ("6!", "6")]),
        (Closing(alone=False), [("6", "7"), ("6", "7776")]),
    ],
    ids=["alone", "another-answer", "whole"],
)
def test_the_reward_sees_what_follows_the_phrase_but_a_users_function_all_of_it(
    closing_: Closing, expected: list[tuple[str, str]]
) -> None:
    task = task_of(closing=closing_)
    plan = ValidationPlan(problems=1, samples=2, every_rollouts=1)
    validate(ScriptedEngine(interrupted), task, plan, 0, 0, Interruption((CLOSED,), 3, 3))
    assert task.reward.asked == expected


@pytest.mark.parametrize("kinds", [{"timed-out": 3}, {"raised": 4}, {"out-of-range": 6}])
def test_an_update_most_of_whose_rewards_failed_is_not_trained_on(kinds: dict[str, int]) -> None:
    class Failing(Remembering):
        def score(self, problems: list[Problem], responses: list[str]) -> Scores:
            notes = tuple(f"problem 'p': {kind}: it hurts" for kind in kinds)
            return replace(super().score(problems, responses), failures=kinds, notes=notes)

    task = replace(task_of(), reward=Failing())
    collector = Collector(
        config_of(closing()), task, ScriptedEngine(interrupted), PromptStream(len(task.train), seed=0)
    )
    refused = pytest.raises(TrainingError, match=r"4 of 6 rewards failed, .*: problem 'p': raised: it hurts")
    with refused if "raised" in kinds else nullcontext():
        (batch,) = collector.collect(0, Stopwatch())
        assert batch.measured["failed_reward_share"] == (0.5 if "timed-out" in kinds else 0.0)
