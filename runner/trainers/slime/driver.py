"""What a table cannot say of slime: the model's own flags are in a script, and it counts from 0."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from runner.ports.task import Prompt, Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt, Checkpoint
from runner.trainers.driving import complete
from runner.trainers.spec import TrainerSpec
from runner.trainers.table import TableDriver

_MODEL = "MODEL_ARGS=("
_POSITION = "checkpoints/rollout/global_dataset_state_dict_{batch}.pt"  # in the prompts; written last


class SlimeDriver(TableDriver):
    """slime's train.py, which ends at --num-rollout."""

    def further(self, config: TrialConfig, task: Task, attempt: Attempt, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the model's own flags."""
        return {"model_words": model_words(values["options"].model_args, values["checkout"])}

    def prompt(self, task: Task, given: Prompt) -> Any:
        """Return the text that a chat template of the user's makes of a prompt; slime has the model's own alone."""
        tokenizer: Any = task.tokenizer
        return given if task.chat_template is None else tokenizer.text_of(given)

    def settings(self, options: Any) -> dict[str, Any]:
        """Return the user's flags, which may have dashes."""
        return {flag.removeprefix("--"): value for flag, value in options.settings.items()}

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those whose place in the prompts is saved too; batch r is what has been done after r + 1."""
        found = [
            (each, folder / _POSITION.replace("{batch}", str(each.step)))
            for each in complete(folder, self.spec.checkpoints.pattern)
        ]
        return [
            Checkpoint((each.step + 1) * self.each(config), each.path, (position,))
            for each, position in found
            if position.exists()
        ]


def model_words(script: str, checkout: str) -> list[str]:
    """Return the model's own flags, from a script of slime's."""
    path = Path(checkout, Path(script).expanduser())
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"[trainer.options] model_args = '{script}': {error.strerror}: {path}") from error
    _, found, rest = text.partition(_MODEL)
    words = [_default(word) for word in shlex.split(rest.partition("\n)")[0], comments=True)]
    if not found or any("$" in word for word in words):
        raise InputError(
            f"[trainer.options] model_args = '{script}': a script is wanted with the flags of the model in "
            f"{_MODEL}…), without variables but those that have a default, as in slime's scripts/models"
        )
    return words


def _default(word: str) -> str:
    """Return what `${NAME:-default}` stands for where NAME is not set."""
    inner = word[2:-1] if word.startswith("${") and word.endswith("}") else ""
    return inner.partition(":-")[2] if ":-" in inner else word


JUDGE = SlimeDriver(TrainerSpec.load("slime"))
