"""The drivers by their names: each lies in a folder of its own, runner/trainers/NAME/driver.py, and is made there.

A name's hyphens are underscores there.
"""

from importlib import import_module

from runner.ports.trial import TrialConfig
from runner.trainers.driver import TrainerDriver


def driver_of(config: TrialConfig) -> TrainerDriver:
    """Return the driver of the trainer that a trial names: its module's JUDGE, or what `driver` there makes of it."""
    assert config.trainer is not None
    module = import_module(f"runner.trainers.{config.trainer.name.replace('-', '_')}.driver")
    made: TrainerDriver = module.JUDGE if hasattr(module, "JUDGE") else module.driver(config)
    return made
