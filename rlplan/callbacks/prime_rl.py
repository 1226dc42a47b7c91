"""A monitor of prime-rl's; import this module in what the orchestrator loads, such as an environment of your own."""

from typing import Any

from prime_rl import monitors

from rlplan.callbacks.run_watch import RunWatch


class WatchMonitor(monitors.Monitor):
    """Says what `rlplan watch` would of the run that it is in."""

    def __init__(self, gpus: int | None = None, end: int | None = None) -> None:
        self._watch = RunWatch("prime-rl", gpus=gpus, end=end)

    async def log_metrics(self, metrics: dict[str, Any], step: int) -> None:
        """Take up what is logged of a step."""
        self._watch.see(step, metrics)

    async def log_episodes(self, *episodes: Any, **further: Any) -> None:
        """Pass over texts."""


def _install(module: Any) -> None:
    """Have prime-rl register one monitor more where it registers its own."""
    begin = module.setup

    async def setup(*given: Any, **further: Any) -> None:
        await begin(*given, **further)
        if module.MONITORS:  # none but on the first rank
            config = further.get("run_config")
            module.MONITORS.append(WatchMonitor(end=getattr(config, "max_steps", None)))

    module.setup = setup


_install(monitors)
