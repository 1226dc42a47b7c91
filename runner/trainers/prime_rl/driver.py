"""What rlplan knows of prime-rl 0.8: how its launcher is started, what it says, and which checkpoints are whole."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt, Launch, Source
from runner.trainers.driving import STEP, opened_task, started, validation_steps
from runner.trainers.facts import nested
from runner.trainers.failures import OUT_OF_MEMORY
from runner.trainers.laying import judged_files, programs
from runner.trainers.named import NamedDriver
from runner.trainers.prime_rl.configuration import RUN, TASKSET, VALIDATION, keys_of, metrics_of
from runner.trainers.prime_rl.following import StepSource
from runner.trainers.prime_rl.recipe import differences

_REFUSED = re.compile(
    r"validation errors? for |FileExistsError: Run directory|GPU\(s\) are available|ValueError: .*port"
)


class PrimeRlDriver(NamedDriver):
    """prime-rl's launcher by start.py, which ends at max_steps; on SIGTERM it ends without a checkpoint."""

    name = title = "prime-rl"
    otherwise = staticmethod(differences)
    pattern = f"{RUN}/checkpoints/step_{STEP}"
    holds = ("trainer/.metadata", "orchestrator/progress.pt")  # each written last, by its own part
    words = ((_REFUSED, "input"), (OUT_OF_MEMORY, "out-of-memory"))

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that it cannot run, keys that it has not, and a task that cannot be opened."""
        config = self.as_done(config)
        keys_of(config, opened_task(config), Attempt(Path("/"), 1, 0, 1, None))

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start the launcher, which starts everything else on this host."""
        config = self.as_done(config)
        task = opened_task(config)
        written = {
            **judged_files(config, task),
            **programs("prime_rl", "start.py", f"{TASKSET}.py"),
            "rl.json": json.dumps(nested(keys_of(config, task, attempt)), indent=1),
        }
        argv = ("start.py", "prime_rl.entrypoints.rl", "@", "rl.json")
        return started(config, attempt, rank, argv, written)

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return its two files of metrics as one."""
        written = (metrics_of(attempt, "orchestrator"), metrics_of(attempt, "trainer"))
        rollouts = attempt.folder / RUN / "rollouts"
        return [StepSource(attempt, written, rollouts, validation_steps(config), VALIDATION)]

    def form(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return where a stand-in writes."""
        return super().form(config, attempt) | {
            "metrics": str(metrics_of(attempt, "orchestrator")),
            "trainer_metrics": str(metrics_of(attempt, "trainer")),
            "traces": str(attempt.folder / RUN / "rollouts"),
            "validation": VALIDATION,
            "samples": config.validation.samples,
            "validate_every": validation_steps(config),
        }


JUDGE = PrimeRlDriver()
