"""A trial from its first to its last update: batch, update, new weights to the sampler, validation, point."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.ports.backend import Point
from runner.ports.engine import RolloutEngine
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.training.batch import Batch
from runner.training.health import Health
from runner.training.sources import BatchSource
from runner.training.stopwatch import Stopwatch
from runner.training.updating import Updater
from runner.training.validation import Validation, validate

if TYPE_CHECKING:
    from torch import nn

SECONDS_PER_HOUR = 3600.0


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
        self._health = Health()
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
        progress = self._progress
        return {
            "model": self._model.state_dict(),
            "updater": self._updater.state(),
            "source": self._source.state(),
            "health": self._health.state(),
            "progress": [progress.step, progress.rollouts, progress.tokens, progress.seconds],
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
        batch = self._source.next(lambda batches: self._updater.prepare(batches, self._watch), self._watch)
        with self._watch.phase("train"):
            trained = self._updater.update(batch, progress.step)
        metrics: dict[str, Any] = {
            **batch.measured,
            **trained,
            **self._source.metrics(),
            **_staleness(batch, progress.step),
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
        return self._point(metrics, self._validate() if due else None, self._health.flags(metrics))

    def _publish(self) -> None:
        version = max(0, self._progress.step)
        weights = self._model.state_dict()
        self._engine.load_weights(weights.items(), version)
        self._source.publish(weights.items(), version)

    def _validate(self) -> Validation:
        with self._watch.phase("evaluate"):
            return validate(self._engine, self._task, self._config.validation, self._config.seed, self._progress.step)

    def _point(self, metrics: Mapping[str, float], validation: Validation | None, flags: tuple[str, ...]) -> Point:
        elapsed, phases = self._watch.read()
        progress = self._progress
        progress.seconds += elapsed
        beside = validation.metrics() if validation else {}
        return Point(
            optimizer_step=progress.step,
            rollouts=progress.rollouts,
            tokens=progress.tokens,
            seconds=progress.seconds,
            gpu_hours=progress.seconds * self._config.machine.gpus / SECONDS_PER_HOUR,
            score=validation.mean if validation else None,
            score_standard_error=validation.standard_error if validation else None,
            metrics={**metrics, **beside, "seconds": {**phases, "other": max(0.0, elapsed - sum(phases.values()))}},
            flags=flags,
            further_scores=validation.further if validation else {},
        )


def _staleness(batch: Batch, step: int) -> dict[str, float]:
    """Return by how many updates the weights that wrote the tokens were behind those that train on them."""
    if batch.oldest_version is None:
        return {"staleness": 0.0, "staleness_mean": 0.0}
    behind = step - batch.versions[batch.mask].double()
    return {"staleness": float(behind.max()), "staleness_mean": float(behind.mean())}
