"""The drivers by their names: a trainer's folder has a table, or a module `driver`, or both.

A name's hyphens are underscores there.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from runner.ports.trial import TrialConfig
from runner.trainers.driver import TrainerDriver
from runner.trainers.spec import TrainerSpec
from runner.trainers.table import RehearsedDriver, TableDriver


def driver_of(config: TrialConfig) -> TrainerDriver:
    """Return the driver of the trainer that a trial names."""
    return named_driver(config.driven_by.name) or import_module(_module(config.driven_by.name)).driver(config)


@cache
def named_driver(name: str) -> TableDriver | None:
    """Return the driver that is the same for all trials; None where a trial's own options make it."""
    if find_spec(_module(name)) is None:
        spec = TrainerSpec.load(name)
        return (RehearsedDriver if spec.rehearses else TableDriver)(spec)
    made: TableDriver | None = getattr(import_module(_module(name)), "JUDGE", None)
    return made


def always_apart(name: str) -> bool:
    """Whether a trainer generates on other GPUs than it trains on, whatever the recipe."""
    driver = named_driver(name)
    return driver is not None and driver.spec.asynchronous == "always"


def _module(name: str) -> str:
    return f"runner.trainers.{name.replace('-', '_')}.driver"
