"""What rlplan knows of SkyRL 0.3.0: how it is started, what it says, and which checkpoints are whole."""

import json
import re
from dataclasses import replace
from pathlib import Path

from planner.logs.trainers import load_trainer
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.trainers.driver import Attempt
from runner.trainers.driving import STEP, opened_task, options_in, require_chat, tracked
from runner.trainers.horizon import HorizonOptions, order_of, require_shared
from runner.trainers.inside import PARTS
from runner.trainers.laying import judged_files, parts, programs
from runner.trainers.named import HorizonDriver
from runner.trainers.skyrl.keys import CHECKPOINTS, PROMPTS, VALIDATION, keys_of, overrides
from runner.trainers.skyrl.recipe import differences

TRACKER = f"{CHECKPOINTS}/latest_ckpt_global_step.txt"  # SkyRL writes it when a checkpoint is whole
_LOST = re.compile(r"FileNotFoundError: (?:Checkpoint path|Trainer state file) not found")
_TURNS = "{{ bos_token }}{% for turn in messages %}{{ turn['content'] }}{% endfor %}"


class SkyRlDriver(HorizonDriver):
    """SkyRL's trainer."""

    name, title, log = "skyrl", "SkyRL", load_trainer("skyrl")
    otherwise = staticmethod(differences)
    pattern, tracker, holds = f"{CHECKPOINTS}/global_step_{STEP}", TRACKER, ("trainer_state.pt", "data.pt")
    words = ((_LOST, "checkpoint"),)

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that SkyRL cannot run, and a task that cannot be opened."""
        config, options = self.as_done(config), options_in(config, HorizonOptions)
        require_shared(config, options, self.title)
        task = opened_task(config)
        if config.task.name not in EMBEDDED:
            require_chat(task, self.title)
        keys_of(config, task, Attempt(Path(), 1, 0, 1, None), options)

    def files(self, config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, str]:
        """Return every file of an attempt by its path in the folder."""
        assert config.trainer is not None
        judged, options = judged_files(config, task), options_in(config, HorizonOptions)
        begins = attempt.from_step // config.recipe.schedule.updates_per_batch
        if config.task.name in EMBEDDED:  # of a chat that is nothing but the prompt
            settings = json.loads(judged["tokenizer/tokenizer_config.json"])
            judged["tokenizer/tokenizer_config.json"] = json.dumps({**settings, "chat_template": _TURNS})
        run = {
            "overrides": overrides(keys_of(config, task, attempt, options)),
            "from_step": begins,
            "metrics": attempt.metrics.name,
            "save_seconds": config.trainer.save_seconds,
            "model": task.model_path,
            "prompts": PROMPTS,
            "validation": VALIDATION,
            "order": order_of(config, task, options),
        }
        return {
            **programs("skyrl", "start.py"),
            **judged,
            **parts(PARTS),
            **tracked(TRACKER, replace(attempt, from_step=begins)),
            "run.json": json.dumps(run, indent=1),
        }


JUDGE = SkyRlDriver()
