"""One optimizer step on one batch: micro-batches whose gradients add up to the whole batch's, clipping, AdamW."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from budgets.errors import TrainingError
from planner.recipes.schema import Objective, Recipe
from runner.grpo.objective import Statistics, Tokens, objective, token_weights
from runner.policy.scorer import Batch, MicroBatch, Scorer
from runner.ports.trial import TrialConfig
from runner.training.trial import Stopwatch

if TYPE_CHECKING:
    from torch import Tensor, nn
MOST_SKIPPED = 3  # updates in a row whose gradient is not finite


class Updater:
    """Trains a model on batches; what it remembers between updates can be saved."""

    def __init__(
        self, config: TrialConfig, model: "nn.Module", base: "nn.Module | None", longest_response: int
    ) -> None:
        """Train `model`; `base` is needed for a KL term and stays as it is."""
        self._config = config
        self._recipe: Recipe = config.recipe
        self._model = model
        self._longest = longest_response
        self._micro_batch_tokens = config.machine.micro_batch_tokens
        self._halved = False
        self._skipped = 0
        self._scorer = self._scorer_of(model)
        self._base_scorer = self._scorer_of(base) if base is not None else None
        self._optimizer = _optimizer(config, model)

    def prepare(self, batches: Sequence[Batch], watch: Stopwatch) -> None:
        """Score new batches with the present weights and the base model, where the recipe needs it."""
        schedule, settings = self._recipe.schedule, self._recipe.objective
        for batch in batches:
            if settings.against == "trainer" and schedule.updates_per_batch > 1:
                with watch.phase("train"):
                    batch.old = self._logprobs(self._scorer, batch)
            if self._base_scorer is not None:
                with watch.phase("reference"):
                    batch.reference = self._logprobs(self._base_scorer, batch)

    def update(self, batch: Batch, step: int) -> dict[str, float]:
        """Make one optimizer step and return its metrics; a batch without rollouts leaves the weights alone."""
        import torch

        rate = self._config.learning_rate_at(step) * min(1.0, (step + 1) / max(1, self._config.warmup))
        groups = self._groups_with_gradient(batch)
        if not bool(batch.loss_mask.any()):
            return {"loss": 0.0, "grad_norm": 0.0, "learning_rate": rate}
        loss, statistics = self._backward(batch, groups)
        limit = self._recipe.optimizer.clip_norm
        parameters = self._model.parameters()
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, math.inf if limit is None else limit))
        if math.isfinite(loss) and math.isfinite(norm):
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self._optimizer.step()
            self._skipped = 0
        else:
            self._skipped += 1
            if self._skipped == MOST_SKIPPED:
                raise TrainingError(
                    "nan",
                    f"{MOST_SKIPPED} updates in a row, the last at step {step}, had a loss ({loss:g}) or gradient "
                    f"({norm:g}) that is not finite; lower the learning rate ({self._config.learning_rate:g})",
                )
        self._optimizer.zero_grad(set_to_none=True)
        return {"loss": loss, "grad_norm": norm, "learning_rate": rate, **statistics.metrics()}

    def state(self) -> dict[str, Any]:
        """Return the optimizer's state and what else outlives an update."""
        return {
            "optimizer": self._optimizer.state_dict(),
            "micro_batch_tokens": self._micro_batch_tokens,
            "halved": self._halved,
            "skipped": self._skipped,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._optimizer.load_state_dict(state["optimizer"])
        self._micro_batch_tokens = state["micro_batch_tokens"]
        self._halved = state["halved"]
        self._skipped = state["skipped"]

    def _scorer_of(self, model: "nn.Module") -> Scorer:
        return Scorer(
            model,
            temperature=self._config.task.temperature,
            fp32_head=self._recipe.precision.fp32_head,
            autocast=self._config.machine.weights == "bfloat16",
            compiled=self._config.machine.compile,
        )

    def _logprobs(self, scorer: Scorer, batch: Batch) -> "Tensor":
        import torch

        scored = torch.zeros(batch.tokens.shape)
        with torch.no_grad():
            for part in batch.parts(self._micro_batch_tokens):
                logprobs, _ = scorer(batch.part(part))
                scored[part.rows, : part.longest] = logprobs.cpu()
        return scored

    def _backward(self, batch: Batch, groups: Sequence[int]) -> tuple[float, Statistics]:
        """Accumulate the batch's gradient; out of memory, try once more with micro-batches of half the size."""
        import torch

        try:
            return self._accumulate(batch, groups)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            if self._halved:
                raise TrainingError(
                    "out-of-memory",
                    f"out of memory in an update of {batch.rows} rollouts, also with micro-batches of "
                    f"{self._micro_batch_tokens:,} tokens ({error}); lower machine.micro_batch_tokens, or use more or "
                    "larger GPUs",
                ) from error
        self._optimizer.zero_grad(set_to_none=True)
        if self._config.machine.device == "cuda":
            torch.cuda.empty_cache()
        self._halved = True
        self._micro_batch_tokens = max(1, self._micro_batch_tokens // 2)
        return self._backward(batch, groups)

    def _groups_with_gradient(self, batch: Batch) -> list[int]:
        """Return the groups that change the weights: those without an advantage do so by KL and entropy terms alone.

        The others count in the means, as ever, but need no pass through the model: late in a run they are most. Where
        none has an advantage all are passed, for the metrics, and because AdamW goes on by its momentum.
        """
        settings = self._recipe.objective
        tells = batch.loss_mask.any(dim=1)
        worth = tells & (batch.advantages != 0)
        if settings.kl == 0 and settings.entropy == 0 and bool(worth.any()):
            tells = worth
        groups: list[int] = tells.view(-1, batch.per_prompt).any(dim=1).nonzero().flatten().tolist()
        return groups

    def _accumulate(self, batch: Batch, groups: Sequence[int]) -> tuple[float, Statistics]:
        import torch

        settings = self._recipe.objective
        labels = torch.arange(batch.rows) // batch.per_prompt
        weights = token_weights(batch.loss_mask, labels, settings.aggregation, self._longest)
        total = 0.0
        statistics: Statistics | None = None
        for part in batch.parts(self._micro_batch_tokens, groups):
            logprobs, entropies = self._scorer(batch.part(part), entropies=True, entropy_gradient=settings.entropy > 0)
            tokens = _tokens(batch, part, weights, settings, logprobs, entropies)
            loss, counted = objective(tokens, settings)
            torch.autograd.backward(loss)
            total += float(loss.detach())
            statistics = counted if statistics is None else statistics + counted
        assert statistics is not None  # a batch without anything to train on never comes here
        return total, statistics


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of torch says that memory ran out, on a GPU or in the allocator of the CPU."""
    import torch

    phrases = ("DefaultCPUAllocator: can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in phrases)


def _optimizer(config: TrialConfig, model: "nn.Module") -> Any:
    import torch

    settings = config.recipe.optimizer
    return torch.optim.AdamW(
        model.parameters(),
        lr=config.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def _tokens(
    batch: Batch,
    part: MicroBatch,
    weights: "Tensor",
    settings: Objective,
    logprobs: "Tensor",
    entropies: "Tensor | None",
) -> Tokens:
    """Return a micro-batch for the objective, cut from its batch and moved to where the model is."""

    def of(tensor: "Tensor") -> "Tensor":
        return tensor[part.rows, : part.longest].to(logprobs.device)

    sampler = of(batch.sampler)
    # For a batch's first update, what the trainer thought when it was new is what it thinks now.
    trainer = logprobs.detach() if batch.old is None else of(batch.old)
    return Tokens(
        logprobs=logprobs,
        old=sampler if settings.against == "sampler" else trainer,
        sampler=sampler,
        reference=None if batch.reference is None else of(batch.reference),
        entropies=entropies,
        advantages=batch.advantages[part.rows].to(logprobs.device),
        mask=of(batch.loss_mask),
        weights=of(weights),
        entropy_weight=1.0 / max(1, int(batch.loss_mask.sum())),
    )
