"""A logger of verl's: `VERL_USE_EXTERNAL_MODULES=rlplan.callbacks.verl`, and `trainer.logger=[console,rlplan]`."""

from collections.abc import Mapping
from typing import Any

from verl.utils.tracking import Tracking

from rlplan.callbacks.run_watch import RunWatch

NAME = "rlplan"


class WatchLogger:
    """Says what `rlplan watch` would of the run that it is in."""

    def __init__(self, config: Mapping[str, Any] | None) -> None:
        settings = (config or {}).get("trainer") or {}
        gpus = (settings.get("nnodes") or 1) * settings["n_gpus_per_node"] if settings.get("n_gpus_per_node") else None
        self._watch = RunWatch("verl", gpus=gpus, end=settings.get("total_training_steps"))

    def log(self, data: Mapping[str, Any], step: int) -> None:
        """Take up what verl logs of a step."""
        self._watch.see(step, data)


def _install(tracking: Any) -> None:
    """Have verl's class know one logger more."""
    begin = tracking.__init__

    def begun(
        self: Any, project_name: str, experiment_name: str, default_backend: Any = "console", config: Any = None
    ) -> None:
        begin(self, project_name, experiment_name, default_backend, config)
        if NAME in ([default_backend] if isinstance(default_backend, str) else default_backend):
            self.logger[NAME] = WatchLogger(config)

    tracking.supported_backend = [*tracking.supported_backend, NAME]
    tracking.__init__ = begun


_install(Tracking)
