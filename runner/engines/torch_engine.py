"""Rollouts from a transformers model in this process: no server and no second copy of the weights, unless wanted."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from budgets.errors import InputError
from runner.engines.torch_decode import Decoding, DecodingParts, Forcing
from runner.engines.torch_sampling import Noise, Traits, Written, gathered, waves
from runner.policy.model import Head, decoder_of
from runner.ports.engine import Rollouts, Sampling, Weights, require_sound

if TYPE_CHECKING:
    from torch import Tensor, nn

_CPU_CACHE_BYTES = 2 * 2**30
_DEVICE_CACHE_SHARE = 0.25  # of all its memory and not of the free one: rounding must not change with what else runs


class TorchEngine:
    """A `RolloutEngine` over any decoder-only transformers model; see runner.ports.engine for its methods.

    By default it samples from the model that it is given: a trainer's updates are in effect from the next `generate`
    on, and `load_weights` with the model's own tensors copies nothing.
    """

    def __init__(
        self,
        model: "nn.Module",
        *,
        end_id: int,
        pad_id: int,
        fp32_head: bool = True,
        weights: str | None = None,
        max_rows: int | None = None,
        compact_at: float = 0.125,
    ) -> None:
        """Prepare a causal language model for sampling; the token at padding may be the end token.

        With `weights`, such as "bfloat16", it samples from a copy in that format, which changes by `load_weights`
        alone. `max_rows` are decoded at the same time, by default as many as the memory for keys and values allows;
        `compact_at` is the share of finished rows at which they are dropped from the batch (above 1: never).
        """
        self._model: Any = model
        if weights is not None:
            import torch

            self._model = copy.deepcopy(model).requires_grad_(False)
            for parameter in self._model.parameters():  # not buffers: rotary frequencies in bf16 would be wrong
                parameter.data = parameter.data.to(getattr(torch, weights))
        self._traits = Traits.of(self._model)
        self._end_id, self._pad_id = end_id, pad_id
        self._fp32_head, self._max_rows, self._compact_at = fp32_head, max_rows, compact_at

    def generate(self, prompts: Sequence[Sequence[int]], per_prompt: int, sampling: Sampling, seed: int) -> Rollouts:
        """Return `per_prompt` responses to each prompt; equal on the same number of threads.

        Rows whose log-probabilities are not finite (weights that have diverged) are returned as they are.
        """
        import torch

        model = self._open()
        require_sound(prompts, sampling.max_tokens, self._traits.longest)
        form = DecodingParts(
            decoder_of(model), self._traits, model.device, self._end_id, self._pad_id, self._compact_at
        )
        count, cut, forcing = len(prompts) * per_prompt, sampling.interruption, None
        noise, places = Noise(seed, count, model.device), cut.places(seed, count) if cut else None
        written: list[Written] = []
        # Inference mode would leave tensors in the shared model that autograd refuses.
        with _evaluating(model), torch.no_grad():
            head = self._head(model)
            for wave in waves(prompts, per_prompt, self._rows_at_once(prompts, sampling.max_tokens)):
                if cut is not None and places is not None:
                    forcing = Forcing(cut, torch.from_numpy(places[wave.rows]).to(model.device))
                decoding, going = Decoding(wave, sampling.max_tokens, form, forcing), True
                while going and decoding.steps < sampling.max_tokens:
                    going = decoding.write_token(head, sampling.temperature, noise)
                written.append(decoding.written())
        return gathered(prompts, per_prompt, written, self._end_id, self._pad_id)

    def _head(self, model: Any) -> Head:
        """Return the head; where it computes in another format than its weights', they are converted once."""
        layer = model.get_output_embeddings()
        if self._fp32_head and layer.weight.dtype.itemsize < 4:
            bias = getattr(layer, "bias", None)
            bias = None if bias is None else bias.float()
            converted = SimpleNamespace(weight=layer.weight.detach().float(), bias=bias)
            model = SimpleNamespace(config=model.config, get_output_embeddings=lambda: converted)
        return Head(cast("nn.Module", model), fp32=self._fp32_head)

    def _rows_at_once(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> int:
        import torch

        if self._max_rows is not None:
            return self._max_rows
        device = self._open().device
        limit = _CPU_CACHE_BYTES
        if device.type == "cuda":
            limit = int(_DEVICE_CACHE_SHARE * torch.cuda.get_device_properties(device).total_memory)
        width = max(map(len, prompts), default=0) + max_tokens
        return max(1, limit // (self._traits.bytes_per_token * width))

    def load_weights(self, weights: Weights) -> None:
        """Copy weights in place, converted to the model's format; tensors that are the model's own stay as they are."""
        import torch

        targets: dict[str, Tensor] = self._open().state_dict()
        with torch.no_grad():
            for name, tensor in weights:
                target = targets[name]
                if tensor.data_ptr() != target.data_ptr() or tensor.dtype != target.dtype:
                    target.copy_(tensor)

    def close(self) -> None:
        """Let go of the model."""
        self._model = None

    def _open(self) -> Any:
        if self._model is None:
            raise InputError("this rollout engine is closed: make a new one")
        return self._model


@contextmanager
def _evaluating(model: "nn.Module") -> Iterator[None]:
    """Switch dropout and gradient checkpointing off for a while."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
