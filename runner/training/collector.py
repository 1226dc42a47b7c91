"""From prompts to batches: generate, score, filter, and cut into the updates that the batch is for."""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from budgets.errors import InputError
from planner.recipes.schema import Recipe
from runner.grpo.advantages import advantages, has_signal, loss_mask, shaped_rewards
from runner.policy.scorer import Batch, Prepare
from runner.ports.engine import Interruption, RolloutEngine, Rollouts, Sampling
from runner.ports.task import FAILED_SHARE, Ids, Problem, Scores, Task, spent_in, summed
from runner.ports.trial import TrialConfig
from runner.tasks.rewards import require_judged
from runner.training.prompts import PromptStream, derive
from runner.training.trial import Stopwatch

if TYPE_CHECKING:
    from torch import Tensor


def interruption_of(recipe: Recipe, task: Task) -> Interruption | None:
    """Return where a task's responses are interrupted and by which tokens; None: nowhere."""
    settings, longest = recipe.interruptions, task.max_response_tokens
    if settings.earliest is None or task.closing is None:
        return None
    phrase, closed_by = (tuple(task.tokenizer.encode(text)) for text in recipe.closing(task.name))
    if task.tokenizer.end_id in phrase:
        raise InputError(
            f"recipe '{recipe.name}': interruptions.phrase has the end token of the model of task '{task.name}', which "
            "nothing could follow: take it out of the phrase"
        )
    share = settings.latest or settings.earliest
    earliest = math.ceil(settings.earliest * longest)
    latest = max(earliest, math.floor(share * longest))
    if latest + len(phrase) >= longest:
        needed = math.ceil((len(phrase) + 2) / (1 - share))
        raise InputError(
            f"recipe '{recipe.name}' interrupts responses of at most {longest} tokens after {earliest} to {latest}, "
            f"with a phrase of {len(phrase)} and no room to answer behind it: allow at least {needed} tokens "
            "(task.max_response_tokens), or set interruptions.earliest = 'none'"
        )
    return Interruption(phrase, earliest, latest, closed_by)


