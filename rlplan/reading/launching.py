"""The command that runs what is recommended: from the base model, or from the checkpoint of its longest pilot."""

import math
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from budgets.errors import RlplanError
from planner.axes import suffix
from planner.config import embedded_tasks
from planner.config.trainer import COMMAND
from planner.layering import flattened
from planner.recipes import Recipe, load_recipe
from planner.store.records import RankedRow
from planner.trials import TrialState
from planner.view import Configuration, TrialView
from rlplan.reading.masking import told_apart
from rlplan.wording.train_flags import TRIAL_FLAGS
from runner.ports.trial import Machine, TrialConfig
from runner.storage.mirror import checkpoints_of
from runner.sweep.board import Board
from runner.trainers.catalogue import driver_of
from runner.trainers.driver import Attempt
from runner.training import checkpoints

FINALS = Path("runs")
# What a final run always names, so that no default and no configuration file can change it.
ALWAYS = (
    "rollouts_per_prompt",
    "prompts_per_batch",
    "learning_rate",
    "seed",
    "validation.problems",
    "validation.samples",
    "validation.every_rollouts",
)
SHORT = {"--rollouts-per-prompt": "-n", "--prompts-per-batch": "-B"}
SWITCHES = ("machine.compile",)
# What `rlplan train` takes for an embedded task when nothing is said.
USUAL: dict[str, Any] = {
    "task.reward": "exact",
    "temperature": 1.0,
    "machine.device": "cpu",
    "machine.engine": "torch",
    "machine.threads": 1,
    "machine.weights": "float32",
    "machine.micro_batch_tokens": 16_384,
}


@dataclass(frozen=True, slots=True)
class Final:
    """The final run that is to be launched."""

    configuration: Configuration
    update_steps: int
    learning_rate: float
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class Pilot:
    """A trial that the final run can go on with."""

    trial: str
    folder: str
    step: int
    gpu_hours: float  # that it has trained for, and that the final run need not pay again


@dataclass(frozen=True, slots=True)
class Launch:
    """How the final run is started; without a command, the note says why there is none."""

    command: tuple[str, ...] | None
    gpu_hours: float  # still to be paid
    continues: Pilot | None
    note: str
    machine: Machine | None = None  # that it runs on

    @property
    def line(self) -> str | None:
        """The command as it is typed."""
        return None if self.command is None else shlex.join(self.command)


def launch(board: Board, chosen: Final, recipes: Sequence[str], astray: str | None = None) -> Launch:
    """Return how to run a choice in full; a pilot of it that is saved becomes the final run.

    `recipes` are the names or paths that the plan's recipes were given by; `astray` says why the sweep's folder, and so
    every pilot, is not to be had.
    """
    trials = [trial for trial in board.trials.values() if trial.configuration == chosen.configuration]
    pilot = _pilot(board, trials) if astray is None else None
    if board.spec.training.simulation is not None:
        return Launch(None, chosen.gpu_hours, None, "the sweep is of a simulated world: there is nothing to train")
    if pilot is not None and pilot.step >= chosen.update_steps:
        note = f"{pilot.trial} in {pilot.folder} has made {pilot.step:,} updates already: it is the final run"
        return Launch(None, 0.0, pilot, note)
    config = board.spec.as_final(_config(board, chosen, trials, pilot))
    if config.trainer is not None:
        return _by_hand(board, config, chosen, trials)
    recipe, changed = _recipe(config.recipe, recipes)
    command = (*_command(config, recipe, chosen.update_steps), "--out", str(_out(config, chosen.configuration)))
    if pilot is None:
        lost = f"; {astray}" if astray and any(trial.step for trial in trials) else ""
        return Launch(command, chosen.gpu_hours, None, f"it starts from the base model{changed}{lost}")
    left = chosen.gpu_hours * (1 - pilot.step / chosen.update_steps)
    note = (
        f"it goes on from step {pilot.step:,} of {pilot.trial}, whose {pilot.gpu_hours:.3g} GPU-hours are not lost: "
        f"{left:.3g} are still to be paid{changed}"
    )
    return Launch((*command, "--from-pilot", pilot.folder), left, pilot, note)


