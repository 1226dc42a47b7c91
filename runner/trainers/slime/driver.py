"""What rlplan knows of slime 0.3: how it is started, what it says, and which checkpoints are whole."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planner.logs.trainers import load_trainer
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt, Checkpoint, Launch
from runner.trainers.driving import STEP, complete, flag_words, opened_task, options_in, started
from runner.trainers.laying import judged_files, numbered_rows, parts, programs
from runner.trainers.named import NamedDriver
from runner.trainers.slime.configuration import (
    ADAPTER,
    CHECKPOINTS,
    TRACKER,
    TRAIN,
    VALIDATION,
    SlimeOptions,
    flags_of,
    model_words,
)
from runner.trainers.slime.recipe import differences

_POSITION = f"{CHECKPOINTS}/rollout/global_dataset_state_dict_{{batch}}.pt"  # in the prompts; written last
_REFUSED = re.compile(r"error: (unrecognized arguments|argument --)|AssertionError: .*(must|should|required|need)")


class SlimeDriver(NamedDriver):
    """slime's train.py by start.py, in a Ray of the trial's own; it ends at --num-rollout."""

    name, title, log = "slime", "slime", load_trainer("slime")
    otherwise = staticmethod(differences)
    pattern, tracker = f"{CHECKPOINTS}/iter_{STEP}", TRACKER
    counts_batches = True
    words = ((_REFUSED, "input"),)
    saves_on_request = True

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that it cannot run, flags that it has not, and a task that cannot be opened."""
        config = self.as_done(config)
        model_words(options_in(config, SlimeOptions))
        flags_of(config, opened_task(config), Attempt(Path("/"), 1, 0, 1, None))

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start train.py on the head, in a Ray that spans the hosts: in one with other GPUs it would wait for ever."""
        config = self.as_done(config)
        options = options_in(config, SlimeOptions)
        own = (attempt.folder, attempt.folder / "parts", options.checkout, options.megatron)
        path = [str(Path(each).expanduser()) for each in own]
        environment = {
            "PYTHONPATH": os.pathsep.join((*path, *filter(None, (os.environ.get("PYTHONPATH"),)))),
            "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        }
        written = {} if rank else _files(config, opened_task(config), attempt)
        return started(config, attempt, rank, ("start.py",), written, environment, own_ray=True)

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those whose place in the prompts is saved too; batch r is what has been done after r + 1."""
        found = [
            (each, folder / _POSITION.replace("{batch}", str(each.step))) for each in complete(folder, self.pattern)
        ]
        return [
            Checkpoint((each.step + 1) * self._updates(config), each.path, (position,))
            for each, position in found
            if position.exists()
        ]

    def form(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return where a stand-in writes."""
        return super().form(config, attempt) | {"position": _POSITION}


JUDGE = SlimeDriver()


def _files(config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, str]:
    options, updates = options_in(config, SlimeOptions), config.recipe.schedule.updates_per_batch
    run = {
        "metrics": attempt.metrics.name,
        "tracker": TRACKER,
        "from_batch": attempt.from_step // updates,
        "updates": updates,
        "rollouts_per_prompt": config.rollouts_per_prompt,
        "advantage": config.recipe.advantage.model_dump(),
        "mask_truncated": config.recipe.rewards.mask_truncated,
        "checkout": str(Path(options.checkout).expanduser()),
        "megatron": str(Path(options.megatron).expanduser()),
        "words": [*model_words(options), *flag_words(flags_of(config, task, attempt))],
    }
    tokenizer: Any = task.tokenizer
    templated = [] if task.chat_template is None else [tokenizer.text_of]
    train, validation = numbered_rows(config, task, "prompt", "label", *templated)
    return {
        **judged_files(config, task),
        **parts(("runner/grpo/__init__.py", "runner/grpo/advantages.py")),
        **programs("slime", "start.py", f"{ADAPTER}.py"),
        TRAIN: train,
        VALIDATION: validation,
        "run.json": json.dumps(run, indent=1),
    }
