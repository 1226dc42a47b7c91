"""Rollouts and updates by a Tinker service, in the forms in which rlplan's own trainer has an engine and an updater."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runner.grpo.objective import Tokens, objective, token_weights, truncated_importance
from runner.policy.scorer import Batch
from runner.ports.engine import Rollouts, Sampling, Weights
from runner.ports.trial import TrialConfig
from runner.trainers.capabilities import clip_bounds
from runner.trainers.tinker.service import Service
from runner.training.prompts import derive
from runner.training.trial import Stopwatch

if TYPE_CHECKING:
    from torch import Tensor

_SEEDS = 2**31 - 1 - 2**16  # the service adds a sample's number to its prompt's
PLAIN = "importance_sampling"


class ServiceEngine:
    """Implements the port `RolloutEngine`: a call for each prompt, all in flight at once."""

    def __init__(self, service: Service, end_id: int, pad_id: int) -> None:
        self._service, self._end_id, self._pad_id = service, end_id, pad_id

    def generate(self, prompts: Sequence[Sequence[int]], per_prompt: int, sampling: Sampling, seed: int) -> Rollouts:
        """Return `per_prompt` responses to each prompt; see `RolloutEngine`."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        seeds = [derive(seed, place) % _SEEDS for place in range(len(prompts))]
        how = {"max_tokens": sampling.max_tokens, "temperature": sampling.temperature, "stop": [self._end_id]}
        rows = self._service.sample(prompts, per_prompt, seeds, **how)
        lengths = torch.tensor([len(row.tokens) for row in rows])
        tokens = pad_sequence([torch.tensor(row.tokens) for row in rows], True, self._pad_id)
        mask = torch.arange(tokens.shape[1]) < lengths[:, None]
        return Rollouts(
            prompts=prompts,
            per_prompt=per_prompt,
            tokens=tokens,
            mask=mask,
            forced=torch.zeros_like(mask),
            logprobs=pad_sequence([torch.tensor(row.logprobs) for row in rows], True),
            truncated=torch.tensor([row.stop_reason == "length" for row in rows]),
        )

    def load_weights(self, weights: Weights) -> None:
        """Answer with the adapter as it is now; its weights never come here."""
        self._service.weights_changed()

    def close(self) -> None:
        """Leave the adapter to the service, which drops it with the session."""


class NoWeights:
    """Stands for the model of a trainer whose weights are elsewhere."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load nothing."""


def loss_of(config: TrialConfig) -> tuple[str, dict[str, float] | None]:
    """Return the service's loss for a recipe, with its bounds.

    Where the ratio is against the trainer itself and a batch is for one update, it is 1 and no clip changes anything.
    """
    settings, schedule = config.recipe.objective, config.recipe.schedule
    on_policy = settings.against == "trainer" and schedule.updates_per_batch == 1
    if settings.clip == "none" or on_policy:
        return PLAIN, None
    low, high = clip_bounds(settings)
    return settings.clip, {"clip_low_threshold": 1 - low, "clip_high_threshold": 1 + high}


