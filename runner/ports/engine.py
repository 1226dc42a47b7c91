"""The port behind which responses are generated; tests/conformance holds every engine to this text."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from runner.ports.rollouts import Rollouts, Sampling

if TYPE_CHECKING:
    from torch import Tensor

Weights = Iterable[tuple[str, "Tensor"]]


class RolloutEngine(Protocol):
    """Generates responses with weights that can be replaced at any time."""

    @property
    def version(self) -> int:
        """Version of the weights in use; 0 until the first `load_weights`."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        per_prompt: int,
        sampling: Sampling,
        seed: int,
        between_tokens: Callable[[], None] | None = None,
    ) -> Rollouts:
        """Return `per_prompt` responses to each prompt; the same seed, prompts and weights give the same rollouts.

        With an interruption, each row that has neither ended nor closed by itself after its place takes the closing
        phrase, token by token, and goes on from there; `Rollouts.forced` says where.

        `between_tokens` is called between decoding steps and may call `load_weights`: sequences under way then go on
        with the keys and values that they have (in-flight updates of PipelineRL), and `Rollouts.versions` says which
        token came from which weights.
        """

    def load_weights(self, weights: Weights, version: int) -> None:
        """Use these weights, named as in the model's state dictionary, from the next token on."""

    def close(self) -> None:
        """Free what the engine holds; it cannot be used any more. Closing twice is allowed."""
