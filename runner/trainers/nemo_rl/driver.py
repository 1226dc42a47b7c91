"""What rlplan knows of NeMo-RL 0.6: how it is started, what it says, and which checkpoints are whole."""

import json
import re
from pathlib import Path

from planner.logs.trainers import load_trainer
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt, Launch
from runner.trainers.driving import STEP, opened_task, options_in, started
from runner.trainers.facts import nested
from runner.trainers.inside import PARTS
from runner.trainers.laying import judged_files, numbered_rows, parts, programs
from runner.trainers.named import NamedDriver
from runner.trainers.nemo_rl.configuration import (
    CHECKPOINTS,
    SYSTEM,
    TRAIN,
    VALIDATION,
    NemoRlOptions,
    keys_of,
    system_of,
    text_of,
)
from runner.trainers.nemo_rl.recipe import differences

_REFUSED = re.compile(r"validation errors? for |omegaconf\.errors|AssertionError: .*(must|should|requires|need)")


class NemoRlDriver(NamedDriver):
    """NeMo-RL's run_grpo.py by start.py, in a Ray of the trial's own; it ends at the segment's last step.

    Its checkpoint_must_save_by is a time that is said at the start: start.py has it looked up when a save is asked for.
    """

    name, title, log = "nemo-rl", "NeMo-RL", load_trainer("nemo-rl")
    otherwise = staticmethod(differences)
    pattern = f"{CHECKPOINTS}/step_{STEP}"  # renamed from tmp_step_N once it is whole
    counts_batches = True
    words = ((_REFUSED, "input"),)
    saves_on_request = True

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that it cannot run, keys that it has not, and a task that cannot be opened."""
        config = self.as_done(config)
        keys_of(config, opened_task(config), Attempt(Path("/"), 1, 0, 1, None))

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start run_grpo.py on the head, in a Ray that spans the hosts."""
        config = self.as_done(config)
        written = {} if rank else _files(config, opened_task(config), attempt)
        return started(config, attempt, rank, ("start.py",), written, own_ray=True)


JUDGE = NemoRlDriver()


def _files(config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, str]:
    run = {
        "metrics": attempt.metrics.name,
        "samples": config.validation.samples,
        "rollouts_per_prompt": config.rollouts_per_prompt,
        "advantage": config.recipe.advantage.model_dump(),
        "checkout": str(Path(options_in(config, NemoRlOptions).checkout).expanduser()),
    }
    system = system_of(task)
    train, validation = numbered_rows(config, task, "input", "output", text_of)
    return {
        **judged_files(config, task),
        **parts((*PARTS, "runner/grpo/__init__.py", "runner/grpo/advantages.py")),
        **programs("nemo_rl", "start.py", "rlplan_environment.py"),
        **({} if system is None else {SYSTEM: system}),
        TRAIN: train,
        VALIDATION: validation,
        "nemo.json": json.dumps(nested(keys_of(config, task, attempt)), indent=1),
        "run.json": json.dumps(run, indent=1),
    }
