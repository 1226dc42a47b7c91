"""What a table cannot say of SkyRL: the tokenizer of an embedded task has a chat that is nothing but the prompt."""

import json
from collections.abc import Mapping
from typing import Any

from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.spec import TrainerSpec
from runner.trainers.table import RehearsedDriver

_SETTINGS = "tokenizer/tokenizer_config.json"
_TURNS = "{{ bos_token }}{% for turn in messages %}{{ turn['content'] }}{% endfor %}"


class SkyRlDriver(RehearsedDriver):
    """SkyRL's trainer."""

    def laid(self, config: TrialConfig, task: Task, attempt: Attempt, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the files, of which the tokenizer's has the template."""
        files = super().laid(config, task, attempt, values)
        if _SETTINGS in files:
            files[_SETTINGS] = json.dumps({**json.loads(files[_SETTINGS]), "chat_template": _TURNS})
        return files


JUDGE = SkyRlDriver(TrainerSpec.load("skyrl"))
