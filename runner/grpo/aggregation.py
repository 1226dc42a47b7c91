"""What each token counts in the loss of a whole update, so that the losses of micro-batches just add up."""

from typing import TYPE_CHECKING

from budgets.errors import UnknownNameError

if TYPE_CHECKING:
    from torch import Tensor

RULES = ("sample", "prompt", "token", "constant", "sum")


def token_weights(mask: "Tensor", groups: "Tensor", rule: str, longest: int) -> "Tensor":
    """Return the weights (N, T) with which Σ weight · loss of a token is the loss of the update.

    | rule | weight of a token | source |
    |---|---|---|
    | sample | 1 ÷ (tokens of its response · N) | GRPO, arXiv 2402.03300 |
    | prompt | 1 ÷ (tokens of its prompt's group · prompts) | DAPO as ScaleRL reads it, arXiv 2510.13786 |
    | token | 1 ÷ tokens of the update | DAPO as libraries implement it |
    | constant | 1 ÷ (longest · N) | Dr. GRPO, arXiv 2503.20783 |
    | sum | 1 ÷ N | LUSPO, arXiv 2602.05261 |

    Args:
        mask: Tokens that are trained on (N, T). A response without any still counts in N, and a prompt among prompts.
        groups: Label of each response's prompt (N): equal numbers, equal prompt, in any order.
        rule: One of `RULES`.
        longest: Longest allowed response, in tokens.
    """
    import torch  # noqa: PLC0415

    counted = mask.float()
    lengths = counted.sum(dim=1, keepdim=True)
    responses = max(mask.shape[0], 1)
    if rule == "sample":
        return counted / (lengths.clamp(min=1) * responses)
    if rule == "prompt":
        prompts, prompt_of = torch.unique(groups, return_inverse=True)
        totals = lengths.new_zeros(len(prompts), 1).index_add(0, prompt_of, lengths)
        return counted / (totals[prompt_of].clamp(min=1) * max(len(prompts), 1))
    if rule == "token":
        return counted / lengths.sum().clamp(min=1)
    if rule == "constant":
        return counted / (responses * max(longest, 1))
    if rule == "sum":
        return counted / responses
    raise UnknownNameError("aggregation", rule, RULES)
