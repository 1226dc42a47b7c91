"""Log-probabilities and entropies that the trained model gives to responses, with gradients where they are wanted.

The prompts of a micro-batch are read once each; the responses of a group then attend to their prompt's keys and
values, as the sampler's did. Models whose layers do not all keep plain keys and values are run on whole sequences.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.policy.model import Head, cache_argument, decoder_of
from runner.ports.task import Ids

if TYPE_CHECKING:
    from torch import Tensor, nn

MOST_LOGITS = 1 << 26  # logits held at once; beyond this they are computed in chunks, and again in the backward pass


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Responses to some prompts, equally many each: rows i·n … i·n + n − 1 answer prompt i."""

    prompts: Sequence["Ids"]
    per_prompt: int
    tokens: "Tensor"  # (rows, T) int64, padded on the right
    mask: "Tensor"  # (rows, T) bool


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch of an update: which rows, of which prompts, cut to which length."""

    rows: "Tensor"  # int64 indices
    prompts: Sequence[int]
    per_prompt: int
    longest: int


def split(
    prompt_lengths: Sequence[int],
    per_prompt: int,
    lengths: Sequence[int],
    most_tokens: int,
    only: Sequence[int] | None = None,
) -> Iterator[MicroBatch]:
    """Yield micro-batches of at most `most_tokens` padded tokens, never less than one row; each row comes once.

    With `only`, the rows of those groups alone.
    Groups of similar length lie together, so that little is padding; a group that is too large is cut into equal
    parts. A prompt is counted once for its group, because its rows share its keys and values.
    """
    import torch

    groups = range(len(prompt_lengths)) if only is None else only
    longest = {group: max(lengths[group * per_prompt : (group + 1) * per_prompt]) for group in groups}
    order = sorted(groups, key=lambda group: (longest[group], group))
    chosen: list[int] = []

    def part(members: Sequence[int], first: int, count: int) -> MicroBatch:
        rows = [group * per_prompt + row for group in members for row in range(first, first + count)]
        return MicroBatch(torch.tensor(rows), list(members), count, max(1, *(lengths[row] for row in rows)))

    def padded(members: Sequence[int], rows: int) -> int:
        prompt = max(prompt_lengths[group] for group in members)
        return len(members) * (prompt + rows * max(longest[group] for group in members))

    for group in order:
        if chosen and padded([*chosen, group], per_prompt) > most_tokens:
            yield part(chosen, 0, per_prompt)
            chosen = []
        if padded([group], per_prompt) <= most_tokens:
            chosen.append(group)
            continue
        size = max(1, (most_tokens - prompt_lengths[group]) // max(1, longest[group]))
        for first in range(0, per_prompt, size):
            yield part([group], first, min(size, per_prompt - first))
    if chosen:
        yield part(chosen, 0, per_prompt)


class Scorer:
    """Scores responses at the sampling temperature."""

    def __init__(
        self, model: "nn.Module", *, temperature: float, fp32_head: bool, autocast: bool = False, compiled: bool = False
    ) -> None:
        language_model: Any = model
        self._vocabulary: int = language_model.get_output_embeddings().weight.shape[0]
        self._decoder: Any = decoder_of(model)
        if compiled:  # for any shape: micro-batches differ in theirs, and each new one would compile anew
            import torch

            self._decoder = torch.compile(self._decoder, dynamic=True)
        self._cache_argument = cache_argument(decoder_of(model))
        self._head = Head(model, fp32=fp32_head)
        self._fp32_head = fp32_head
        self._temperature = temperature
        self._autocast = autocast
        self._device: Any = next(model.parameters()).device
        self._shares_prompts = _keeps_plain_keys(model)

    def __call__(
        self, rows: Rows, *, entropies: bool = False, entropy_gradient: bool = False
    ) -> tuple["Tensor", "Tensor | None"]:
        """Return (rows, T) log-probabilities and, if asked for, entropies; both are 0 at padding."""
        import torch

        mask = rows.mask.to(self._device)
        tokens = rows.tokens.to(self._device)
        with self._format():
            hidden = self._shared(rows, tokens) if self._shares_prompts else self._whole(rows, tokens, mask)
        chosen, spread = self._score(hidden[mask], tokens[mask], entropies, entropy_gradient)
        empty = torch.zeros(mask.shape, device=self._device)
        logprobs = empty.masked_scatter(mask, chosen)
        return logprobs, empty.masked_scatter(mask, spread) if spread is not None else None

    def _format(self) -> AbstractContextManager[Any]:
        import torch

        return torch.autocast(self._device.type, torch.bfloat16) if self._autocast else nullcontext()

    def _shared(self, rows: Rows, tokens: "Tensor") -> "Tensor":
        """Return the hidden state before each response token: the prompts once, then the responses behind them."""
        import torch
        from transformers import DynamicCache

        n, length = rows.per_prompt, tokens.shape[1]
        prompts, starts = _left_padded(rows.prompts, self._device)
        width = prompts.shape[1]
        places = torch.arange(width, device=self._device)
        positions = (places - starts[:, None]).clamp(min=0)
        uneven = bool(starts.any())
        read = self._decoder(
            input_ids=prompts,
            position_ids=positions,
            attention_mask=_prompt_mask(starts, width) if uneven else None,
            use_cache=True,
        )
        before_first = read.last_hidden_state[:, -1:].repeat_interleave(n, dim=0)
        if length == 1:
            return torch.as_tensor(before_first)
        cache = read["cache"] if "cache" in read else read["past_key_values"]
        key_values = [(_spread(layer.keys, n), _spread(layer.values, n)) for layer in cache.layers]
        steps = torch.arange(length - 1, device=self._device)
        causal = (steps[:, None] >= steps[None, :]).expand(1, 1, -1, -1)
        visible = (places >= starts[:, None])[:, None, None, :] if uneven else causal.new_ones(1, 1, 1, width)
        visible = visible.repeat_interleave(n, dim=0) if uneven else visible
        count = visible.shape[0]
        mask = torch.cat([visible.expand(-1, -1, length - 1, -1), causal.expand(count, -1, -1, -1)], dim=-1)
        first = (width - starts).repeat_interleave(n)
        answered = self._decoder(
            input_ids=tokens[:, :-1],
            position_ids=first[:, None] + steps,
            attention_mask=mask,
            use_cache=True,
            **{self._cache_argument: DynamicCache(ddp_cache_data=key_values)},
        )
        return torch.cat([before_first, answered.last_hidden_state], dim=1)

    def _whole(self, rows: Rows, tokens: "Tensor", mask: "Tensor") -> "Tensor":
        import torch

        prompts, starts = _left_padded(rows.prompts, self._device)
        width = prompts.shape[1]
        visible = torch.arange(width, device=self._device) >= starts[:, None]
        sequence = torch.cat([prompts.repeat_interleave(rows.per_prompt, dim=0), tokens], dim=1)
        attention = torch.cat([visible.repeat_interleave(rows.per_prompt, dim=0), mask], dim=1).long()
        positions = (attention.cumsum(dim=1) - 1).clamp(min=0)
        out = self._decoder(input_ids=sequence, position_ids=positions, attention_mask=attention, use_cache=False)
        hidden: Tensor = out.last_hidden_state[:, width - 1 : -1]
        return hidden

    def _score(
        self, hidden: "Tensor", tokens: "Tensor", entropies: bool, entropy_gradient: bool
    ) -> tuple["Tensor", "Tensor | None"]:
        import torch
        from torch.utils.checkpoint import checkpoint

        size = max(1, MOST_LOGITS // self._vocabulary)
        if len(hidden) <= size:
            return self._score_chunk(hidden, tokens, entropies, entropy_gradient)
        chunks = [
            checkpoint(self._score_chunk, part, chosen, entropies, entropy_gradient, use_reentrant=False)
            for part, chosen in zip(torch.split(hidden, size), torch.split(tokens, size), strict=True)
        ]
        spread = torch.cat([chunk[1] for chunk in chunks]) if entropies else None
        return torch.cat([chunk[0] for chunk in chunks]), spread

    def _score_chunk(
        self, hidden: "Tensor", tokens: "Tensor", entropies: bool, entropy_gradient: bool
    ) -> tuple["Tensor", "Tensor | None"]:
        import torch

        with torch.autocast(self._device.type, enabled=False) if self._fp32_head else self._format():
            logits = self._head(hidden) / self._temperature
        logprobs = logits.log_softmax(dim=-1)
        chosen = logprobs.gather(-1, tokens[:, None]).squeeze(-1)
        if not entropies:
            return chosen, None
        fixed = logprobs if entropy_gradient else logprobs.detach()
        return chosen, -(fixed.exp() * fixed).sum(dim=-1)


def _left_padded(prompts: "list[Ids] | Any", device: Any) -> tuple["Tensor", "Tensor"]:
    """Return the prompts in one tensor, padded on the left, and where each begins."""
    import torch

    width = max(len(prompt) for prompt in prompts)
    padded = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts], device=device)
    return padded, torch.tensor([width - len(prompt) for prompt in prompts], device=device)


def _prompt_mask(starts: "Tensor", width: int) -> "Tensor":
    """Return a causal mask that hides the padding; padding sees itself, because seeing nothing gives NaN."""
    import torch

    places = torch.arange(width, device=starts.device)
    causal = places[:, None] >= places[None, :]
    real = (places >= starts[:, None])[:, None, None, :]
    itself = places[:, None] == places[None, :]
    return (causal & real) | itself


def _spread(values: "Tensor", n: int) -> "Tensor":
    """Repeat each prompt's keys or values for its n rows; a view's gradient is a sum in fixed order."""
    count, *rest = values.shape
    return values[:, None].expand(count, n, *rest).reshape(count * n, *rest)


def _keeps_plain_keys(model: "nn.Module") -> bool:
    """Whether every layer keeps all keys and values, so that a prompt's can be handed to its responses."""
    config: Any = model.config
    text: Any = config.get_text_config(decoder=True)
    kinds = getattr(text, "layer_types", None)
    if kinds is not None:
        return all(kind == "full_attention" for kind in kinds)
    return getattr(text, "sliding_window", None) is None


