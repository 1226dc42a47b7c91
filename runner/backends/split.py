"""The backend whose generator and trainer are two Ray actors that work at the same time."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from budgets.errors import CheckpointError, InputError, TrainingError
from runner.asynchronous.actors import Delays, GeneratorHalf, TrainerHalf
from runner.backends.same_trial import compare, require_free
from runner.ports.backend import Point, Segment
from runner.ports.trial import TrialConfig
from runner.training import checkpoints


class SplitBackend:
    """GRPO with the generator–trainer split of PipelineRL-k; which weights write which token depends on timing."""

    def __init__(self, delays: Delays | None = None) -> None:
        self._delays = delays or Delays()
        self._generator: Any = None
        self._trainer: Any = None
        self._scored = False
        self.notes: tuple[str, ...] = ()

    def start(self, config: TrialConfig, folder: Path) -> None:
        """Start both actors for a fresh trial; a folder that holds a trial already is refused."""
        require_free(folder)
        self._open(config, folder)

    def advance(self, segment: Segment) -> Iterator[Point]:
        """Train up to the segment's last step, yielding points as the trainer makes them."""
        if self._trainer is None:
            raise InputError("no trial is open: start or restore one first")
        for reference in self._trainer.advance.remote(segment.to_step):
            point: Point = _got(reference)
            self._scored = True
            yield point

    def checkpoint(self) -> Path:
        """Save the trial between two updates, with the batches that wait."""
        if not self._scored:
            raise CheckpointError("a trial that has not scored its base model has nothing to save: advance it first")
        return Path(_got(self._trainer.checkpoint.remote()))

    def restore(self, config: TrialConfig, folder: Path) -> int:
        """Go on from the newest sound checkpoint; `notes` says what was passed over."""
        restored = checkpoints.load(folder)
        self.notes = (*restored.notes, *compare(restored.state["config"], config.model_dump(mode="json")))
        self._open(config, folder)
        step: int = _got(self._trainer.restore.remote(restored.state["trainer"]))
        self._scored = True
        return step

    def close(self) -> None:
        """Stop both actors; the Ray cluster stays."""
        import ray  # noqa: PLC0415

        for actor in (self._trainer, self._generator):
            if actor is not None:
                with suppress(TrainingError):  # it has died: there is nothing left to free
                    _got(actor.close.remote())
                ray.kill(actor)
        self._trainer = self._generator = None

    def _open(self, config: TrialConfig, folder: Path) -> None:
        import ray  # noqa: PLC0415

        if config.recipe.schedule.staleness_bound < 1:
            raise InputError(
                f"recipe '{config.recipe.name}' has schedule.staleness_bound = 0: a generator beside the trainer is at "
                "least one update behind. Take a recipe such as scalerl, or run generator and trainer in one process"
            )
        self.close()
        if not ray.is_initialized():
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        gpus = 1 if config.machine.device == "cuda" else 0
        # Threads: `take` and `hold` wait inside the actor while `push` must still get in.
        generator = ray.remote(GeneratorHalf).options(num_cpus=1, num_gpus=gpus, max_concurrency=4)
        self._generator = generator.remote()
        self._trainer = ray.remote(TrainerHalf).options(num_cpus=1, num_gpus=gpus).remote()
        opening = [
            self._generator.open.remote(config, self._delays.generate),
            self._trainer.open.remote(config, str(folder), self._generator, self._delays.train),
        ]
        for reference in opening:
            _got(reference)


def _got(reference: Any) -> Any:
    """Return a remote result; an error of ours crosses as itself and not as Ray's."""
    import ray  # noqa: PLC0415

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayActorError as error:
        last = str(error).strip().splitlines()[-1]
        raise TrainingError("lost", f"a process of the trial died ({last}); resume it from its checkpoint") from error