def _by_hand(board: Board, config: TrialConfig, chosen: Final, trials: Sequence[TrialView]) -> Launch:
    """Say how to start somebody else's trainer: its command where a file describes that, else from a pilot's folder."""
    name, machine = config.trainer.name if config.trainer else "", config.machine
    where = f"{machine.gpus} {board.spec.resources.gpu}" + (f", {machine.nodes} nodes" if machine.nodes > 1 else "")
    n, B, _ = chosen.configuration
    longest = max((trial for trial in trials if trial.step), key=lambda trial: trial.step, default=None)
    pilot = None if longest is None else board.facts[longest.trial].folder / "trainer"
    what = f"n = {n}, B = {B}, {chosen.update_steps:,} updates, learning rate {chosen.learning_rate:.3g}"
    what += f", seed {config.seed}"
    command, variables = _own_command(config, chosen) if name == COMMAND else (None, [])
    if command is not None:
        ranks = " on each node, with its own rank and the head's address," if machine.nodes > 1 else ""
        files = "" if pilot is None else f"; files that it names lie in {pilot}, as its pilot had them"
        unset = f"; set {', '.join(variables)} as its [environment] does" if variables else ""
        note = f"it is your trainer's own command,{ranks} on {where}: {what}{files}{unset}"
        return Launch(command, chosen.gpu_hours, None, note, machine)
    name = "your trainer" if name == COMMAND else name
    note = f"it is started with {name} itself, on {where}: {what}"
    if pilot is not None:
        given = "updates" + (" (`to_step` in run.json)" if name == "trl" else "")
        given += " and GPUs" if board.spec.final_gpus else ""
        note += f". All that its pilot was started with lies in {pilot}: copy that without its checkpoints, give the "
        note += f"{given} of the final run there, and start it as command-0.sh does"
    return Launch(None, chosen.gpu_hours, None, note, machine)


def _own_command(config: TrialConfig, chosen: Final) -> tuple[tuple[str, ...] | None, list[str]]:
    """Return the command that a trainer's file describes, filled for the final run; None where it needs more.

    Beside it are the names of variables that it needs too, whose values may be secrets.
    """
    folder = _out(config, chosen.configuration).absolute()
    hosts = ("127.0.0.1",) if config.machine.nodes == 1 else ("HEAD_ADDRESS",) * config.machine.nodes
    attempt = Attempt(folder, 1, 0, chosen.update_steps, None, hosts)
    assert config.trainer is not None
    if config.trainer.options.get("own_ray"):
        return None, []
    try:
        launch = driver_of(config).launch(config, attempt, 0)
    except RlplanError:  # its problems are gone
        return None, []
    if launch is None:
        return None, []
    ours, others = told_apart(config.trainer.options.get("environment", {}), launch.environment)
    variables = [f"{name}={value}" for name, value in ours.items()]
    return (*(["env", *variables] if variables else []), *launch.argv), others


def launch_of_trial(
    board: Board, trial: int, recipes: Sequence[str], ranking: Sequence[RankedRow], astray: str | None = None
) -> Launch:
    """Return how to train one trial in full: on from its checkpoint, or from the base model without one.

    That is the run that the sweep's ranking has of its configuration, and up to the target where it has none.
    """
    seen, target = board.trials[trial], board.spec.target_gpu_hours
    if board.spec.training.simulation is not None:
        return Launch(None, 0.0, None, "the sweep is of a simulated world: there is nothing to train")
    steps = math.floor(target / seen.compared_per_step)
    for row in ranking:
        if (row.rollouts_per_prompt, row.prompts_per_batch, row.axes) == seen.configuration and row.update_steps:
            steps, target = row.update_steps, row.gpu_hours_to_target
    if seen.step >= steps:
        return Launch(None, 0.0, None, f"it has made the {steps:,} updates that {target:.3g} GPU-hours buy already")
    config = TrialConfig.model_validate(board.facts[trial].config)
    if config.trainer is not None:
        rate = board.facts[trial].learning_rate
        final = Final(seen.configuration, steps, rate, target)
        return _by_hand(board, board.spec.as_final(config), final, [seen])
    recipe, changed = _recipe(config.recipe, recipes)
    command = (*_command(config, recipe, steps), "--out", str(_out(config, seen.configuration)))
    pilot = _pilot(board, [seen]) if astray is None else None
    if pilot is None:
        saved = "its checkpoint is not where it was saved, so that" if seen.step else "it has no checkpoint yet:"
        lost = f"; {astray}" if astray and seen.step else ""
        return Launch(command, target, None, f"{saved} this starts from the base model{changed}{lost}")
    left = (steps - pilot.step) * seen.compared_per_step
    note = f"it goes on from step {pilot.step:,} of {steps:,}, for about {left:.3g} GPU-hours{changed}"
    return Launch((*command, "--from-pilot", pilot.folder), left, pilot, note)


