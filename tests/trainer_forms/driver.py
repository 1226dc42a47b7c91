"""A stand-in that writes what another trainer does, so that the other's driver reads real processes' files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from runner.ports.trial import TrialConfig
from runner.trainers.base import Driver
from runner.trainers.catalogue import driver_of
from runner.trainers.command.driver import CommandDriver
from runner.trainers.driver import Attempt, Checkpoint, Launch, Source
from runner.trainers.job import validation_steps
from runner.trainers.launch import in_own_ray
from runner.trainers.prime_rl.log import metrics_of
from runner.trainers.standin.driver import StandinDriver, StandinOptions
from runner.trainers.verl.job import scores_folder


class FormOptions(BaseModel, extra="forbid"):
    """Whose files are written, with that trainer's options, and whether in a Ray of the trial's own."""

    trainer: str
    options: dict[str, Any] = {}
    own_ray: bool = False


class FormDriver(StandinDriver):
    """The stand-in whose metrics and checkpoints the named trainer's driver reads."""

    program = "tests.trainer_forms.process"

    def __init__(self, config: TrialConfig, options: StandinOptions) -> None:
        super().__init__(config, options)
        self.form = FormOptions.model_validate(options.options)
        self.trainer: Any = driver_of(self.of_trainer(config))

    def of_trainer(self, config: TrialConfig) -> TrialConfig:
        update = {"name": self.form.trainer, "options": self.form.options}
        return config.model_copy(update={"trainer": config.driven_by.model_copy(update=update)})

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch:
        launch = super().launch(config, attempt, rank)
        if isinstance(self.trainer, CommandDriver):
            other = self.trainer.launch(self.of_trainer(config), attempt, rank)
            launch = Launch(launch.argv, {**launch.files, **(other.files if other else {})}, launch.environment)
        patience = config.driven_by.patience
        return in_own_ray(launch, attempt, rank, launch.argv[0], 0, patience) if self.form.own_ray else launch

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        found: Sequence[Source] = self.trainer.sources(self.of_trainer(config), attempt)
        return found

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        found: Sequence[Checkpoint] = self.trainer.checkpoints(self.of_trainer(config), folder)
        return found

    def run(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return what the process is given, with what this trainer's files are called."""
        run = super().run(config, attempt) | {"form": self.form.trainer}
        config = self.of_trainer(config)
        command = isinstance(self.trainer, CommandDriver)
        run |= self._of_command(config, attempt) if command else self._of_driver(config)
        validation = {"problems": config.validation.problems, "samples": config.validation.samples}
        run |= {"scores": scores_folder(attempt), "validation": validation}
        if self.form.trainer == "prime-rl":
            parts = {"metrics": metrics_of(attempt, "orchestrator"), "trainer_metrics": metrics_of(attempt, "trainer")}
            run |= {name: str(path) for name, path in parts.items()}
            run |= {"traces": str(attempt.folder / "run/rollouts"), "validate_every": validation_steps(config)}
        return run

    def _of_command(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        options = self.trainer.options
        return {
            "metrics": self.trainer.pattern(config, attempt).replace("*", "standin").replace("?", "x"),
            "table": options.metrics.format == "csv",
            "columns": {ours: theirs for theirs, ours in options.metrics.names.items()},
            "checkpoint": options.checkpoints.pattern,
            "mark": options.checkpoints.complete,
        }

    def _of_driver(self, config: TrialConfig) -> dict[str, Any]:
        driver: Driver[Any] = self.trainer
        layout = driver.layout
        return {
            "checkpoint": layout.pattern,
            "tracker": layout.tracker,
            "holds": driver.holds(config),
            "mark": layout.mark,
            "updates": driver.updates_per_step(config),
            "names": [driver.log.metrics[name][0] for name in ("loss", "response_tokens")],
        }
