"""Keys and values of a batch under way, in buffers that are allocated once.

Stands in for `transformers.cache_utils.Cache`, by shape and not by inheritance: models call no more of it than is here.
Against `StaticCache` it returns views of the used length, so that attention neither reads nor masks what is not written
yet; against `DynamicCache` it copies nothing but the new token.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class KeyValueCache:
    """The first update holds the distinct prompts and is spread over the rows; every later one adds a token to each."""

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
        kept = buffer.narrow(0, 0, len(rows))
        kept.narrow(2, 0, self._length).copy_(buffer.narrow(2, 0, self._length).index_select(0, rows))
        return kept

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
        return True  # models ask `if past_key_values`, also before the first layer is stored

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the model asks its cache for '{name}', which the torch engine does not have")
