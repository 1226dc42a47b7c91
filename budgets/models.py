"""The shape of a transformer, and the parameters, bytes and operations that follow from it."""

import math
from dataclasses import dataclass
from functools import cached_property

from budgets.errors import InputError

BYTES_PER_WEIGHT = 2
FP8_SAVES = 1  # of these, for a weight in fp8
PATCHES = 4  # of an image that one token stands for: 2 × 2, in Qwen-VL and InternVL


@dataclass(frozen=True)
class ModelShape:
    """A decoder-only transformer with a gated feed-forward, dense or with experts.

    Attention is grouped-query unless said otherwise: `latent_width` numbers per token and layer are cached instead of
    keys and values; `window_layers` attend to the last `window` tokens alone; `linear_layers` keep a state of fixed
    size in place of a cache. `attention_weights` and `linear_weights` count one such layer's weights.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    context: int
    tied_embeddings: bool
    experts: int = 0
    experts_per_token: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0
    dense_layers: int = 0  # of a mixture of experts: so many layers have one feed-forward of width `intermediate`
    attention_weights: int = 0  # 0: what heads and widths give
    latent_width: int = 0
    window: int = 0
    window_layers: int = 0
    linear_layers: int = 0
    linear_weights: int = 0
    linear_state: int = 0  # numbers that one sequence keeps in one such layer
    vision_parameters: int = 0  # of an encoder of images, which reads patches, four for each token of the prompt
    image_pixels: int = 0  # that a token of an image stands for
    approximated: str = ""  # what of the architecture is priced as something simpler

    def __post_init__(self) -> None:
        for quantity in ("hidden", "layers", "heads", "kv_heads", "head_dim", "vocabulary", "context"):
            if getattr(self, quantity) < 1:
                raise InputError(f"model '{self.name}': {quantity} is {getattr(self, quantity)}, it must be positive")
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            raise InputError(
                f"model '{self.name}': experts_per_token is {self.experts_per_token}, "
                f"it must lie between 1 and the number of experts, {self.experts}"
            )
        parts = (self.window_layers, self.linear_layers, self.dense_layers)
        if min(parts) < 0 or max(parts[0] + parts[1], parts[2]) > self.layers:
            raise InputError(
                f"model '{self.name}': window_layers {self.window_layers}, linear_layers {self.linear_layers} and "
                f"dense_layers {self.dense_layers} are parts of its {self.layers} layers"
            )

    @cached_property  # a plan asks thousands of times
    def parameters(self) -> int:
        """All weights, the output head counted once more unless it is tied."""
        return self._embeddings + self._body_parameters(self.experts) + self.vision_parameters

    @property
    def expert_weights(self) -> int:
        """Weights of all experts."""
        return self.expert_layers * self.experts * self._expert_parameters

    @property
    def head_parameters(self) -> int:
        """Weights of the output head."""
        return self.vocabulary * self.hidden

    @cached_property
    def matmul_parameters(self) -> int:
        """Weights that one token is multiplied with: the active experts and the output head, no look-up table."""
        return self._body_parameters(self.experts_per_token) + self.head_parameters

    def weights_read(self, tokens: float) -> float:
        """Return the weights read to process so many tokens at once; a batch touches more experts than a token."""
        if not self.experts:
            return float(self.matmul_parameters)
        experts = self.expert_layers * self.experts_touched(tokens) * self._expert_parameters
        return self._body_parameters(0) + experts + self.head_parameters

    def experts_touched(self, tokens: float) -> float:
        """Return how many experts of a layer so many tokens go to."""
        return self.experts * (1 - math.pow(1 - self.experts_per_token / self.experts, tokens)) if self.experts else 0.0

    def trained(self, lora_rank: int | None) -> int:
        """Return the weights that are trained: all, or those of adapters."""
        return self.parameters if lora_rank is None else self.adapter_parameters(lora_rank)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights in bf16."""
        return self.parameters * BYTES_PER_WEIGHT

    def engine_bytes(self, *, fp8: bool) -> int:
        """Return the bytes of an engine's weights; in fp8 all but embedding and head take one, as vLLM keeps them."""
        return self.weight_bytes - fp8 * FP8_SAVES * (self.parameters - self._embeddings)

    def bytes_read(self, tokens: float, *, fp8: bool) -> float:
        """Return the bytes of weights that are read to process so many tokens at once; the head is never in fp8."""
        weights, head = self.weights_read(tokens), self.head_parameters
        return BYTES_PER_WEIGHT * weights - fp8 * FP8_SAVES * (weights - head)

    def adapter_parameters(self, rank: int) -> int:
        """Return the weights of LoRA adapters of a rank on every projection, beside each expert too.

        A projection from a to b numbers has rank · (a + b); latent attention is counted as grouped-query.
        """
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = 2 * (self.hidden + queries) + 2 * (self.hidden + keys)
        dense = (self.layers - self.expert_layers) * 3 * (self.hidden + self.intermediate)
        sparse = self.expert_layers * self.experts * 3 * (self.hidden + self.expert_intermediate)
        return rank * (self.layers * attention + dense + sparse)

    def cache_bytes(self, tokens: float) -> float:
        """Return the bytes that one sequence of so many tokens holds: all of them, a window's, and fixed states."""
        full = self.layers - self.window_layers - self.linear_layers
        numbers = float(self.latent_width or 2 * self.kv_heads * self.head_dim)
        numbers *= full * tokens + self.window_layers * min(tokens, self.window)
        return (numbers + self.linear_layers * self.linear_state) * BYTES_PER_WEIGHT

    def encoder_flops(self, image_tokens: float) -> float:
        """Return the operations to make so many tokens of images."""
        return 2 * self.vision_parameters * PATCHES * image_tokens

    def attention_flops(self, tokens: float, squared: float) -> float:
        """Return the operations of a forward pass's attention on one sequence of so many tokens.

        `squared` is the mean of the squared length: causal attention takes 2 · layers · width · length². A window
        passes 2 · window · length − window² of these, and a linear layer updates and reads its state once per token.
        """
        full = self.layers - self.window_layers - self.linear_layers
        in_window = squared if tokens <= self.window else 2 * self.window * tokens - self.window**2
        pairs = full * squared + self.window_layers * min(squared, in_window)
        return 2 * self.heads * self.head_dim * pairs + 4 * self.linear_layers * self.linear_state * tokens

    @property
    def _embeddings(self) -> int:
        return self.head_parameters * (1 if self.tied_embeddings else 2)

    @property
    def expert_layers(self) -> int:
        """Layers whose feed-forward is a mixture of experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def _expert_parameters(self) -> int:
        return 3 * self.hidden * self.expert_intermediate

    def _body_parameters(self, experts: int) -> int:
        attention = self.attention_weights or self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        mixers = (self.layers - self.linear_layers) * attention + self.linear_layers * self.linear_weights
        dense = (self.layers - self.expert_layers) * 3 * self.hidden * self.intermediate
        extra = self.hidden * (self.experts + 3 * self.shared_intermediate)  # the router and the shared experts
        norms = 2 * self.hidden * self.layers
        return mixers + dense + norms + self.expert_layers * (extra + experts * self._expert_parameters)
