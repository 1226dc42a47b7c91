"""Trains a trial on a Tinker service with rlplan's own loop, and waits at the gate; the driver starts it."""

import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from budgets.errors import CheckpointError, InputError, NotFoundError, TrainingError
from planner.config.cost import TokenPrices
from runner.ports.backend import Point
from runner.ports.trial import TrialConfig
from runner.tasks.task_loader import open_task
from runner.trainers.driver import GATE, WAITING
from runner.trainers.tinker.service import Service, lacks
from runner.trainers.tinker.training import NoWeights, ServiceEngine, ServiceUpdater, loss_of
from runner.trainers.trainer_process import MetricsWriter, write_whole
from runner.training import checkpoints
from runner.training.collector import BatchSource, Collector
from runner.training.components import open_stream
from runner.training.trainer import Trainer
from runner.training.trial import Stopwatch

FOLDER = Path.cwd()  # the trial's, where it is started
_LOOK, _SLOWEST_LOOK = 0.02, 1.0  # seconds between looks at the gate, at first and in the end


class Session:
    """One attempt of a trial."""

    def __init__(self, run: dict[str, Any]) -> None:
        """Open the service and the task, and stand where the newest checkpoint does."""
        self._run, self._config = run, TrialConfig.model_validate(run["config"])
        config, self._service = self._config, Service(run)
        lacking = list(lacks(self._service.schema, config.recipe, *loss_of(config)))
        if lacking and not config.driven_by.approximate:
            raise InputError(f"{run['base_url']}: {'; '.join(lacking)}. With --approximate it is run so")
        task = open_task(config.task, config.seed, config.validation.problems)
        engine = ServiceEngine(self._service, task.tokenizer.end_id, task.tokenizer.pad_id)
        stream = open_stream(config, task)
        source = BatchSource(Collector(config, task, engine, stream), stream, config.recipe.schedule.staleness_bound)
        updater: Any = ServiceUpdater(config, self._service, task.max_response_tokens)
        model: Any = NoWeights()
        self._trainer = Trainer(config, task, model, engine, source, updater, Stopwatch())
        self._counted = dict(self._service.tokens)
        self._writer = MetricsWriter(FOLDER, run)
        if run["from_step"]:
            self._trainer.restore(checkpoints.load(FOLDER).state["trainer"])
        else:
            self._service.open_adapter(None)

    def train(self) -> None:
        """Train as far as the gate lets it, for as long as it is driven."""
        trainer, writer = self._trainer, self._writer
        writer.begin(max(0, trainer.step))
        if trainer.step < 0:
            self._report(next(trainer.points(0)))
        while True:
            if trainer.step >= self._gate():
                self._save()
                self._wait()
            self._report(next(trainer.points(trainer.step + 1)))
            if writer.save_is_due(trainer.step):
                self._save()

    def _report(self, point: Point) -> None:
        """Write the line of a point, with the tokens that it took."""
        used = {name: count - self._counted[name] for name, count in self._service.tokens.items()}
        self._counted = dict(self._service.tokens)
        prices = TokenPrices.model_validate(self._run["per_million"] or {}).dollars(used)
        charged = {} if prices is None else {"service_dollars": prices}
        numbers = {name: value for name, value in point.metrics.items() if isinstance(value, int | float)}
        tokens = {f"{name}_tokens": count for name, count in used.items()}
        self._writer.say(
            point.optimizer_step,
            score=point.score,
            score_standard_error=point.score_standard_error,
            metrics={**numbers, **tokens, **charged},
            seconds=point.metrics["seconds"],
        )

    def _save(self) -> None:
        checkpoints.save(FOLDER, self._trainer.step, {"trainer": self._trainer.state()})
        self._writer.saved_at = time.monotonic()

    def _gate(self) -> int:
        """Return up to which step it may train; 0 when it is to stop."""
        with suppress(OSError, ValueError):
            return int(json.loads((FOLDER / GATE).read_text(encoding="utf-8"))["to_step"])
        return 0

    def _wait(self) -> None:
        """Wait with the adapter on the service until the gate is further on."""
        step, waiting, since = self._trainer.step, FOLDER / WAITING, time.monotonic()
        write_whole(waiting, {"step": step})
        while (gate := self._gate()) <= step:
            if gate == 0 and not waiting.exists():  # asked to stop before it had gone on
                write_whole(waiting, {"step": step})
            time.sleep(min(_SLOWEST_LOOK, max(_LOOK, (time.monotonic() - since) / 10)))
        waiting.unlink(missing_ok=True)


def main() -> None:
    """Train, and say why it ended."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        Session(json.loads((FOLDER / sys.argv[1]).read_text(encoding="utf-8"))).train()
    except TrainingError as error:
        _end(error.kind, error)
    except CheckpointError as error:
        _end("checkpoint", error)
    except (InputError, NotFoundError, ImportError) as error:
        _end("input", error)


def _end(kind: str, error: Exception) -> None:
    """End at once: a call to the service may still be in flight."""
    print(f"rlplan {kind}: {' '.join(str(error).split())}", flush=True)  # noqa: T201  (the driver reads it)
    os._exit(2 if kind == "input" else 3)


def _end_with(parent: int) -> None:
    """End when the process that started this one is gone, which may have had no time to say so."""
    while os.getppid() == parent:
        time.sleep(_SLOWEST_LOOK)
    os._exit(1)


if __name__ == "__main__":
    main()
