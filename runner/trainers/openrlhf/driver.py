"""What a table cannot say of OpenRLHF: DeepSpeed's tag has a file of its own."""

from collections.abc import Mapping
from typing import Any

from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.spec import TrainerSpec
from runner.trainers.table import RehearsedDriver


class OpenRlhfDriver(RehearsedDriver):
    """OpenRLHF's train_ppo_ray."""

    def laid(self, config: TrialConfig, task: Task, attempt: Attempt, values: Mapping[str, Any]) -> dict[str, str]:
        """Return also the tag that a resumed attempt loads: the one before may have been put aside."""
        tag = {} if attempt.checkpoint is None else {"checkpoints/_actor/latest": attempt.checkpoint.name}
        return super().laid(config, task, attempt, values) | tag


JUDGE = OpenRlhfDriver(TrainerSpec.load("openrlhf"))
