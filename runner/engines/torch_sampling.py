"""What the torch engine samples by: a model's traits, waves of rows, and the draw of a token from logits.

A token is drawn by inverting the cumulative distribution at one uniform number, which belongs to (seed, row, step). A
Gumbel or exponential race needs a number for every entry of the vocabulary instead; for the noise of a row not to
depend on which other rows are still in the batch, those would have to be drawn for finished rows as well. One number a
row costs the same at any vocabulary. Waves are the rows that are decoded at the same time.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from budgets.errors import InputError
from runner.policy.model import cache_argument, decoder_of
from runner.ports.engine import Rollouts

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}
_REMEDY = "use the vLLM engine for it"
Prompts = Sequence[Sequence[int]]
_STEPS_AT_ONCE = 32
_BELOW_ONE = 1 - 1e-15  # a product of this and a sum is less than the sum in float64


@dataclass(frozen=True, slots=True)
class Traits:
    """What of a model changes how it is decoded."""

    longest: int | None  # prompt and response; None: no limit is stated
    window: int | None  # keys that the narrowest layer sees; None: all
    bytes_per_token: int  # of keys and values in all layers
    takes_positions: bool
    cache_argument: str
    mask: "torch.dtype | None"  # format of a mask that attention takes as it is; None: the model must make its own

    @classmethod
    def of(cls, model: "nn.Module") -> "Traits":
        """Read a model's traits; InputError says why it cannot be decoded here."""
        config = _decodable(model)
        parameters = inspect.signature(decoder_of(model).forward).parameters
        layers = getattr(config, "layer_types", None)
        widths = [
            getattr(config, key, None)
            for key, kind in (("sliding_window", "sliding_attention"), ("attention_chunk_size", "chunked_attention"))
            if layers is None or kind in layers
        ]
        heads: int = config.num_attention_heads
        kv_heads: int = getattr(config, "num_key_value_heads", None) or heads
        size: int = getattr(config, "head_dim", None) or config.hidden_size // heads
        takes_positions = "position_ids" in parameters
        return cls(
            longest=getattr(config, "max_position_embeddings", None),
            window=min((width for width in widths if width is not None), default=None),
            bytes_per_token=2 * config.num_hidden_layers * kv_heads * size * int(cast(Any, model).dtype.itemsize),
            takes_positions=takes_positions,
            cache_argument=cache_argument(decoder_of(model)),
            mask=_mask_format(model) if takes_positions else None,
        )


def _decodable(model: Any) -> Any:
    """Return the configuration of the language model inside, refusing what keeps more than keys and values."""
    name, config = type(model).__name__, model.config.get_text_config()
    others = sorted(set(getattr(config, "layer_types", None) or ()) - _LAYERS)
    if others or getattr(model, "_is_stateful", False):
        kinds = ", ".join(others) or "a recurrent state"
        raise InputError(f"{name} has {kinds}: the torch engine decodes attention layers only ({_REMEDY})")
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(f"{name} is an encoder-decoder: the torch engine decodes decoder-only models")
    if getattr(config, "num_kv_shared_layers", 0):
        raise InputError(f"{name} shares keys and values between layers, which the torch engine cannot ({_REMEDY})")
    return config


def _mask_format(model: Any) -> "torch.dtype | None":
    """Return the format of a ready four-dimensional mask, which spares the model making one for every token."""
    import torch

    if not getattr(model, "_supports_attention_backend", False):
        return None
    formats: dict[str, torch.dtype] = {"sdpa": torch.bool, "eager": model.dtype}
    return formats.get(model.config.get_text_config()._attn_implementation)


@dataclass(frozen=True, slots=True)
class Wave:
    """Some rows of a request, and the distinct prompts that they begin with."""

    rows: list[int]  # rising
    prompts: list[tuple[int, ...]]  # distinct
    source: list[int]  # for each row, which of `prompts`

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return max(map(len, self.prompts))

    def padded(self, pad_id: int) -> tuple["Tensor", "Tensor"]:
        """Return the prompts padded on the left, and a mask that is True where there is a token."""
        import torch

        width = self.longest
        tokens = torch.tensor([[pad_id] * (width - len(prompt)) + list(prompt) for prompt in self.prompts])
        lengths = torch.tensor([len(prompt) for prompt in self.prompts])
        return tokens, torch.arange(width) >= (width - lengths).unsqueeze(1)


@dataclass(frozen=True, slots=True)
class Written:
    """What a wave wrote at each step; after a row's end token follows anything."""

    rows: list[int]
    tokens: "Tensor"  # (rows, steps)
    forced: "Tensor"
    logprobs: "Tensor"


