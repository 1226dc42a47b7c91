"""What rlplan knows of slime 0.3: how it is started, what it says, and which checkpoints are whole."""

import json
import os
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from planner.logs.names import SLIME
from planner.recipes.schema import Recipe
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.ability import Difference
from runner.trainers.driver import Attempt, Checkpoint, Launch, Source
from runner.trainers.driving import as_done, complete, judged_files, opened_task, options_in, started
from runner.trainers.following import LineSource
from runner.trainers.laying import parts
from runner.trainers.slime.configuration import (
    ADAPTER,
    CHECKPOINTS,
    TRACKER,
    TRAIN,
    VALIDATION,
    flags_of,
    model_words,
    words_of,
)
from runner.trainers.slime.options import SlimeOptions
from runner.trainers.slime.recipe import differences
from runner.trainers.told import readings

_PATTERN = f"{CHECKPOINTS}/iter_{{step}}"
_POSITION = f"{CHECKPOINTS}/rollout/global_dataset_state_dict_{{batch}}.pt"  # in the prompts; written last
_PROGRAMS = ("start.py", f"{ADAPTER}.py")
_PARTS = ("runner/grpo/__init__.py", "runner/grpo/advantages.py")
_REFUSED = re.compile(r"error: (unrecognized arguments|argument --)|AssertionError: .*(must|should|required|need)")


class SlimeDriver:
    """slime's train.py by start.py, in a Ray of the trial's own; it ends at --num-rollout."""

    name = "slime"
    stop_signal = None
    gated = False

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that it cannot run, flags that it has not, and a task that cannot be opened."""
        config = self._as_done(config)
        model_words(options_in(config, SlimeOptions))
        flags_of(config, opened_task(config), Attempt(Path("/"), 1, 0, 1, None))

    def differences(self, recipe: Recipe) -> Sequence[Difference]:
        """Return what it does otherwise."""
        return list(differences(recipe))

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start train.py on the head, in a Ray that spans the hosts: in one with other GPUs it would wait for ever."""
        config = self._as_done(config)
        options = options_in(config, SlimeOptions)
        own = (attempt.folder, attempt.folder / "parts", options.checkout, options.megatron)
        path = [str(Path(each).expanduser()) for each in own]
        environment = {
            "PYTHONPATH": os.pathsep.join((*path, *filter(None, (os.environ.get("PYTHONPATH"),)))),
            "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        }
        written = {} if rank else self._files(config, opened_task(config), attempt)
        return started(config, attempt, rank, ("start.py",), written, environment, own_ray=True)

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return the file that rlplan_slime.py writes."""
        updates = config.recipe.schedule.updates_per_batch
        return [LineSource(attempt.metrics, lambda line: readings(line, SLIME, updates))]

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those whose place in the prompts is saved too; batch r is what has been done after r + 1."""
        updates = config.recipe.schedule.updates_per_batch
        found = [(each, folder / _POSITION.replace("{batch}", str(each.step))) for each in complete(folder, _PATTERN)]
        return [
            Checkpoint((each.step + 1) * updates, each.path, (position,))
            for each, position in found
            if position.exists()
        ]

    def form(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return where a stand-in writes."""
        updates = config.recipe.schedule.updates_per_batch
        return {
            "metrics": str(attempt.metrics),
            "checkpoint": _PATTERN,
            "position": _POSITION,
            "tracker": TRACKER,
            "updates": updates,
        }

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Return a refusal of its command line in its own words."""
        said = [line.strip() for line in tail.splitlines() if _REFUSED.search(line)]
        return ("input", f"slime refused its command line: {said[-1][:300]}") if said else None

    def _as_done(self, config: TrialConfig) -> TrialConfig:
        return as_done(config, "slime", self.differences)

    def _files(self, config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, str]:
        options, own = options_in(config, SlimeOptions), files("runner.trainers.slime")
        updates = config.recipe.schedule.updates_per_batch
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
            "words": [*model_words(options), *words_of(flags_of(config, task, attempt))],
        }
        validation = task.validation[: config.validation.problems]
        rows = [
            json.dumps({"prompt": problem.prompt, "label": str(number)}) + "\n"
            for number, problem in enumerate((*task.train, *validation))
        ]
        return {
            **judged_files(config, task),
            **parts(_PARTS),
            **{name: own.joinpath(name).read_text(encoding="utf-8") for name in _PROGRAMS},
            TRAIN: "".join(rows[: len(task.train)]),
            VALIDATION: "".join(rows[len(task.train) :]),
            "run.json": json.dumps(run, indent=1),
        }


JUDGE = SlimeDriver()


def driver(config: TrialConfig) -> SlimeDriver:
    """Return the driver."""
    return SlimeDriver()
