"""The decoding of one wave: a prefill of its distinct prompts, then a token for every row at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.engines.torch_sampling import Noise, Traits, Wave, Written, draw
from runner.ports.engine import Interruption

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Head = Callable[["Tensor"], "Tensor"]

_LOGITS_AT_ONCE = 2**26  # 256 MiB of FP32 logits


class KeyValueCache:
    """Keys and values of a batch under way, in buffers that are allocated once.

    Stands in for `transformers.cache_utils.Cache`, by shape and not by inheritance: models call no more of it than is
    here. Against `StaticCache` it returns views of the used length, so that attention neither reads nor masks what is
    not written yet; against `DynamicCache` it copies nothing but the new token. The first update holds the distinct
    prompts and is spread over the rows; every later one adds a token to each.
    """

    is_compileable = False

    def __init__(self, width: int, source: "Tensor") -> None:
        """Prepare for `width` positions; `source` says for each row which distinct prompt it begins with."""
        self._width = width
        self._source = source
        self._length = 0
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def update(
        self, keys: "Tensor", values: "Tensor", layer_idx: int, *_: object, **__: object
    ) -> tuple["Tensor", "Tensor"]:
        """Store a layer's new keys and values, and return all that its attention is to read."""
        if self._length == 0:
            self._layers[layer_idx] = (self._spread(keys), self._spread(values))
            return keys, values
        all_keys, all_values = self._layers[layer_idx]
        all_keys.narrow(2, self._length, 1).copy_(keys)
        all_values.narrow(2, self._length, 1).copy_(values)
        return all_keys.narrow(2, 0, self._length + 1), all_values.narrow(2, 0, self._length + 1)

    def _spread(self, states: "Tensor") -> "Tensor":
        _, heads, length, size = states.shape
        buffer = states.new_empty(len(self._source), heads, self._width, size)
        buffer.narrow(2, 0, length).copy_(states.index_select(0, self._source))
        return buffer

    def advance(self, tokens: int) -> None:
        """Count the tokens of a finished forward pass."""
        self._length += tokens

    def keep(self, rows: "Tensor") -> None:
        """Drop all rows but these, which must be in rising order."""
        for layer, pair in self._layers.items():
            keys, values = (self._moved(buffer, rows) for buffer in pair)
            self._layers[layer] = (keys, values)

    def _moved(self, buffer: "Tensor", rows: "Tensor") -> "Tensor":
        """Move the kept rows to the front of the same memory."""
        front = buffer.narrow(0, 0, len(rows))
        front.narrow(2, 0, self._length).copy_(buffer.narrow(2, 0, self._length).index_select(0, rows))
        return front

    @property
    def is_sliding(self) -> list[bool]:
        """No layer drops old keys: where a layer has a window, the mask keeps it."""
        return [False] * len(self._layers)

    def get_seq_length(self, _layer_idx: int = 0) -> int:
        """Return how many positions hold tokens."""
        return self._length

    def get_query_offset(self, _layer_idx: int = 0) -> int:
        """Return the position of the next token."""
        return self._length

    def get_mask_sizes(self, query_length: int, _layer_idx: int = 0) -> tuple[int, int]:
        """Return the length and the offset of the keys that the next pass attends to."""
        return self._length + query_length, 0

    def get_max_length(self, _layer_idx: int | None = None) -> int:
        """Return the longest sequence that fits."""
        return self._width

    def __len__(self) -> int:
        return len(self._layers)

    def __bool__(self) -> bool:
        return True  # models ask whether they have one, also before the first layer is stored

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the model asks its cache for '{name}', which the torch engine does not have")


@dataclass(frozen=True, slots=True)
class DecodingParts:
    """What decoding needs beside the wave: the model's parts, its tokens and how rows are dropped."""

    decoder: Any
    traits: Traits
    device: "torch.device"
    end_id: int
    pad_id: int
    compact_at: float  # share of finished rows at which they are dropped from the batch

    @property
    def look_every(self) -> int:
        """Tokens between two looks at which rows are finished: on an accelerator a look waits for its queue."""
        return 1 if self.device.type == "cpu" else 16


class Forcing:
    """Which rows of a wave have to write which token of a closing phrase; every table has all rows of the wave."""

    def __init__(self, interruption: Interruption, places: "Tensor") -> None:
        """Interrupt each row after so many tokens as its place says."""
        import torch

        self._phrase, self._closed_by = (
            torch.tensor(tokens, dtype=torch.int64, device=places.device)
            for tokens in (interruption.phrase, interruption.closed_by)
        )
        self._places = places
        self._last = interruption.latest + len(interruption.phrase)
        self._closed = torch.zeros_like(places, dtype=torch.bool)
        self._taken = torch.zeros_like(places, dtype=torch.bool)  # the phrase, or a part of it

    def at(self, written: "Tensor") -> tuple["Tensor", "Tensor"] | None:
        """Return who is forced after the tokens (steps, rows) written so far, and to what; None: nobody any more."""
        step, closing = len(written), len(self._closed_by)
        if step >= self._last:
            return None
        if 0 < closing <= step:
            self._closed |= (written[step - closing :] == self._closed_by[:, None]).all(dim=0)
        within = step - self._places
        self._taken |= (within == 0) & ~self._closed
        forced = self._taken & (within >= 0) & (within < len(self._phrase))
        return forced, self._phrase[within.clamp(0, len(self._phrase) - 1)]


