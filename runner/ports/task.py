"""What a task is: problems to train on, fixed problems to validate on, and a reward that can be verified."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Ids = list[int]
Messages = tuple[dict[str, str], ...]  # of a chat: each has a role and a content
Prompt = str | Messages
_OUT_OF_RANGE = "out-of-range"
CALLS, DOLLARS = "reward_calls", "reward_dollars"  # of a judge that is asked by HTTP
SPENT = (CALLS, DOLLARS)  # metrics that add up
CHARGED = ("prefill_tokens", "sample_tokens", "train_tokens", "service_dollars")  # by a service that trains
FAILED_SHARE = "failed_reward_share"  # metric of a point: of the rewards that were asked for


def turns_of(prompt: Prompt) -> list[dict[str, str]]:
    """Return a prompt as the turns of a chat, of which a text is the user's only one."""
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)


@dataclass(frozen=True, slots=True)
class Problem:
    """One prompt with what its reward needs to know; the id is stable across runs."""

    id: str
    prompt: Prompt
    answer: str
    extra: dict[str, Any] | None = None  # the other fields of a user's JSONL line, for a reward of their own

    @property
    def row(self) -> dict[str, Any]:
        """The fields of its line, as a user's function sees them."""
        return {**(self.extra or {}), "id": self.id, "prompt": self.prompt, "answer": self.answer}


class Tokenizer(Protocol):
    """Text to tokens and back, for one model."""

    end_id: int
    pad_id: int

    def encode_prompt(self, prompt: Prompt) -> Ids:
        """Return the tokens of a prompt, with the chat template applied where the model has one."""

    def encode(self, text: str) -> Ids:
        """Return the tokens of a piece of text, and nothing around them."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a response, without special tokens."""


class Reward(Protocol):
    """Scores responses: 1 is right, 0 is wrong, partial credit lies between."""

    def score(self, problems: Sequence[Problem], responses: Sequence[str]) -> "Scores":
        """Return one score for each response; never raises for what a response or a user's function does.

        TrainingError where none can be had, as where no process can be started for it.
        """

    def close(self) -> None:
        """Stop any process behind it."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores in the order of the responses, and how many could not be had as they were, by kind.

    The kinds are raised, timed-out, died, not-finite and out-of-range.
    """

    values: list[float]
    failures: dict[str, int]
    notes: tuple[str, ...] = ()  # the first failure of each kind, in words
    metrics: Sequence[Mapping[str, float]] = ()  # what else was said of each response; empty where nothing was

    @property
    def failed(self) -> int:
        """How many stand for no judgement; one that was out of range was brought into it."""
        return sum(count for kind, count in self.failures.items() if kind != _OUT_OF_RANGE)

    @property
    def reason(self) -> str:
        """The first failure of them, in words."""
        return next((note for note in self.notes if f": {_OUT_OF_RANGE}: " not in note), "")


def spent_in(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return those of the metrics that add up."""
    return {name: metrics[name] for name in SPENT if name in metrics}


def summed(metrics: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over the responses that have it, as reward/NAME; what was spent is added up."""
    by_name: dict[str, list[float]] = {}
    for name, value in (pair for row in metrics for pair in row.items()):
        by_name.setdefault(name, []).append(value)
    means = {f"reward/{name}": sum(values) / len(values) for name, values in by_name.items() if name not in SPENT}
    return means | spent_in({name: sum(values) for name, values in by_name.items()})


@dataclass(frozen=True, slots=True)
class Closing:
    """How a response is scored that a closing phrase has interrupted."""

    alone: bool = True  # the reward sees what follows the phrase; a user's function sees the whole response
    answer: Callable[[str], str] = str  # the right answer there, from a problem's own


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A task ready to be trained on."""

    name: str
    train: Sequence[Problem]
    validation: Sequence[Problem]
    tokenizer: Tokenizer
    reward: Reward
    model_path: str  # a Hugging Face checkpoint: a folder, from the root, or its name on the hub
    max_prompt_tokens: int  # of the longest prompt
    max_response_tokens: int
    base_pass_rates: Sequence[float] | None = None  # of `train`, measured by avg@16 with the base model
    closing: Closing | None = None  # None: nothing closes a response of this task, and none is interrupted
    chat_template: str | None = None  # in place of the model's own
    left_out: tuple[str, ...] = ()  # what of its problems is not asked, a sentence for each reason
