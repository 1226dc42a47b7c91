"""How a token is drawn from logits: noise that belongs to (seed, row, step), and the draw itself.

A token is drawn by inverting the cumulative distribution at one uniform number. A Gumbel or exponential race needs a
number for every entry of the vocabulary instead; for the noise of a row not to depend on which other rows are still in
the batch, those would have to be drawn for finished rows as well. One number a row costs the same at any vocabulary.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_STEPS_AT_ONCE = 32
_BELOW_ONE = 1 - 1e-15  # a product of this and a sum is less than the sum in float64


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