class Decoding:
    """A wave under way. Rows that are finished write on unseen until they are dropped."""

    def __init__(self, wave: Wave, max_tokens: int, form: DecodingParts, forcing: Forcing | None = None) -> None:
        """Run the distinct prompts through the decoder, padded on the left."""
        import torch

        self._wave, self._form, device, rows = wave, form, form.device, len(wave.rows)
        source = torch.tensor(wave.source, device=device)
        prompts, present = (tensor.to(device) for tensor in wave.padded(form.pad_id))
        positions = (present.cumsum(dim=1) - 1).clamp_(min=0)
        padded = not bool(present.all())
        mask = present.long() if padded or not form.traits.takes_positions else None
        self._cache = KeyValueCache(wave.longest + max_tokens, source)
        self._hidden = self._forward(prompts, mask, positions).index_select(0, source)
        self._starts = (positions[:, -1:] + 1).index_select(0, source)
        self._mask = self._mask_of(present.index_select(0, source), padded)
        self._last: Tensor | None = None
        self._alive = torch.ones(rows, dtype=torch.bool, device=device)
        self._places = torch.arange(rows, device=device)  # rows of the wave that are still in the batch
        self._ids = torch.tensor(wave.rows, device=device)  # the same as rows of the request
        self._tokens = torch.full((max_tokens, rows), form.pad_id, device=device)
        self._logprobs = torch.zeros((max_tokens, rows), device=device)
        self._forcing = forcing
        self._forced = torch.zeros((max_tokens, rows), dtype=torch.bool, device=device)
        self.steps = 0  # tokens of each row so far

    def _mask_of(self, present: "Tensor", padded: bool) -> "Tensor | None":
        """Return the mask of every later step, of which each takes the part that is written; None: nothing to mask.

        Ready-made for attention where that is right. Where the rows outgrow a layer's window, the two-dimensional one,
        from which the model makes its own at every step.
        """
        import torch

        traits, width = self._form.traits, self._cache.get_max_length()
        grown = torch.nn.functional.pad(present, (0, width - present.shape[1]), value=True)
        if traits.mask is None or (traits.window is not None and width > traits.window):
            return grown.long() if padded or not traits.takes_positions else None
        if traits.mask == torch.bool:
            return grown[:, None, None, :] if padded else None
        added = torch.zeros(grown.shape, dtype=traits.mask, device=grown.device)
        return added.masked_fill_(~grown, torch.finfo(traits.mask).min)[:, None, None, :]

    def _forward(self, tokens: "Tensor", mask: "Tensor | None", positions: "Tensor") -> "Tensor":
        """Return the last token's hidden state of each row."""
        placed = {"position_ids": positions} if self._form.traits.takes_positions else {}
        past = {self._form.traits.cache_argument: self._cache}
        output = self._form.decoder(input_ids=tokens, attention_mask=mask, use_cache=True, **past, **placed)
        self._cache.advance(tokens.shape[1])
        hidden: Tensor = output.last_hidden_state[:, -1]
        return hidden

    def write_token(self, head: Head, temperature: float, noise: Noise) -> bool:
        """Write one token of every row, and return whether any row goes on."""
        step = self.steps
        if self._last is not None:
            length = self._cache.get_seq_length()
            mask = None if self._mask is None else self._mask.narrow(-1, 0, length + 1)
            self._hidden = self._forward(self._last, mask, self._starts + (step - 1))
        tokens, logprobs = self._draw(head, temperature, noise.at(step).index_select(0, self._ids))
        if self._forcing is not None and (due := self._forcing.at(self._tokens[:step])) is not None:
            self._forced[step] = due[0]
            forced, phrase = (table.index_select(0, self._places) for table in due)
            tokens, logprobs = phrase.where(forced, tokens), logprobs.masked_fill(forced, 0.0)
        self._tokens[step].index_copy_(0, self._places, tokens)
        self._logprobs[step].index_copy_(0, self._places, logprobs)
        self._last = tokens.unsqueeze(1)
        self._alive.logical_and_(tokens != self._form.end_id)
        self.steps += 1
        return (step + 1) % self._form.look_every != 0 or self._drop_finished()

    def _draw(self, head: Head, temperature: float, uniform: "Tensor") -> tuple["Tensor", "Tensor"]:
        """Draw for a few rows at a time where all logits at once would fill the memory."""
        import torch

        entries: int = self._form.decoder.config.get_text_config().vocab_size
        rows = max(1, _LOGITS_AT_ONCE // entries)
        if len(uniform) <= rows:
            return draw(head(self._hidden), temperature, uniform)
        parts = [
            draw(head(self._hidden[begin : begin + rows]), temperature, uniform[begin : begin + rows])
            for begin in range(0, len(uniform), rows)
        ]
        return torch.cat([tokens for tokens, _ in parts]), torch.cat([logprobs for _, logprobs in parts])

    def _drop_finished(self) -> bool:
        """Take finished rows out of the batch once they are a good part of it; return whether any row is left."""
        rows = len(self._alive)
        alive = int(self._alive.sum())
        if not 0 < alive < rows or rows - alive < self._form.compact_at * rows:
            return alive > 0
        remaining = self._alive.nonzero().squeeze(1)
        self._cache.keep(remaining)
        self._ids, self._places, self._alive, self._starts = (
            tensor.index_select(0, remaining) for tensor in (self._ids, self._places, self._alive, self._starts)
        )
        self._last = None if self._last is None else self._last.index_select(0, remaining)
        self._mask = None if self._mask is None else self._mask.index_select(0, remaining)
        return True

    def written(self) -> Written:
        """Return what was written, without the keys and values that it took."""
        tables = (self._tokens, self._forced, self._logprobs)
        tokens, forced, logprobs = (table[: self.steps].T.cpu() for table in tables)
        return Written(self._wave.rows, tokens, forced, logprobs)
