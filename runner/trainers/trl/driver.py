"""What a table cannot say of TRL 1.16: it waits at the gate, and runs on CPUs too."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from budgets.errors import InputError
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.driving import meeting_port
from runner.trainers.inside import MARK
from runner.trainers.spec import TrainerSpec
from runner.trainers.table import RehearsedDriver
from runner.training.building import rates_in_order


class TrlDriver(RehearsedDriver):
    """TRL's GRPOTrainer by train.py."""

    gated, trains_on = True, False

    def given(self, config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, Any]:
        """Return an attempt's values; with tools a prompt may be as long as the user says."""
        longest = config.task.prompt_length
        if longest is not None and config.driven_by.options.keys() & {"environment", "tools"}:
            task = replace(task, max_prompt_tokens=longest)
        return super().given(config, task, attempt)

    def further(self, config: TrialConfig, task: Task, attempt: Attempt, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return where its processes meet, the order of the prompts, what a checkpoint says, and what is played in."""
        options, checkpoint = values["options"], attempt.checkpoint
        accelerate = None if options.accelerate is None else Path(options.accelerate).expanduser().absolute()
        if accelerate is not None and not accelerate.is_file():
            raise InputError(f"[trainer.options] accelerate = '{options.accelerate}': there is no file {accelerate}")
        mark = checkpoint and json.loads((checkpoint / MARK).read_text(encoding="utf-8"))
        return {
            "hosts": attempt.hosts,
            "port": meeting_port(attempt),
            "threads": int(config.driven_by.environment.get("OMP_NUM_THREADS", config.machine.threads)),
            "accelerate": accelerate and str(accelerate),
            "pass_rates": rates_in_order(config, task),
            "saved_length": mark and mark["response_tokens"],
            "environment": options.environment and _reference("environment", options.environment),
            "tools": [_reference("tools", each) for each in options.tools or ()],
            "prompt_length": config.task.prompt_length,
        }

    def plan(
        self, config: TrialConfig, task: Task, values: Mapping[str, Any], settings: Mapping[str, Any], apart: int
    ) -> Any:
        """Return the memory plan; on a CPU nothing is planned."""
        if config.machine.device == "cpu":
            return SimpleNamespace(tokens=config.machine.micro_batch_tokens, offload=None, engine_gpus=1)
        return super().plan(config, task, values, settings, apart)


def _reference(option: str, given: str) -> str:
    """Return a name that TRL's own environment can load, where a file's is absolute."""
    place, _, name = given.rpartition(":")
    if not place or not name.isidentifier():
        raise InputError(
            f"[trainer.options] {option} = '{given}': give it as package.module:name or path/to/file.py:name"
        )
    file = Path(place).expanduser().absolute()
    if not place.endswith(".py"):
        return given
    if not file.is_file():
        raise InputError(f"[trainer.options] {option} = '{given}': there is no file {file}")
    return f"{file}:{name}"


JUDGE = TrlDriver(TrainerSpec.load("trl"))
