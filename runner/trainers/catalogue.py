"""The drivers by their names, and what is asked of a trial whoever trains it.

Each trainer's folder has a module `driver`; a name's hyphens are underscores there.
"""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from planner.config.trainer import BUILTIN, COMMAND, STANDIN, TRAINERS
from runner.ports.trial import TrialConfig
from runner.trainers.base import Driver
from runner.trainers.checkpoints import (
    FOLDER,
    IDENTITY,
    remove,
)
from runner.trainers.driver import TrainerDriver
from runner.training import checkpoints
from runner.training.trial import METRICS

NAMED = tuple(sorted({*TRAINERS} - {BUILTIN, COMMAND, STANDIN}))  # those that have one driver for all trials


def driver_of(config: TrialConfig) -> TrainerDriver:
    """Return the driver of the trainer that a trial names."""
    return named_driver(config.driven_by.name) or _module(config.driven_by.name).driver(config)


@cache
def named_driver(name: str) -> Driver[Any] | None:
    """Return the driver that is the same for all trials; None where a trial's own options make it."""
    driver: Driver[Any] | None = getattr(_module(name), "DRIVER", None)
    return driver


def always_apart(name: str) -> bool:
    """Whether a trainer generates on other GPUs than it trains on, whatever the recipe."""
    driver = named_driver(name)
    return driver is not None and driver.asynchronous == "always"


def horizon_of(config: TrialConfig) -> int | None:
    """Return the update that a trial's data last to; None where they never end."""
    trainer = config.trainer
    driver = None if trainer is None else named_driver(trainer.name)
    if trainer is None or driver is None or not driver.horizon:
        return None
    return int(trainer.options.get("horizon_steps", driver.Options.model_fields["horizon_steps"].default))


def reaching(config: TrialConfig, to_step: int) -> TrialConfig:
    """Return a trial from the base model whose data are long enough; the same one where they are, or it needs none.

    Longer data have another order, so that no checkpoint made with a shorter one is gone on from.
    """
    horizon, trainer = horizon_of(config), config.trainer
    if trainer is None or horizon is None or to_step <= horizon:
        return config
    longer = trainer.model_copy(update={"options": {**trainer.options, "horizon_steps": to_step}})
    return config.model_copy(update={"trainer": longer})


def _module(name: str) -> Any:
    return import_module(f"runner.trainers.{name.replace('-', '_')}.driver")


def checkpoints_of(config: TrialConfig, folder: Path) -> list[tuple[int, tuple[Path, ...]]]:
    """Return the complete checkpoints in a trial's folder, the newest first, each with all that it needs to go on."""
    points = [path for path in (folder / METRICS,) if path.exists()]
    if config.trainer is None:
        return [(saved.step, (saved.path, *points)) for saved in checkpoints.saved(folder)]
    trainer_folder = folder / FOLDER
    saves = driver_of(config).checkpoints(config, trainer_folder) if trainer_folder.is_dir() else ()
    return [(save.step, (save.path, *save.beside, trainer_folder / IDENTITY, *points)) for save in saves]


def newest_step(config: TrialConfig, folder: Path) -> int | None:
    """Return the step of the newest complete checkpoint in a trial's folder."""
    return next((step for step, _ in checkpoints_of(config, folder)), None)


def remove_checkpoints(config: TrialConfig, folder: Path) -> None:
    """Remove a trial's checkpoints, whoever trained it; its points and logs stay."""
    checkpoints.remove(folder)
    trainer_folder = folder / FOLDER
    if config.trainer is not None and trainer_folder.is_dir():
        remove(driver_of(config).checkpoints(config, trainer_folder))
