"""What rlplan knows of SkyRL 0.3.0: how it is started, what it says, and which checkpoints are whole."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.logs.names import SKYRL
from planner.recipes.schema import Recipe
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.trainers.ability import Difference
from runner.trainers.driver import Attempt, Checkpoint, Launch
from runner.trainers.driving import STEP, as_done, complete, has_chat, judged_files, opened_task, started, tracked
from runner.trainers.following import LineSource
from runner.trainers.horizon import order_of, refused, require_within, within
from runner.trainers.inside import PARTS
from runner.trainers.laying import parts
from runner.trainers.sharing import require_shared
from runner.trainers.skyrl.keys import CHECKPOINTS, PROMPTS, VALIDATION, keys_of, overrides
from runner.trainers.skyrl.options import SkyRlOptions, options_of
from runner.trainers.skyrl.recipe import differences
from runner.trainers.told import readings

PATTERN = f"{CHECKPOINTS}/global_step_{STEP}"
TRACKER = f"{CHECKPOINTS}/latest_ckpt_global_step.txt"  # SkyRL writes it when a checkpoint is whole
HOLDS = ("trainer_state.pt", "data.pt")
_SAID = re.compile(r"\brlplan (input|checkpoint): (.*)$", re.MULTILINE)
_LOST = re.compile(r"FileNotFoundError: (?:Checkpoint path|Trainer state file) not found.*$", re.MULTILINE)
_TURNS = "{{ bos_token }}{% for turn in messages %}{{ turn['content'] }}{% endfor %}"


class SkyRlDriver:
    """SkyRL's trainer in a Ray of the trial's own; it knows no signal, and ends at the segment's last step."""

    name = "skyrl"
    stop_signal = None
    gated = False

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that SkyRL cannot run, and a task that cannot be opened."""
        options = options_of(config)
        config = as_done(config, "SkyRL", self.differences)
        require_shared(config, options, "SkyRL")
        task = opened_task(config)
        if config.task.name not in EMBEDDED and not has_chat(task):
            raise InputError(
                f"model {task.model_path} has no chat template, and SkyRL makes every prompt a turn of a chat: give a "
                "model that has one"
            )
        keys_of(config, task, Attempt(Path(), 1, 0, 1, None), options)

    def differences(self, recipe: Recipe) -> Sequence[Difference]:
        """Return what SkyRL does otherwise."""
        return list(differences(recipe))

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start a node of the trial's own Ray on every host, and on the head start.py in it."""
        options = options_of(config)
        config = as_done(config, "SkyRL", self.differences)
        require_within(config, attempt, options)
        given = files_of(config, opened_task(config), attempt, options) if rank == 0 else {}
        return started(config, attempt, rank, ("start.py",), given, within(attempt), own_ray=True)

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[LineSource]:
        """Return the file that start.py writes."""
        updates = config.recipe.schedule.updates_per_batch
        return [LineSource(attempt.metrics, lambda line: readings(line, SKYRL, updates))]

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those up to SkyRL's tracker that hold everything."""
        updates = config.recipe.schedule.updates_per_batch
        return [replace(each, step=each.step * updates) for each in complete(folder, PATTERN, TRACKER, HOLDS)]

    def form(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return what its files are called, for one who writes them instead."""
        updates = config.recipe.schedule.updates_per_batch
        return {
            "metrics": str(attempt.metrics),
            "checkpoint": PATTERN,
            "holds": HOLDS,
            "tracker": TRACKER,
            "updates": updates,
        }

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Return what start.py or SkyRL has said of its end."""
        if said := _SAID.findall(tail):
            kind, message = said[-1]
            return kind, f"SkyRL could not go on: {message}" if kind == "checkpoint" else message
        if lost := _LOST.search(tail):
            return "checkpoint", f"SkyRL could not go on: {lost[0]}"
        return None

    def rehearse(self, config: TrialConfig) -> Sequence[str]:
        """Have its own parser look at the keys, in its own environment."""
        config, options = as_done(config, "SkyRL", self.differences), options_of(config)
        return refused(config, files_of(config, opened_task(config), Attempt(Path(), 1, 0, 1, None), options))


JUDGE = SkyRlDriver()


def driver(config: TrialConfig) -> SkyRlDriver:
    """Return the driver."""
    return SkyRlDriver()


def files_of(config: TrialConfig, task: Task, attempt: Attempt, options: SkyRlOptions) -> dict[str, str]:
    """Return every file of an attempt by its path in the folder."""
    judged, updates = judged_files(config, task), config.recipe.schedule.updates_per_batch
    if config.task.name in EMBEDDED:  # of a chat that is nothing but the prompt
        settings = json.loads(judged["tokenizer/tokenizer_config.json"])
        judged["tokenizer/tokenizer_config.json"] = json.dumps({**settings, "chat_template": _TURNS})
    return {
        "start.py": files("runner.trainers.skyrl").joinpath("start.py").read_text(encoding="utf-8"),
        **judged,
        **parts(PARTS),
        **tracked(TRACKER, replace(attempt, from_step=attempt.from_step // updates)),
        "run.json": json.dumps(run_of(config, task, attempt, options), indent=1),
    }


def run_of(config: TrialConfig, task: Task, attempt: Attempt, options: SkyRlOptions) -> dict[str, Any]:
    """Return what start.py is told."""
    return {
        "overrides": overrides(keys_of(config, task, attempt, options)),
        "from_step": attempt.from_step // config.recipe.schedule.updates_per_batch,
        "metrics": attempt.metrics.name,
        "save_seconds": options.save_seconds,
        "model": str(Path(task.model_path).absolute()),
        "prompts": PROMPTS,
        "validation": VALIDATION,
        "order": order_of(config, task, options),
    }
