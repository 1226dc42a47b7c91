"""A trial from its first to its last update: batch, update, new weights to the sampler, validation, point."""

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from budgets.hardware import SECONDS_PER_HOUR
from planner.logs.alarms import Scored, UpdateWatch, fall
from planner.metrics import further_scores, mean_over
from runner.ports.backend import Point
from runner.ports.engine import Interruption, RolloutEngine, Sampling
from runner.ports.task import FAILED_SHARE, Task, spent_in, summed
from runner.ports.trial import TrialConfig, ValidationPlan
from runner.training.collector import BatchSource, interruption_of, score_rollouts
from runner.training.prompts import derive
from runner.training.trial import Stopwatch
from runner.training.updater import Updater

if TYPE_CHECKING:
    from torch import nn

NAN_LOSS = "nan-loss"
TRUNCATION = "truncation"
FLAGS = {"not-finite": NAN_LOSS, "dead": "dead", "fall": "validation-fall", "hacking": "reward-hacking"}  # by rule

MOST_TRUNCATION = 0.15  # above 10–15 % training becomes unstable (ScaleRL, arXiv 2510.13786, appendix A.15)


class HealthWatch:
    """Watches the metrics of each update and each validation; what it remembers can be saved."""

    def __init__(self, prompts: int | None = None) -> None:
        self._updates = UpdateWatch(prompts)
        self._rewards: list[float] = []  # since the last validation
        self._scored: list[Scored] = []

    def flags(self, step: int, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """Return the names of what is wrong after an update."""
        self._rewards.append(metrics["pass_rate"])
        warned = self._updates.see(step, metrics)
        cut = metrics["truncated_share"] > MOST_TRUNCATION
        return (*([FLAGS[warned.rule]] if warned else []), *([TRUNCATION] if cut else []))

    def scored(self, step: int, score: float, error: float) -> tuple[str, ...]:
        """Return the names of what is wrong after a validation."""
        reward = sum(self._rewards) / len(self._rewards) if self._rewards else None
        self._rewards = []
        self._scored.append(Scored(float(step), score, error, reward))
        warned = fall(self._scored)
        return (FLAGS[warned.rule],) if warned else ()

    def state(self) -> dict[str, Any]:
        """Return what it remembers."""
        return {
            "updates": self._updates.state(),
            "rewards": list(self._rewards),
            "scored": [list(astuple(score)) for score in self._scored],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._updates.restore(state["updates"])
        self._rewards = list(state["rewards"])
        self._scored = [Scored(*score) for score in state["scored"]]


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Scores of one validation; the standard error treats the problems as the sample that they are."""

    mean: float
    standard_error: float
    best: float
    worst: float
    truncated_share: float
    response_tokens: float
    further: dict[str, tuple[float, float]]  # best@k and worst@k of several k, each with its standard error
    failed_share: float = 0.0  # of the rewards
    spent: Mapping[str, float] = field(default_factory=dict)  # on a judge

    def metrics(self) -> dict[str, float]:
        """Return what stands beside the score."""
        return {
            "validation_best": self.best,
            "validation_worst": self.worst,
            "validation_truncated_share": self.truncated_share,
            "validation_response_tokens": self.response_tokens,
            f"validation_{FAILED_SHARE}": self.failed_share,
        }


def validate(
    engine: RolloutEngine,
    task: Task,
    plan: ValidationPlan,
    seed: int,
    step: int,
    interruption: Interruption | None = None,
    temperature: float = 1.0,
) -> ValidationResult:
    """Score the present weights on the first problems of the task's validation set.

    Responses are interrupted as those that are trained on: nothing teaches these weights to end by themselves.
    """
    problems = list(task.validation[: plan.problems])
    samples = plan.samples
    sampling = Sampling(task.max_response_tokens, temperature, interruption)
    prompts = [task.tokenizer.encode_prompt(problem.prompt) for problem in problems]
    rollouts = engine.generate(prompts, samples, sampling, derive(seed, "validation", step))
    judged = score_rollouts(task, problems, rollouts)
    scores = judged.values
    groups = [scores[i * samples : (i + 1) * samples] for i in range(len(problems))]
    mean, error = mean_over([sum(group) / samples for group in groups])
    return ValidationResult(
        mean=mean,
        standard_error=error,
        best=sum(map(max, groups)) / len(groups),
        worst=sum(map(min, groups)) / len(groups),
        truncated_share=float(rollouts.truncated.float().mean()),
        response_tokens=float(rollouts.mask.sum()) / rollouts.count,
        further=further_scores(groups),
        failed_share=judged.failed / rollouts.count,
        spent=spent_in(summed(judged.metrics)),
    )


@dataclass(slots=True)
class _Progress:
    """Counts since the beginning of the trial."""

    step: int = -1  # −1: not even step 0 has been scored
    rollouts: int = 0
    tokens: int = 0
    seconds: float = 0.0


class Trainer:
    """Trains one trial; everything that it does follows from its configuration and its state."""

    def __init__(
        self,
        config: TrialConfig,
        task: Task,
        model: "nn.Module",
        engine: RolloutEngine,
        source: BatchSource,
        updater: Updater,
        watch: Stopwatch,
    ) -> None:
        """Put the parts together; the watch has been running since the trial's start-up began."""
        self._config = config
        self._task = task
        self._model = model
        self._engine = engine
        self._source = source
        self._updater = updater
        self._watch = watch
        self._interruption = interruption_of(config.recipe, task)
        self._health = HealthWatch(config.prompts_per_batch)
        self._progress = _Progress()

    @property
    def step(self) -> int:
        """Updates made so far; −1 before the base model has been scored."""
        return self._progress.step

    def points(self, to_step: int) -> Iterator[Point]:
        """Train up to an update, yielding a point for step 0 if it is new and after each update."""
        if self._progress.step < 0:
            self._progress.step = 0
            yield self._point({}, self._validate(), ())
        while self._progress.step < to_step:
            yield self._advance()

    def state(self) -> dict[str, Any]:
        """Return all that the trial needs to go on exactly."""
        return {
            "model": self._model.state_dict(),
            "updater": self._updater.state(),
            "source": self._source.state(),
            "health": self._health.state(),
            "progress": list(astuple(self._progress)),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._model.load_state_dict(state["model"])
        self._updater.restore(state["updater"])
        self._source.restore(state["source"])
        self._health.restore(state["health"])
        self._progress = _Progress(*state["progress"])
        self._publish()

    def _advance(self) -> Point:
        progress = self._progress
        prepare = partial(self._updater.prepare, watch=self._watch)
        batch = self._source.next(progress.step, prepare, self._watch)
        with self._watch.phase("train"):
            trained = self._updater.update(batch, progress.step)
        metrics: dict[str, Any] = {
            **batch.measured,
            **trained,
            **self._source.metrics(),
            "staleness": float(progress.step - batch.written_at),
        }
        metrics["generated_rollouts"] = float(batch.generated)
        metrics["trained_rollouts"] = float(batch.rows)
        if self._config.growth is not None:
            metrics["prompts_per_batch"] = float(self._config.prompts_at(progress.step))
        if batch.notes:
            metrics["notes"] = batch.notes
        before = progress.rollouts
        progress.step += 1
        progress.rollouts += batch.generated
        progress.tokens += batch.generated_tokens
        with self._watch.phase("sync"):
            self._publish()
        every = self._config.validation.every_rollouts
        due = progress.rollouts // every > before // every
        flags = self._health.flags(progress.step, metrics)
        return self._point(metrics, self._validate() if due else None, flags)

    def _publish(self) -> None:
        self._engine.load_weights(self._model.state_dict().items())

    def _validate(self) -> ValidationResult:
        with self._watch.phase("evaluate"):
            plan, seed, step = self._config.validation, self._config.seed, self._progress.step
            temperature, _ = self._config.task.validation_sampling
            return validate(self._engine, self._task, plan, seed, step, self._interruption, temperature)

    def _point(
        self, metrics: Mapping[str, float], validation: ValidationResult | None, flags: tuple[str, ...]
    ) -> Point:
        elapsed, phases = self._watch.read()
        progress = self._progress
        progress.seconds += elapsed
        scored = validation.metrics() if validation else {}
        for name, value in (validation.spent if validation else {}).items():
            scored[name] = value + metrics.get(name, 0.0)
        if validation:
            flags = (*flags, *self._health.scored(progress.step, validation.mean, validation.standard_error))
        return Point(
            optimizer_step=progress.step,
            rollouts=progress.rollouts,
            tokens=progress.tokens,
            seconds=progress.seconds,
            gpu_hours=progress.seconds * self._config.machine.gpus / SECONDS_PER_HOUR,
            score=validation.mean if validation else None,
            score_standard_error=validation.standard_error if validation else None,
            metrics={**metrics, **scored, "seconds": {**phases, "other": max(0.0, elapsed - sum(phases.values()))}},
            flags=flags,
            further_scores=validation.further if validation else {},
        )
