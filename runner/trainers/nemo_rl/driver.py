"""What rlplan knows of NeMo-RL 0.6: how it is started, what it says, and which checkpoints are whole."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from planner.logs.names import NEMO_RL
from planner.recipes.schema import Recipe
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.ability import Difference
from runner.trainers.driver import Attempt, Checkpoint, Launch, Source
from runner.trainers.driving import as_done, complete, judged_files, opened_task, options_in, started
from runner.trainers.facts import nested
from runner.trainers.following import LineSource
from runner.trainers.laying import parts
from runner.trainers.nemo_rl.configuration import CHECKPOINTS, TRAIN, VALIDATION, keys_of
from runner.trainers.nemo_rl.options import NemoRlOptions
from runner.trainers.nemo_rl.recipe import differences
from runner.trainers.told import readings

_PATTERN = f"{CHECKPOINTS}/step_{{step}}"  # renamed from tmp_step_N once it is whole
_PROGRAMS = ("start.py", "rlplan_environment.py")
_PARTS = ("runner/grpo/__init__.py", "runner/grpo/advantages.py")
_REFUSED = re.compile(r"validation errors? for |omegaconf\.errors|AssertionError: .*(must|should|requires|need)")


class NemoRlDriver:
    """NeMo-RL's run_grpo.py by start.py, in a Ray of the trial's own; it ends at the segment's last step."""

    name = "nemo-rl"
    stop_signal = None  # its checkpoint_must_save_by is a time that is said at the start, and not when it is asked to
    gated = False

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that it cannot run, keys that it has not, and a task that cannot be opened."""
        config = self._as_done(config)
        keys_of(config, opened_task(config), Attempt(Path("/"), 1, 0, 1, None))

    def differences(self, recipe: Recipe, *, weights: str = "bfloat16") -> Sequence[Difference]:
        """Return what it does otherwise."""
        return list(differences(recipe, weights=weights))

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start run_grpo.py on the head, in a Ray that spans the hosts."""
        config = self._as_done(config)
        task = opened_task(config)
        written = {} if rank else self._files(config, task, attempt)
        return started(config, attempt, rank, ("start.py",), written, own_ray=True)

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return the file that start.py writes."""
        updates = config.recipe.schedule.updates_per_batch
        return [LineSource(attempt.metrics, lambda line: readings(line, NEMO_RL, updates))]

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those that have their names."""
        updates = config.recipe.schedule.updates_per_batch
        return [replace(each, step=each.step * updates) for each in complete(folder, _PATTERN)]

    def form(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return where a stand-in writes."""
        updates = config.recipe.schedule.updates_per_batch
        return {"metrics": str(attempt.metrics), "checkpoint": _PATTERN, "updates": updates}

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Return a refusal of its configuration in its own words."""
        said = [line.strip() for line in tail.splitlines() if _REFUSED.search(line)]
        return ("input", f"NeMo-RL refused its configuration: {said[-1][:300]}") if said else None

    def _as_done(self, config: TrialConfig) -> TrialConfig:
        return as_done(config, "NeMo-RL", partial(self.differences, weights=config.machine.weights))

    def _files(self, config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, str]:
        own = files("runner.trainers.nemo_rl")
        run = {
            "metrics": attempt.metrics.name,
            "samples": config.validation.samples,
            "rollouts_per_prompt": config.rollouts_per_prompt,
            "advantage": config.recipe.advantage.model_dump(),
            "checkout": str(Path(options_in(config, NemoRlOptions).checkout).expanduser()),
        }
        validation = task.validation[: config.validation.problems]
        rows = [
            json.dumps({"input": problem.prompt, "output": str(number)}) + "\n"
            for number, problem in enumerate((*task.train, *validation))
        ]
        return {
            **judged_files(config, task),
            **parts(_PARTS),
            **{name: own.joinpath(name).read_text(encoding="utf-8") for name in _PROGRAMS},
            TRAIN: "".join(rows[: len(task.train)]),
            VALIDATION: "".join(rows[len(task.train) :]),
            "nemo.json": json.dumps(nested(keys_of(config, task, attempt)), indent=1),
            "run.json": json.dumps(run, indent=1),
        }


JUDGE = NemoRlDriver()


def driver(config: TrialConfig) -> NemoRlDriver:
    """Return the driver."""
    return NemoRlDriver()
