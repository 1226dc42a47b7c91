"""The port behind which responses are generated; tests/conformance holds every engine to this text."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from runner.ports.rollouts import Rollouts, Sampling

if TYPE_CHECKING:
    from torch import Tensor

Weights = Iterable[tuple[str, "Tensor"]]


class RolloutEngine(Protocol):
    """Generates responses with weights that can be replaced."""

    def generate(self, prompts: Sequence[Sequence[int]], per_prompt: int, sampling: Sampling, seed: int) -> Rollouts:
        """Return `per_prompt` responses to each prompt; the same seed, prompts and weights give the same rollouts.

        With an interruption, each row that has neither ended nor closed by itself after its place takes the closing
        phrase, token by token, and goes on from there; `Rollouts.forced` says where.
        """

    def load_weights(self, weights: Weights) -> None:
        """Use these weights, named as in the model's state dictionary, from now on."""

    def close(self) -> None:
        """Free what the engine holds; it cannot be used any more. Closing twice is allowed."""
