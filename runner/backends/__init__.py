"""The backends of trials: `open_backend` has the one that a configuration asks for."""

from planner.config.trainer import BUILTIN
from runner.ports.backend import TrainerBackend
from runner.ports.trial import TrialConfig


def open_backend(config: TrialConfig) -> TrainerBackend:
    """Return a backend for the configuration, with nothing started yet."""
    if config.trainer is not None and config.trainer.name != BUILTIN:
        from runner.trainers.backend import DrivenBackend  # noqa: PLC0415
        from runner.trainers.catalogue import driver_of  # noqa: PLC0415
        from runner.trainers.hosts import hosts_of_this_trial  # noqa: PLC0415

        return DrivenBackend(driver_of(config), hosts_of_this_trial(config.machine.nodes))
    if config.simulation is not None:
        from runner.backends.simulated import SimulatedBackend  # noqa: PLC0415

        return SimulatedBackend()
    from runner.backends.builtin import BuiltinBackend  # noqa: PLC0415

    return BuiltinBackend()