def waves(prompts: Prompts, per_prompt: int, max_rows: int) -> Iterator[Wave]:
    """Split a request into waves of at most `max_rows`, the longest prompts first: memory runs out at once or never."""
    order = sorted(range(len(prompts)), key=lambda number: -len(prompts[number]))
    rows = [number * per_prompt + sample for number in order for sample in range(per_prompt)]
    for begin in range(0, len(rows), max_rows):
        chosen = sorted(rows[begin : begin + max_rows])
        numbers: dict[tuple[int, ...], int] = {}
        source = [numbers.setdefault(tuple(prompts[row // per_prompt]), len(numbers)) for row in chosen]
        yield Wave(chosen, list(numbers), source)


def gathered(prompts: Prompts, per_prompt: int, written: Sequence[Written], end_id: int, pad_id: int) -> Rollouts:
    """Put the waves' rows in the request's order, and blank what follows an end token."""
    import torch

    count, steps = len(prompts) * per_prompt, max((wave.tokens.shape[1] for wave in written), default=0)
    tokens = torch.full((count, steps), pad_id)
    mask = torch.zeros((count, steps), dtype=torch.bool)
    forced = torch.zeros((count, steps), dtype=torch.bool)
    logprobs = torch.zeros((count, steps))
    truncated = torch.zeros(count, dtype=torch.bool)
    for wave in written:
        rows, length = torch.tensor(wave.rows), wave.tokens.shape[1]
        ended = wave.tokens == end_id
        present = ended.cumsum(dim=1) - ended.long() == 0
        mask[rows, :length] = present
        tokens[rows, :length] = wave.tokens.where(present, pad_id)
        forced[rows, :length] = wave.forced & present
        logprobs[rows, :length] = wave.logprobs.where(present, 0.0)
        truncated[rows] = ~ended.any(dim=1)
    longest = int(mask.sum(dim=1).max()) if count else 0
    tokens, mask, forced, logprobs = (table[:, :longest] for table in (tokens, mask, forced, logprobs))
    return Rollouts(prompts, per_prompt, tokens, mask, forced, logprobs, truncated)


class Noise:
    """Uniform numbers in [0, 1) that depend on the seed, the row and the step, and on nothing else.

    Philox is a counter-based generator (Salmon et al., 2011): keyed by seed and block of steps it needs no state, so
    waves of rows can be decoded in any order.
    """

    def __init__(self, seed: int, rows: int, device: "torch.device") -> None:
        self._seed = seed % 2**64
        self._rows = rows
        self._device = device
        self._number = -1
        self._block: Tensor | None = None

    def at(self, step: int) -> "Tensor":
        """Return the numbers of all rows at a step, in float64."""
        import torch

        number, within = divmod(step, _STEPS_AT_ONCE)
        if self._block is None or number != self._number:
            key = np.array([self._seed, number], dtype=np.uint64)
            drawn = np.random.Generator(np.random.Philox(key=key)).random((_STEPS_AT_ONCE, self._rows))
            self._block, self._number = torch.from_numpy(drawn).to(self._device), number
        return self._block[within]


def draw(logits: "Tensor", temperature: float, uniform: "Tensor") -> tuple["Tensor", "Tensor"]:
    """Return a token for each row of FP32 logits, and its log-probability at that temperature.

    At temperature 0 it is the likeliest token, with its log-probability at temperature 1.
    """
    import torch

    if temperature == 0:
        chosen, tokens = logits.max(dim=-1)
        return tokens, chosen - logits.logsumexp(dim=-1)
    if temperature != 1:
        logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperature  # a tiny temperature must not give ∞ − ∞
    probabilities = torch.softmax(logits, dim=-1)
    tokens = invert(probabilities, uniform.unsqueeze(1))
    return tokens.squeeze(1), probabilities.gather(1, tokens).log().squeeze(1)


def invert(probabilities: "Tensor", uniform: "Tensor") -> "Tensor":
    """Return the first entry of each row whose cumulative probability passes the row's uniform number; both (rows, 1).

    In two levels, first the block of entries and then the entry in it: one cumulative sum over the whole vocabulary is
    ten to a hundred times slower. An entry of probability zero is never returned.
    """
    import torch

    rows, entries = probabilities.shape
    block = 1 << (entries.bit_length() // 2)
    if entries % block:
        probabilities = torch.nn.functional.pad(probabilities, (0, block - entries % block))
    blocks = probabilities.view(rows, -1, block)
    outer = blocks.sum(dim=-1).double().cumsum(dim=-1)
    target = uniform.clamp(max=_BELOW_ONE) * outer[:, -1:]
    number = torch.searchsorted(outer, target, right=True).clamp_(max=outer.shape[1] - 1)
    inner = blocks.gather(1, number.unsqueeze(2).expand(rows, 1, block)).squeeze(1).double()
    whole = inner.sum(dim=-1, keepdim=True)
    share = (1 - (outer.gather(1, number) - target) / whole).clamp_(0, _BELOW_ONE)
    inner = inner.cumsum(dim=-1)
    within = torch.searchsorted(inner, share * inner[:, -1:], right=True).clamp_(max=block - 1)
    return (number * block + within).clamp_(max=entries - 1)
