"""The two halves of a split trial as Ray actors, and the trainer's view of the generator."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.asynchronous.generator import Delivery, Generator
from runner.policy.loading import load_model
from runner.ports.backend import Point
from runner.ports.engine import Weights
from runner.ports.trial import TrialConfig
from runner.tasks.opening import open_task
from runner.training import checkpoints
from runner.training.batch import Batch
from runner.training.building import assemble, open_engine, open_stream, use_threads
from runner.training.collecting import Collector
from runner.training.sources import Prepare
from runner.training.stopwatch import Stopwatch


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds by which each half is slowed, to study staleness and to test its bound."""

    generate: float = 0.0
    train: float = 0.0


class GeneratorHalf:
    """Lives in its own process: a task, an engine with weights of its own, and the generating thread."""

    def open(self, config: TrialConfig, delay: float) -> None:
        """Load everything; not in the constructor, because Ray hides what a constructor raises."""
        use_threads(config)
        self._task = open_task(config.task, config.seed, config.validation.problems)
        model = load_model(self._task.model_path, device=config.machine.device)
        self._engine = open_engine(config, self._task, model)
        stream = open_stream(config, self._task)
        collector = Collector(config, self._task, self._engine, stream)
        bound = config.recipe.schedule.staleness_bound
        self._generator = Generator(self._engine, collector, stream, bound, lambda: time.sleep(delay))

    def start(self) -> None:
        """Begin to generate."""
        self._generator.start()

    def take(self) -> Delivery:
        """Return the oldest batch."""
        return self._generator.take()

    def push(self, weights: dict[str, Any], version: int) -> None:
        """Take new weights."""
        self._generator.push(weights, version)

    def hold(self) -> dict[str, Any]:
        """Pause between two batches and return the state."""
        return self._generator.hold()

    def release(self) -> None:
        """Go on."""
        self._generator.release()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._generator.restore(state)

    def close(self) -> None:
        """Stop and free everything."""
        self._generator.close()
        self._engine.close()
        self._task.reward.close()


class RemoteSource:
    """Batches from a generator in another process."""

    def __init__(self, generator: Any, delay: float) -> None:
        self._generator = generator
        self._delay = delay
        self._started = False
        self._metrics: dict[str, float] = {}

    def next(self, prepare: Prepare, watch: Stopwatch) -> Batch:
        """Return the oldest batch, waiting for it if the generator is slower."""
        import ray  # noqa: PLC0415

        if not self._started:
            ray.get(self._generator.start.remote())
            self._started = True
        began = time.monotonic()
        with watch.phase("wait"):
            delivery: Delivery = ray.get(self._generator.take.remote())
        self._metrics = {
            "queue_depth": float(delivery.waiting),
            "trainer_wait_seconds": time.monotonic() - began,
            "generator_wait_seconds": delivery.waited_seconds,
            "epoch": float(delivery.epoch),
            "retired_prompts": float(delivery.retired),
        }
        prepare([delivery.batch])
        time.sleep(self._delay)
        return delivery.batch

    def publish(self, weights: Weights, version: int) -> None:
        """Send the weights of an update; they are with the generator when this returns."""
        import ray  # noqa: PLC0415

        named = {name: tensor.detach().cpu() for name, tensor in weights}
        ray.get(self._generator.push.remote(named, version))

    def metrics(self) -> dict[str, float]:
        """Return how deep the queue is and who waited for whom."""
        return self._metrics

    def state(self) -> dict[str, Any]:
        """Return the generator's state, taken between two batches."""
        import ray  # noqa: PLC0415

        state: dict[str, Any] = ray.get(self._generator.hold.remote())
        ray.get(self._generator.release.remote())
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        import ray  # noqa: PLC0415

        ray.get(self._generator.restore.remote(dict(state)))

    def close(self) -> None:
        """Leave the generator to the process that made it."""


class TrainerHalf:
    """Lives in its own process: the model, its optimizer, and an engine on the same weights for validation."""

    def open(self, config: TrialConfig, folder: str, generator: Any, delay: float) -> None:
        """Load everything."""
        use_threads(config)
        self._folder = Path(folder)
        self._config = config
        watch = Stopwatch()
        task = open_task(config.task, config.seed, config.validation.problems)
        with watch.phase("start"):
            model = load_model(task.model_path, device=config.machine.device)
            beside = config.machine.model_copy(update={"engine": "torch"})  # a second vLLM would take the memory
            self._engine = open_engine(config.model_copy(update={"machine": beside}), task, model)
        source = RemoteSource(generator, delay)
        self._task = task
        self._trainer = assemble(config, task, model, self._engine, source, watch)

    def advance(self, to_step: int) -> Iterator[Point]:
        """Train up to an update, yielding points."""
        yield from self._trainer.points(to_step)

    def checkpoint(self) -> str:
        """Save the trial and return where."""
        state = {"config": self._config.model_dump(mode="json"), "trainer": self._trainer.state()}
        return str(checkpoints.save(self._folder, self._trainer.step, state))

    def restore(self, state: dict[str, Any]) -> int:
        """Go on from a saved state and return its step."""
        self._trainer.restore(state)
        return self._trainer.step

    def close(self) -> None:
        """Free the engine and the reward."""
        self._engine.close()
        self._task.reward.close()
