"""What rlplan knows of OpenRLHF 0.11.2: how it is started, what it says, and which checkpoints are whole."""

import json
import re
from pathlib import Path

from planner.logs.trainers import load_trainer
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.trainers.driver import Attempt
from runner.trainers.driving import STEP, flag_words, opened_task, options_in
from runner.trainers.horizon import HorizonOptions, order_of, require_shared
from runner.trainers.inside import MARK, PARTS
from runner.trainers.laying import judged_files, parts, programs
from runner.trainers.named import HorizonDriver
from runner.trainers.openrlhf.flags import (
    AGENT,
    CHECKPOINTS,
    PROMPTS,
    VALIDATION,
    flags_of,
    latest_tag,
)
from runner.trainers.openrlhf.recipe import differences


class OpenRlhfDriver(HorizonDriver):
    """OpenRLHF's train_ppo_ray, whose checkpoints start.py marks."""

    name, title, log = "openrlhf", "OpenRLHF", load_trainer("openrlhf")
    otherwise = staticmethod(differences)
    pattern, mark = f"{CHECKPOINTS}/_actor/global_step{STEP}", MARK
    words = ((re.compile("No checkpoint found at"), "checkpoint"),)

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that OpenRLHF cannot run, and a task that cannot be opened."""
        config, options = self.as_done(config), options_in(config, HorizonOptions)
        require_shared(config, options, self.title)
        flags_of(config, opened_task(config), Attempt(Path(), 1, 0, 1, None), options)

    def files(self, config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, str]:
        """Return every file of an attempt by its path in the folder."""
        assert config.trainer is not None
        updates, options = config.recipe.schedule.updates_per_batch, options_in(config, HorizonOptions)
        flags = flags_of(config, task, attempt, options)
        run = {
            "arguments": flag_words(flags),
            "from_step": attempt.from_step // updates,
            "to_step": -(-attempt.to_step // updates),  # in its steps, of which each is a batch of rollouts
            "metrics": attempt.metrics.name,
            "save_seconds": config.trainer.save_seconds,
            "model": task.model_path,
            "end_id": task.tokenizer.end_id,
            "skip_special_tokens": config.task.name not in EMBEDDED,  # in ours they are characters that no answer has
            "prompts": PROMPTS,
            "validation": VALIDATION,
            "order": order_of(config, task, options),
        }
        return {
            **programs("openrlhf", "start.py", AGENT),
            **judged_files(config, task, max(1, int(flags["vllm.num_engines"]) // config.machine.nodes)),
            **parts(PARTS),
            **latest_tag(attempt),
            "run.json": json.dumps(run, indent=1),
        }


JUDGE = OpenRlhfDriver()