class ServiceUpdater:
    """Makes optimizer steps on the service: the recipe's advantages and averages are in the weight of each token."""

    def __init__(self, config: TrialConfig, service: Service, longest_response: int) -> None:
        self._config, self._service, self._longest = config, service, longest_response
        self._loss, self._bounds = loss_of(config)
        self._step = 0

    def prepare(self, batches: Sequence[Batch], watch: Stopwatch) -> None:
        """Score new batches with the present weights, where ratios are against the trainer's."""
        for batch in batches:
            rows = self._rows(batch)
            if self._config.recipe.objective.against == "trainer" and rows:
                with watch.phase("train"):
                    batch.old = self._logprobs(batch, rows, batch.sampler)

    def update(self, batch: Batch, step: int) -> dict[str, float]:
        """Make one optimizer step and return its metrics; a batch without rollouts leaves the weights alone."""
        import torch

        config, settings, optimizer = self._config, self._config.recipe.objective, self._config.recipe.optimizer
        rate = config.learning_rate_at(step) * min(1.0, (step + 1) / max(1, config.warmup))
        self._step = step + 1
        rows = self._rows(batch)
        if not rows:
            return {"loss": 0.0, "learning_rate": rate}
        old = batch.sampler if batch.old is None else batch.old
        labels = torch.arange(batch.rows) // batch.per_prompt
        weights = token_weights(batch.loss_mask, labels, settings.aggregation, self._longest)
        worth = batch.advantages[:, None] * weights
        if (importance := truncated_importance((old - batch.sampler).where(batch.mask, 0.0), settings)) is not None:
            worth = worth * importance[0]
        if self._service.averages is None:  # a pass without gradient shows it
            self._logprobs(batch, rows[:1], old)
        adam = {
            "learning_rate": rate,
            "beta1": optimizer.beta1,
            "beta2": optimizer.beta2,
            "eps": optimizer.epsilon,
            "weight_decay": optimizer.weight_decay,
            **({"grad_clip_norm": optimizer.clip_norm} if optimizer.clip_norm is not None else {}),
        }
        data = self._data(batch, rows, old, self._undone(batch, rows, worth))
        trained = self._spread(batch, rows, self._service.train(data, self._loss, self._bounds, adam))
        tokens = Tokens(
            logprobs=trained[rows],
            old=old[rows],
            sampler=batch.sampler[rows],
            reference=None,
            entropies=None,
            advantages=batch.advantages[rows],
            mask=batch.loss_mask[rows],
            weights=weights[rows],
            entropy_weight=0.0,
        )
        loss, statistics = objective(tokens, settings)
        return {"loss": float(loss), "learning_rate": rate, **statistics.metrics()}

    def state(self) -> dict[str, Any]:
        """Save on the service, and return where."""
        return {"saved": self._service.save(f"step-{self._step:08d}"), "step": self._step}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state, in an adapter of its own."""
        self._step = state["step"]
        self._service.open_adapter(state["saved"])

    def _rows(self, batch: Batch) -> list[int]:
        """Return the rows that change the weights; where none does, one, by which AdamW goes on by its momentum.

        SkyRL compiles for every number of rows, which takes longer than what the others cost: it gets all of them.
        """
        tells = batch.loss_mask.any(dim=1)
        every: list[int] = tells.nonzero().flatten().tolist()
        worth: list[int] = (tells & (batch.advantages != 0)).nonzero().flatten().tolist()
        return (worth or every[:1]) if self._service.averages == "sum" else every

    def _undone(self, batch: Batch, rows: Sequence[int], worth: "Tensor") -> "Tensor":
        """Return the tokens' weights times what the service will divide them by."""
        if self._service.averages == "sum":
            return worth
        lengths = [len(batch.prompts[row // batch.per_prompt]) - 1 for row in range(batch.rows)]
        whole = batch.mask.sum(dim=1) + batch.mask.new_tensor(lengths, dtype=worth.dtype)
        return worth * whole[:, None] * len(rows)

    def _data(self, batch: Batch, rows: Sequence[int], old: "Tensor", worth: "Tensor") -> list[Any]:
        data = []
        for row in rows:
            length = int(batch.mask[row].sum())
            response = batch.tokens[row, :length].tolist()
            beside = {"logprobs": old[row, :length].tolist(), "advantages": worth[row, :length].tolist()}
            data.append(self._service.datum(batch.prompts[row // batch.per_prompt], response, **beside))
        return data

    def _logprobs(self, batch: Batch, rows: Sequence[int], old: "Tensor") -> "Tensor":
        data = self._data(batch, rows, old, old * 0.0)
        return self._spread(batch, rows, self._service.logprobs(data))

    @staticmethod
    def _spread(batch: Batch, rows: Sequence[int], logprobs: Sequence[Sequence[float]]) -> "Tensor":
        """Return log-probabilities of whole sequences as a table of the batch's responses; other rows keep theirs."""
        table = batch.sampler.clone()
        for row, values in zip(rows, logprobs, strict=True):
            length = int(batch.mask[row].sum())
            table[row, :length] = table.new_tensor(values[-length:])
        return table