@dataclass(slots=True, eq=False)
class Batch:
    """The rollouts of one update; everything in it can be saved, because a batch may wait for its update."""

    prompts: list[Ids]  # of the groups that are trained on
    per_prompt: int
    tokens: "Tensor"  # (rows, T) int64
    mask: "Tensor"  # (rows, T) bool: tokens that were written
    loss_mask: "Tensor"  # (rows, T) bool: tokens that are trained on, a closing phrase not among them
    sampler: "Tensor"  # (rows, T) the sampler's log-probabilities
    advantages: "Tensor"  # (rows,)
    generated: int  # rollouts generated for this update, filtered ones included
    generated_tokens: int
    measured: dict[str, float]  # metrics of the rollouts, before any filter
    notes: list[str]  # what went wrong with rewards, in words
    old: "Tensor | None" = None  # the trainer's log-probabilities when the batch was new
    reference: "Tensor | None" = None  # the base model's
    written_at: int = 0  # the step whose weights it was generated by

    @property
    def rows(self) -> int:
        """Rollouts that are trained on."""
        return int(self.tokens.shape[0])

    def parts(self, most_tokens: int, only: Sequence[int] | None = None) -> Iterator[MicroBatch]:
        """Yield micro-batches of at most so many tokens, of all groups or of some alone."""
        lengths: list[int] = self.mask.sum(dim=1).tolist()
        return split([len(prompt) for prompt in self.prompts], self.per_prompt, lengths, most_tokens, only)

    def part(self, part: MicroBatch) -> Rows:
        """Return some of the rows for the scorer."""
        prompts = [self.prompts[index] for index in part.prompts]
        tokens, mask = (table[part.rows, : part.longest] for table in (self.tokens, self.mask))
        return Rows(prompts, part.per_prompt, tokens, mask)

    def state(self) -> dict[str, Any]:
        """Return the batch as tensors and plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


Prepare = Callable[[Sequence[Batch]], None]  # is called once on each batch while it is new
