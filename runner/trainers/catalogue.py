"""The drivers by their names: each lies in a folder of its own, runner/trainers/NAME/driver.py, and is made there.

A name's hyphens are underscores there.
"""

from importlib import import_module

from runner.ports.trial import TrialConfig
from runner.trainers.driver import TrainerDriver


def driver_of(config: TrialConfig) -> TrainerDriver:
    """Return the driver of the trainer that a trial's configuration names, made by its module's `driver`."""
    assert config.trainer is not None
    driver: TrainerDriver = import_module(f"runner.trainers.{config.trainer.name.replace('-', '_')}.driver").driver(
        config
    )
    return driver