def pilot_of(board: Board, configuration: Configuration) -> Pilot | None:
    """Return the longest trial of a configuration that is saved and at rest, whoever trained it."""
    return _pilot(board, [trial for trial in board.trials.values() if trial.configuration == configuration])


def _pilot(board: Board, trials: list[TrialView]) -> Pilot | None:
    """Return the longest trial that is saved and at rest."""
    saved = [
        trial
        for trial in trials
        if trial.step > 0
        and trial.state not in (TrialState.RUNNING, TrialState.FAILED)
        and _is_saved(board, trial.trial)
    ]
    longest = max(saved, key=lambda trial: trial.step, default=None)
    if longest is None:
        return None
    reached = longest.scores[-1].gpu_hours if longest.scores else 0.0
    return Pilot(longest.name, str(board.facts[longest.trial].folder), longest.step, reached)


def _is_saved(board: Board, trial: int) -> bool:
    facts = board.facts[trial]
    if not facts.config.get("trainer"):
        return checkpoints.exists(facts.folder)
    with suppress(RlplanError, ValidationError):  # a trial that nobody can open any more
        return bool(checkpoints_of(TrialConfig.model_validate(facts.config), facts.folder))
    return False


def _config(board: Board, chosen: Final, trials: list[TrialView], pilot: Pilot | None) -> TrialConfig:
    """Return the configuration that its trials have, or that a trial of it would have."""
    of_pilot = [trial for trial in trials if pilot is not None and trial.name == pilot.trial]
    for trial in (*of_pilot, *trials):
        return TrialConfig.model_validate(board.facts[trial.trial].config)
    n, B, axes = chosen.configuration
    return board.spec.trial(n, B, chosen.learning_rate, board.spec.seed, axes)


def _command(config: TrialConfig, recipe: str, steps: int) -> Iterator[str]:
    own = config.task.name not in embedded_tasks()
    yield from ("rlplan", "train", "--task", config.task.name, "--recipe", recipe, "--steps", str(steps))
    values = dict(flattened(config.model_dump()))
    for flag, key in TRIAL_FLAGS.values():
        value = values.get(key)
        if key == "task.name" or value is None or (key in SWITCHES and not value):
            continue
        if key in SWITCHES:
            yield flag
        elif own or key in ALWAYS or value != USUAL.get(key):
            yield from (SHORT.get(flag, flag), repr(value) if isinstance(value, float) else str(value))


def _recipe(used: Recipe, recipes: Sequence[str]) -> tuple[str, str]:
    """Return what to give for the recipe that the trials were run with, and a remark when it is not what it was."""
    for given in recipes:
        with suppress(RlplanError):  # a file that is gone
            loaded = load_recipe(given)
            if loaded.name == used.name:
                changed = "" if loaded == used else f"; mind that recipe {given} is not what the pilots were run with"
                return str(Path(given).absolute()) if given.endswith(".toml") else given, changed
    return used.name, f"; mind that the file of recipe {used.name} is gone"


def _out(config: TrialConfig, of: Configuration) -> Path:
    name = f"n{of.rollouts_per_prompt}-B{of.prompts_per_batch}{suffix(of.axes)}-s{config.seed}"
    return FINALS / f"final-{Path(config.task.name).stem}-{name}"
