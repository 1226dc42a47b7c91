"""What rlplan knows of OpenRLHF 0.11.2: how it is started, what it says, and which checkpoints are whole."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from planner.logs.names import OPENRLHF
from planner.recipes.schema import Recipe
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.trainers.ability import Difference
from runner.trainers.driver import Attempt, Checkpoint, Launch
from runner.trainers.driving import STEP, as_done, complete, judged_files, opened_task, started
from runner.trainers.following import LineSource
from runner.trainers.horizon import order_of, refused, require_within, within
from runner.trainers.inside import MARK, PARTS
from runner.trainers.laying import parts
from runner.trainers.openrlhf.flags import (
    AGENT,
    CHECKPOINTS,
    PROMPTS,
    VALIDATION,
    flags_of,
    latest_tag,
    words,
)
from runner.trainers.openrlhf.options import OpenRlhfOptions, options_of
from runner.trainers.openrlhf.recipe import differences
from runner.trainers.sharing import require_shared
from runner.trainers.told import readings

PATTERN = f"{CHECKPOINTS}/_actor/global_step{STEP}"
PROGRAMS = ("start.py", AGENT)
_SAID = re.compile(r"\brlplan (input|checkpoint): (.*)$", re.MULTILINE)


class OpenRlhfDriver:
    """OpenRLHF's train_ppo_ray in a Ray of the trial's own; it knows no signal, and ends at the segment's last step."""

    name = "openrlhf"
    stop_signal = None
    gated = False

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that OpenRLHF cannot run, and a task that cannot be opened."""
        options = options_of(config)
        config = as_done(config, "OpenRLHF", self.differences)
        require_shared(config, options, "OpenRLHF")
        flags_of(config, opened_task(config), Attempt(Path(), 1, 0, 1, None), options)

    def differences(self, recipe: Recipe) -> Sequence[Difference]:
        """Return what OpenRLHF does otherwise."""
        return list(differences(recipe))

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start a node of the trial's own Ray on every host, and on the head start.py in it."""
        options = options_of(config)
        config = as_done(config, "OpenRLHF", self.differences)
        require_within(config, attempt, options)
        given = files_of(config, opened_task(config), attempt, options) if rank == 0 else {}
        return started(config, attempt, rank, ("start.py",), given, within(attempt), own_ray=True)

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[LineSource]:
        """Return the file that start.py writes."""
        updates = config.recipe.schedule.updates_per_batch
        return [LineSource(attempt.metrics, lambda line: readings(line, OPENRLHF, updates))]

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those that start.py has marked."""
        updates = config.recipe.schedule.updates_per_batch
        return [replace(each, step=each.step * updates) for each in complete(folder, PATTERN, holds=(MARK,))]

    def form(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return what its files are called, for one who writes them instead."""
        updates = config.recipe.schedule.updates_per_batch
        return {"metrics": str(attempt.metrics), "checkpoint": PATTERN, "mark": MARK, "updates": updates}

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Return what start.py itself, or OpenRLHF's parser, has said of its end."""
        if said := _SAID.findall(tail):
            kind, message = said[-1]
            return kind, f"OpenRLHF could not go on: {message}" if kind == "checkpoint" else message
        if "No checkpoint found at" in tail and "[deepspeed]" in tail:
            return "checkpoint", "OpenRLHF found no checkpoint where there should be one"
        return None

    def rehearse(self, config: TrialConfig) -> Sequence[str]:
        """Have its own parser look at the flags, in its own environment."""
        config, options = as_done(config, "OpenRLHF", self.differences), options_of(config)
        return refused(config, files_of(config, opened_task(config), Attempt(Path(), 1, 0, 1, None), options))


JUDGE = OpenRlhfDriver()


def driver(config: TrialConfig) -> OpenRlhfDriver:
    """Return the driver."""
    return OpenRlhfDriver()


def files_of(config: TrialConfig, task: Task, attempt: Attempt, options: OpenRlhfOptions) -> dict[str, str]:
    """Return every file of an attempt by its path in the folder."""
    own = files("runner.trainers.openrlhf")
    return {
        **{name: own.joinpath(name).read_text(encoding="utf-8") for name in PROGRAMS},
        **judged_files(config, task),
        **parts(PARTS),
        **latest_tag(attempt),
        "run.json": json.dumps(run_of(config, task, attempt, options), indent=1),
    }


def run_of(config: TrialConfig, task: Task, attempt: Attempt, options: OpenRlhfOptions) -> dict[str, Any]:
    """Return what start.py is told."""
    updates = config.recipe.schedule.updates_per_batch
    return {
        "arguments": words(flags_of(config, task, attempt, options)),
        "from_step": attempt.from_step // updates,
        "to_step": -(-attempt.to_step // updates),  # in its steps, of which each is a batch of rollouts
        "metrics": attempt.metrics.name,
        "save_seconds": options.save_seconds,
        "model": str(Path(task.model_path).absolute()),
        "end_id": task.tokenizer.end_id,
        "skip_special_tokens": config.task.name not in EMBEDDED,  # in ours they are characters that no answer has
        "prompts": PROMPTS,
        "validation": VALIDATION,
        "order": order_of(config, task, options),
    }
