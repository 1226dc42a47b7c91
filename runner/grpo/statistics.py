"""What an update did to its tokens, as sums that add up over micro-batches."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Sums and maxima over the trained tokens, as scalars on their device; None is what was not given."""

    tokens: "Tensor"
    clipped_low: "Tensor"  # tokens that the lower bound of the clip changed
    clipped_high: "Tensor"
    ratio_sum: "Tensor"
    ratio_max: "Tensor"
    entropy_sum: "Tensor | None"
    reference_kl_sum: "Tensor | None"  # k3 of the base model against the policy
    mismatch_kl_sum: "Tensor"  # k3 of trainer against sampler
    mismatch_abs_sum: "Tensor"  # |trainer's − sampler's log-probability|
    mismatch_max: "Tensor"
    importance_capped: "Tensor"  # tokens whose truncated importance weight is at its cap

    def __add__(self, other: "Statistics") -> "Statistics":
        merged: dict[str, Any] = {}
        for each in fields(self):
            mine, its = getattr(self, each.name), getattr(other, each.name)
            if mine is None or its is None:
                merged[each.name] = None
            else:
                merged[each.name] = mine.maximum(its) if each.name.endswith("_max") else mine + its
        return Statistics(**merged)

    def metrics(self) -> dict[str, float]:
        """Return shares of and means over the tokens; what was not given is left out."""
        import torch  # noqa: PLC0415

        count = self.tokens.clamp(min=1)
        scalars = {
            "clipped_low_share": self.clipped_low / count,
            "clipped_high_share": self.clipped_high / count,
            "ratio_mean": self.ratio_sum / count,
            "ratio_max": self.ratio_max,
            "mismatch_kl": self.mismatch_kl_sum / count,
            "mismatch_abs": self.mismatch_abs_sum / count,
            "mismatch_max": self.mismatch_max,
            "importance_capped_share": self.importance_capped / count,
        }
        if self.entropy_sum is not None:
            scalars["entropy"] = self.entropy_sum / count
        if self.reference_kl_sum is not None:
            scalars["reference_kl"] = self.reference_kl_sum / count
        # One transfer from the device rather than one for each.
        return dict(zip(scalars, torch.stack(list(scalars.values())).tolist(), strict=True))