def score_rollouts(task: Task, problems: Sequence[Problem], rollouts: Rollouts) -> Scores:
    """Return the score of each response, where `problems` has one for each prompt; TrainingError if too many failed.

    Of an interrupted response the reward sees what follows the phrase, and the task says which answer is right there;
    a user's function sees all of it.
    """
    import torch

    judged_problems, texts, forced, lengths = [], [], rollouts.forced, rollouts.mask.sum(dim=1).tolist()
    # Where each row's closing phrase ends; 0 where it has none.
    places = torch.arange(1, forced.shape[1] + 1)
    ends = (forced * places).amax(dim=1).tolist() if places.numel() else [0] * len(forced)
    for row, (tokens, length, end) in enumerate(zip(rollouts.tokens.tolist(), lengths, ends, strict=True)):
        problem = problems[row // rollouts.per_prompt]
        alone = task.closing if end and task.closing and task.closing.alone else None
        judged_problems.append(replace(problem, answer=alone.answer(problem.answer)) if alone else problem)
        texts.append(task.tokenizer.decode(tokens[end if alone else 0 : length]))
    judged = task.reward.score(judged_problems, texts)
    require_judged(judged.failed, len(texts), judged.reason)
    return judged


@dataclass(slots=True, eq=False)
class _Groups:
    """Scored responses, some of whose groups are kept."""

    prompts: list[Ids]
    tokens: "Tensor"
    mask: "Tensor"
    forced: "Tensor"
    sampler: "Tensor"
    truncated: "Tensor"
    scores: "Tensor"

    def only(self, groups: Sequence[int], per_prompt: int) -> "_Groups":
        import torch

        picked = torch.as_tensor([g * per_prompt + j for g in groups for j in range(per_prompt)], dtype=torch.int64)
        prompts = [self.prompts[group] for group in groups]
        tensors = (self.tokens, self.mask, self.forced, self.sampler, self.truncated, self.scores)
        return _Groups(prompts, *(tensor[picked] for tensor in tensors))


class Collector:
    """Makes the batches of a trial; the prompt stream is the only thing that it changes."""

    def __init__(self, config: TrialConfig, task: Task, engine: RolloutEngine, stream: PromptStream) -> None:
        self._config = config
        self._task = task
        self._engine = engine
        self._stream = stream
        self._sampling = Sampling(
            task.max_response_tokens, config.task.temperature, interruption_of(config.recipe, task)
        )
        self._encoded: dict[int, Ids] = {}

    def collect(self, number: int, watch: Stopwatch) -> list[Batch]:
        """Return the batches of the next updates: one, or as many as the recipe takes from one generation.

        `number` counts the generations of the trial; with the trial's seed it decides every random number.
        """
        recipe, n = self._config.recipe, self._config.rollouts_per_prompt
        updates = recipe.schedule.updates_per_batch
        B = self._config.prompts_at(number * updates)
        refilling = recipe.filters.zero_variance == "refill"
        prompts = updates * B
        parts: list[_Groups] = []
        stats = _Stats()
        for attempt in range(recipe.filters.most_refills if refilling else 1):
            missing = prompts - sum(len(groups.prompts) for groups in parts)
            if not missing:
                break
            groups = self._generate(missing, derive(self._config.seed, "rollouts", number, attempt), watch, stats)
            signal = has_signal(groups.scores, n).tolist()
            stats.silent += signal.count(False)
            parts.append(groups.only([i for i, good in enumerate(signal) if good], n) if refilling else groups)
        whole = _joined(parts)
        return [
            self._batch(whole.only(range(first, min(first + B, len(whole.prompts))), n), stats, updates, position)
            for position, first in enumerate(range(0, prompts, B))
        ]

    def _generate(self, count: int, seed: int, watch: Stopwatch, stats: "_Stats") -> _Groups:
        import torch

        n = self._config.rollouts_per_prompt
        indices = self._stream.take(count)
        for index in indices:
            if index not in self._encoded:
                self._encoded[index] = self._task.tokenizer.encode_prompt(self._task.train[index].prompt)
        prompts = [self._encoded[index] for index in indices]
        with watch.phase("generate"):
            rollouts = self._engine.generate(prompts, n, self._sampling, seed)
        with watch.phase("reward"):
            judged = score_rollouts(self._task, [self._task.train[index] for index in indices], rollouts)
        scores = torch.tensor(judged.values, dtype=torch.float32)
        self._stream.record(indices, n, scores.view(count, n).mean(dim=1).tolist())
        stats.add(rollouts, scores, self._shaped(rollouts.mask, scores), judged)
        tables = (rollouts.tokens, rollouts.mask, rollouts.forced, rollouts.logprobs)
        return _Groups(prompts, *tables, rollouts.truncated, scores)

    def _shaped(self, mask: "Tensor", scores: "Tensor") -> "Tensor":
        return shaped_rewards(scores, mask.sum(dim=1), self._task.max_response_tokens, self._config.recipe.rewards)

    def _batch(self, groups: _Groups, stats: "_Stats", updates: int, position: int) -> Batch:
        recipe, n = self._config.recipe, self._config.rollouts_per_prompt
        worth = advantages(self._shaped(groups.mask, groups.scores), n, recipe.advantage)
        trained = list(range(len(groups.prompts)))
        if recipe.filters.zero_variance == "drop":
            trained = [group for group, good in enumerate(has_signal(groups.scores, n).tolist()) if good]
        picked = groups.only(trained, n)
        longest = max(1, int(picked.mask.sum(dim=1).max())) if trained else 1
        return Batch(
            prompts=picked.prompts,
            per_prompt=n,
            tokens=picked.tokens[:, :longest],
            mask=picked.mask[:, :longest],
            loss_mask=loss_mask(picked.mask & ~picked.forced, picked.truncated, recipe.rewards)[:, :longest],
            sampler=picked.sampler[:, :longest],
            advantages=worth.view(-1, n)[trained].flatten(),
            generated=_share(stats.rollouts, updates, position),
            generated_tokens=_share(stats.tokens, updates, position),
            measured=stats.metrics(updates, interrupting=self._sampling.interruption is not None),
            notes=stats.notes,
        )


class BatchSource:
    """Generates between updates, `lag` batches ahead: batch j is written by the weights of update max(0, j − lag).

    A lag of k is the asynchrony of a generator that keeps k updates behind all the time, without its timing: the
    staleness is the bound itself and every run is the same.
    """

    def __init__(self, collector: Collector, stream: PromptStream, lag: int) -> None:
        self._collector = collector
        self._stream = stream
        self._lag = lag
        self._waiting: deque[Batch] = deque()
        self._generations = 0

    def next(self, step: int, prepare: Prepare, watch: Stopwatch) -> Batch:
        """Return the oldest waiting batch, after generating until there are enough by the weights of this step."""
        while len(self._waiting) <= self._lag:
            batches = self._collector.collect(self._generations, watch)
            self._generations += 1
            for batch in batches:
                batch.written_at = step
            prepare(batches)
            self._waiting.extend(batches)
        return self._waiting.popleft()

    def metrics(self) -> dict[str, float]:
        """Return how many batches wait and what the prompt stream has done."""
        return {
            "queue_depth": float(len(self._waiting)),
            "epoch": float(self._stream.epoch),
            "retired_prompts": float(self._stream.retired),
        }

    def state(self) -> dict[str, Any]:
        """Return the waiting batches, the stream and the count of generations."""
        return {
            "stream": self._stream.state(),
            "generations": self._generations,
            "waiting": [batch.state() for batch in self._waiting],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._stream.restore(state["stream"])
        self._generations = state["generations"]
        self._waiting = deque(Batch(**batch) for batch in state["waiting"])


@dataclass(slots=True)
class _Stats:
    """What was generated for a batch, kept or not."""

    rollouts: int = 0
    tokens: int = 0
    truncated: int = 0
    interrupted: int = 0
    score: float = 0.0
    reward: float = 0.0
    silent: int = 0
    groups: int = 0
    rounds: int = 0
    failures: int = 0
    failed: int = 0
    longest: int = 0
    notes: list[str] = field(default_factory=list)
    reward_metrics: list[Mapping[str, float]] = field(default_factory=list)

    def add(self, rollouts: Rollouts, scores: "Tensor", rewards: "Tensor", judged: Scores) -> None:
        self.rollouts += rollouts.count
        self.groups += len(rollouts.prompts)
        self.rounds += 1
        self.tokens += int(rollouts.mask.sum())
        self.longest = max(self.longest, int(rollouts.mask.sum(dim=1).max()))
        self.truncated += int(rollouts.truncated.sum())
        self.interrupted += int(rollouts.forced.any(dim=1).sum())
        self.score += float(scores.double().sum())
        self.reward += float(rewards.double().sum())
        self.failures += sum(judged.failures.values())
        self.failed += judged.failed
        self.notes += judged.notes
        self.reward_metrics += judged.metrics

    def metrics(self, updates: int, *, interrupting: bool) -> dict[str, float]:
        totals = summed(self.reward_metrics)
        return {
            "pass_rate": self.score / self.rollouts,
            "reward": self.reward / self.rollouts,
            "zero_variance_share": self.silent / self.groups,
            "response_tokens": self.tokens / self.rollouts,
            "longest_response_tokens": float(self.longest),
            "truncated_share": self.truncated / self.rollouts,
            **({"interrupted_share": self.interrupted / self.rollouts} if interrupting else {}),
            "reward_failures": float(self.failures),
            FAILED_SHARE: self.failed / self.rollouts,
            "generation_rounds": float(self.rounds),
            **totals,
            **{name: value / updates for name, value in spent_in(totals).items()},  # of each update of the batch
        }


def _joined(parts: Iterable[_Groups]) -> _Groups:
    """Put rounds of generation together, padded to the longest."""
    import torch
    from torch.nn.functional import pad

    parts = list(parts)
    width = max(part.tokens.shape[1] for part in parts)

    def widened(name: str) -> "Tensor":
        tensors: list[Tensor] = [getattr(part, name) for part in parts]
        return torch.cat([pad(tensor, (0, width - tensor.shape[1])) for tensor in tensors])

    wide = [widened(name) for name in ("tokens", "mask", "forced", "sampler")]
    flat = [torch.cat([getattr(part, name) for part in parts]) for name in ("truncated", "scores")]
    return _Groups([prompt for part in parts for prompt in part.prompts], *wide, *flat)


def _share(total: int, parts: int, position: int) -> int:
    """Divide a count among the updates of a batch, the remainder going to the first."""
    return total // parts + (1 if position < total % parts else 0)
