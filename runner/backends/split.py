"""The backend whose generator and trainer are two Ray actors that work at the same time."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from budgets.errors import CheckpointError, InputError, TrainingError
from runner.backends.builtin import BuiltinBackend
from runner.backends.generator import Delivery, Generator
from runner.policy.model import load_model
from runner.ports.backend import Point, Saved, Segment
from runner.ports.engine import Weights
from runner.ports.trial import TrialConfig
from runner.tasks.opening import open_task
from runner.training import checkpoints
from runner.training.batches import Batch, BatchSource, Prepare
from runner.training.building import open_engine, open_stream, use_threads
from runner.training.collecting import Collector
from runner.training.stopwatch import Stopwatch


class GeneratorHalf(Generator):
    """Lives in its own process: a task, an engine with weights of its own, and the generating thread."""

    def __init__(self) -> None:
        """Do nothing: Ray hides what a constructor raises."""

    def open(self, config: TrialConfig) -> None:
        """Load everything."""
        use_threads(config)
        self._task = open_task(config.task, config.seed, config.validation.problems)
        model = load_model(self._task.model_path, device=config.machine.device)
        engine = open_engine(config, self._task, model)
        stream = open_stream(config, self._task)
        collector = Collector(config, self._task, engine, stream)
        super().__init__(engine, collector, stream, config.recipe.schedule.staleness_bound)

    def close(self) -> None:
        """Stop and free everything."""
        super().close()
        self._engine.close()
        self._task.reward.close()


class RemoteSource:
    """Batches from a generator in another process."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._started = False
        self._metrics: dict[str, float] = {}

    def next(self, prepare: Prepare, watch: Stopwatch) -> Batch:
        """Return the oldest batch, waiting for it if the generator is slower."""
        import ray

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
        return delivery.batch

    def publish(self, weights: Weights, version: int) -> None:
        """Send the weights of an update; they are with the generator when this returns."""
        import ray

        named = {name: tensor.detach().cpu() for name, tensor in weights}
        ray.get(self._generator.push.remote(named, version))

    def metrics(self) -> dict[str, float]:
        """Return how deep the queue is and who waited for whom."""
        return self._metrics

    def state(self) -> dict[str, Any]:
        """Return the generator's state, taken between two batches."""
        import ray

        state: dict[str, Any] = ray.get(self._generator.hold.remote())
        ray.get(self._generator.release.remote())
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        import ray

        ray.get(self._generator.restore.remote(dict(state)))

    def close(self) -> None:
        """Leave the generator to the process that made it."""


class TrainerHalf(BuiltinBackend):
    """Lives in its own process: the trainer, whose batches come from the generator."""

    def connect(self, generator: Any) -> None:
        """Take batches from a generator from now on; not in the constructor, because Ray hides what it raises."""
        self._source = RemoteSource(generator)

    def _elsewhere(self) -> BatchSource:
        return self._source


class SplitBackend:
    """GRPO with the generator–trainer split of PipelineRL-k; which weights write which token depends on timing."""

    saves_itself = False

    def __init__(self) -> None:
        self._generator: Any = None
        self._trainer: Any = None
        self._step: int | None = None  # None before the base model is scored
        self.notes: tuple[str, ...] = ()

    def start(self, config: TrialConfig, folder: Path) -> None:
        """Start both actors for a fresh trial; a folder that holds a trial already is refused."""
        checkpoints.require_free(folder)
        opening = self._open(config)
        starting = self._trainer.start.remote(config, folder)  # both load at the same time
        _got(opening)
        _got(starting)

    def advance(self, segment: Segment) -> Iterator[Point]:
        """Train up to the segment's last step, yielding points as the trainer makes them."""
        if self._trainer is None:
            raise InputError("no trial is open: start or restore one first")
        while self._step is None or self._step < segment.to_step:
            # One update at a time: the trainer works ahead elsewhere, and can be stopped and saved after each this way.
            ahead = Segment(0 if self._step is None else self._step + 1)
            for reference in self._trainer.advance.remote(ahead):
                point: Point = _got(reference)
                self._step = point.optimizer_step
                yield point
            if segment.stopping():
                return

    def checkpoint(self) -> Saved:
        """Save the trial between two updates, with the batches that wait."""
        if self._step is None:
            raise CheckpointError("a trial that has not scored its base model has nothing to save: advance it first")
        saved: Saved = _got(self._trainer.checkpoint.remote())
        return saved

    def restore(self, config: TrialConfig, folder: Path) -> int:
        """Go on from the newest sound checkpoint; `notes` says what was passed over."""
        self.notes = checkpoints.resumed(folder, config).notes
        _got(self._open(config))
        step: int = _got(self._trainer.restore.remote(config, folder))
        self._step = step
        return step

    def close(self) -> None:
        """Stop both actors; the Ray cluster stays."""
        import ray

        for actor in (self._trainer, self._generator):
            if actor is not None:
                with suppress(TrainingError):  # it has died: there is nothing left to free
                    _got(actor.close.remote())
                ray.kill(actor)
        self._trainer = self._generator = None

    def _open(self, config: TrialConfig) -> Any:
        """Make both actors, and return what tells when the generator is open."""
        import ray

        if config.recipe.schedule.staleness_bound < 1:
            raise InputError(
                f"recipe '{config.recipe.name}' has schedule.staleness_bound = 0: a generator beside the trainer is at "
                "least one update behind. Take a recipe such as scalerl, or run generator and trainer in one process"
            )
        self.close()
        if not ray.is_initialized():
            ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        gpus = 1 if config.machine.device == "cuda" else 0
        # Threads: `take` and `hold` wait inside the actor while `push` must still get in.
        generator = ray.remote(GeneratorHalf).options(num_cpus=1, num_gpus=gpus, max_concurrency=4)
        self._generator = generator.remote()
        self._trainer = ray.remote(TrainerHalf).options(num_cpus=1, num_gpus=gpus).remote()
        self._trainer.connect.remote(self._generator)
        return self._generator.open.remote(config)


def _got(reference: Any) -> Any:
    """Return a remote result; an error of ours crosses as itself and not as Ray's."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayActorError as error:
        last = str(error).strip().splitlines()[-1]
        raise TrainingError("lost", f"a process of the trial died ({last}); resume it from its checkpoint") from error
