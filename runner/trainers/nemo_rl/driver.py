"""What a table cannot say of NeMo-RL: it takes one message of the user, and one system message for all prompts."""

from collections.abc import Mapping
from typing import Any

from budgets.errors import InputError
from runner.ports.task import Prompt, Task, turns_of
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.spec import TrainerSpec
from runner.trainers.table import TableDriver


class NemoRlDriver(TableDriver):
    """NeMo-RL's run_grpo.py."""

    def further(self, config: TrialConfig, task: Task, attempt: Attempt, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the system message; InputError for prompts of several turns."""
        systems: set[str | None] = set()
        for problem in (*task.train, *task.validation):
            text_of(problem.prompt)
            systems.add(next((turn["content"] for turn in turns_of(problem.prompt) if turn["role"] == "system"), None))
        if len(systems) > 1:
            raise InputError(
                "prompts with several system messages, or some, with --trainer nemo-rl: it has one for all"
            )
        return {"system": systems.pop()}

    def laid(self, config: TrialConfig, task: Task, attempt: Attempt, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the files, with that of the system message where there is one."""
        system = {} if values["system"] is None else {"system.txt": values["system"]}
        return super().laid(config, task, attempt, values) | system

    def prompt(self, task: Task, given: Prompt) -> Any:
        """Return what the user says."""
        return text_of(given)


def text_of(prompt: Prompt) -> str:
    """Return what the user says; NeMo-RL's data processor takes one message, after a system message for all."""
    messages = turns_of(prompt)
    if [each["role"] for each in messages if each["role"] != "system"] != ["user"]:
        raise InputError("prompts of several turns with --trainer nemo-rl: its data processor takes one message")
    return messages[-1]["content"]


JUDGE = NemoRlDriver(TrainerSpec.load("nemo-rl"))
