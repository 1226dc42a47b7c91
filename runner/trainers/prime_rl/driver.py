"""What a table cannot say of prime-rl: its ports, its two files of metrics, and who has a run in W&B."""

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt, Source
from runner.trainers.driving import validation_steps
from runner.trainers.in_own_ray import port_range
from runner.trainers.prime_rl.following import StepSource
from runner.trainers.spec import TrainerSpec
from runner.trainers.table import RehearsedDriver

_PORTS, _EACH, _GROUPS = 10_000, 64, 300  # the first, how many a trial has, and how many trials
_LEAST = 8  # that a trial takes
AGENT = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}


class PrimeRlDriver(RehearsedDriver):
    """prime-rl's launcher, which starts everything else on its host."""

    def further(self, config: TrialConfig, task: Task, attempt: Attempt, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the first port, the environments, and the parts whose monitor the user switches on by a setting."""
        options = values["options"]
        wandb = [
            part for part in ("trainer", "orchestrator") if f"{part}.monitors.wandb." in " ".join(options.settings)
        ]
        own, validating = options.environment, options.validation_environment
        return {
            "port": options.first_port or first_port(attempt),
            "wandb": wandb,
            "name": self.name,
            "trained_in": own,
            "validation_in": validating,
            "train_env": environment(own, "train", config.seed),
            "validation_env": environment(validating or own, "validation", config.seed),
        }

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return its two files of metrics as one."""
        written = (metrics_of(attempt, "orchestrator"), metrics_of(attempt, "trainer"))
        return [StepSource(attempt, written, attempt.folder / "run/rollouts", validation_steps(config), "validation")]


def environment(given: dict[str, Any] | None, split: str, seed: int) -> dict[str, Any]:
    """Return an environment of verifiers: the user's own, or ours, which asks the trial's problems.

    Who plays is a model that is asked, without tools of a harness, unless the environment says so.
    """
    own = given or {"taskset": {"id": "rlplan_taskset", "split": split, "seed": seed}}
    return own if own.keys() - {"taskset"} else {**own, "agent": AGENT}


def metrics_of(attempt: Attempt, component: str) -> Path:
    """Return where a component of an attempt writes its metrics: its file is opened to append."""
    return attempt.folder / f"attempt-{attempt.number}.{component}.jsonl"


def first_port(attempt: Attempt) -> int:
    """Return the first of a trial's ports, which no other trial has on a host: no two have the same GPU.

    Of the user's range each has as many as it takes.
    """
    first = attempt.gpus[0].split(",")[0] if attempt.gpus else ""
    group = int(first) if first.isdigit() else zlib.crc32(f"{attempt.folder}/{first}".encode()) % _GROUPS
    allowed = port_range()
    if allowed is None:
        return _PORTS + _EACH * (group % _GROUPS)
    return allowed[0] + _LEAST * (group % ((allowed[1] - allowed[0] + 1) // _LEAST))


JUDGE = PrimeRlDriver(TrainerSpec.load("prime-rl"))
