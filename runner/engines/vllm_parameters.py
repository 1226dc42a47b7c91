"""What weights must be like to go into a vLLM engine, which a mismatch found half-way would ruin."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from budgets.errors import InputError
from runner.policy.loading import require_checkpoint

if TYPE_CHECKING:
    from torch import Tensor

TIED = "lm_head.weight"  # in a state dictionary also when it is the embedding, which a checkpoint stores once


class Parameters:
    """Names and shapes of a checkpoint's tensors."""

    def __init__(self, model_path: str) -> None:
        from safetensors import safe_open  # noqa: PLC0415

        self._tied = bool(require_checkpoint(model_path).get("tie_word_embeddings"))
        self._shapes: dict[str, tuple[int, ...]] = {}
        for file in Path(model_path).expanduser().glob("*.safetensors"):
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (no mapping)
                    self._shapes[name] = tuple(tensors.get_slice(name).get_shape())

    def check(self, weights: Mapping[str, "Tensor"]) -> None:
        """Raise InputError unless the weights are the model's, whole and of the right shapes."""
        unknown = weights.keys() - self._shapes.keys() - ({TIED} if self._tied else set())
        wrong = [name for name, shape in self._shapes.items() if name in weights and weights[name].shape != shape]
        for what, names in (("lack", self._shapes.keys() - weights.keys()), ("add", unknown), ("reshape", wrong)):
            if names:
                raise InputError(
                    f"the new weights {what} {len(names)} of the model's {len(self._shapes)} parameters, such as "
                    f"'{min(names)}': give the state dictionary of the model that the engine was started with"
                )
