"""What rlplan knows of prime-rl 0.8: how its launcher is started, what it says, and which checkpoints are whole."""

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from planner.recipes.schema import Recipe
from runner.ports.trial import TrialConfig
from runner.trainers.ability import Difference
from runner.trainers.driver import Attempt, Checkpoint, Launch, Source
from runner.trainers.driving import as_done, complete, judged_files, opened_task, started, validation_steps
from runner.trainers.facts import nested
from runner.trainers.prime_rl.configuration import RUN, TASKSET, VALIDATION, keys_of, metrics_of
from runner.trainers.prime_rl.following import StepSource
from runner.trainers.prime_rl.recipe import differences

_PATTERN = f"{RUN}/checkpoints/step_{{step}}"
_HOLDS = ("trainer/.metadata", "orchestrator/progress.pt")  # each written last, by its own part
_REFUSED = re.compile(
    r"validation errors? for |FileExistsError: Run directory|GPU\(s\) are available|ValueError: .*port"
)


class PrimeRlDriver:
    """prime-rl's launcher by start.py, which ends at max_steps."""

    name = "prime-rl"
    stop_signal = None  # on SIGTERM it ends without a checkpoint
    gated = False

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that it cannot run, keys that it has not, and a task that cannot be opened."""
        config = self._as_done(config)
        keys_of(config, opened_task(config), Attempt(Path("/"), 1, 0, 1, None))

    def differences(self, recipe: Recipe) -> Sequence[Difference]:
        """Return what it does otherwise."""
        return list(differences(recipe))

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start the launcher, which starts everything else on this host."""
        config = self._as_done(config)
        task, own = opened_task(config), files("runner.trainers.prime_rl")
        written = {
            **judged_files(config, task),
            **{name: own.joinpath(name).read_text(encoding="utf-8") for name in ("start.py", f"{TASKSET}.py")},
            "rl.json": json.dumps(nested(keys_of(config, task, attempt)), indent=1),
        }
        argv = ("start.py", "prime_rl.entrypoints.rl", "@", "rl.json")
        return started(config, attempt, rank, argv, written)

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return its two files of metrics as one."""
        written = (metrics_of(attempt, "orchestrator"), metrics_of(attempt, "trainer"))
        rollouts = attempt.folder / RUN / "rollouts"
        return [StepSource(attempt, written, rollouts, validation_steps(config), VALIDATION)]

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those that both of its parts have finished."""
        return complete(folder, _PATTERN, holds=_HOLDS)

    def form(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return where a stand-in writes."""
        return {
            "metrics": str(metrics_of(attempt, "orchestrator")),
            "trainer_metrics": str(metrics_of(attempt, "trainer")),
            "traces": str(attempt.folder / RUN / "rollouts"),
            "validation": VALIDATION,
            "samples": config.validation.samples,
            "validate_every": validation_steps(config),
            "checkpoint": _PATTERN,
            "holds": list(_HOLDS),
        }

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Return a refusal of its configuration in its own words."""
        said = [line.strip() for line in tail.splitlines() if _REFUSED.search(line)]
        return ("input", f"prime-rl refused its configuration: {said[-1][:300]}") if said else None

    def _as_done(self, config: TrialConfig) -> TrialConfig:
        return as_done(config, "prime-rl", self.differences)


JUDGE = PrimeRlDriver()


def driver(config: TrialConfig) -> PrimeRlDriver:
    """Return the driver."""
    return PrimeRlDriver()
