"""How what is recommended is run: by `rlplan launch`, from the base model or on from its longest pilot."""

import shlex
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import ValidationError

from budgets.errors import CheckpointError, RlplanError
from planner.view import Configuration, TrialState
from rlplan.wording.command_lines import DEFAULT_DATABASE, SECRET, typed_here
from rlplan.wording.numbers import hours
from runner.ports.trial import Machine, TrialConfig
from runner.storage.mirror import Mirror
from runner.sweep.state import SweepState
from runner.trainers.catalogue import checkpoints_of, reaching
from runner.training import checkpoints


@dataclass(frozen=True, slots=True)
class Final:
    """The final run that is to be launched."""

    configuration: Configuration
    update_steps: int
    gpu_hours: float
    by_name: bool = False  # whether it is not what the sweep recommended at its end, so that n and B have to be given


@dataclass(frozen=True, slots=True)
class Pilot:
    """A trial that the final run can go on with."""

    number: int = field(repr=False)
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
    machine: Machine | None = None  # that it runs on, where somebody else's trainer does

    @property
    def line(self) -> str | None:
        """The command as it is typed."""
        return None if self.command is None else shlex.join(self.command)


def launch(board: SweepState, sweep: str, database: str, chosen: Final, astray: str | None = None) -> Launch:
    """Return how to run a choice in full; a pilot of it that is saved becomes the final run.

    `database` is where the sweep is stored; `astray` says why its folder, and so every pilot, is not to be had.
    """
    spec = board.spec
    if spec.training.simulation is not None:
        return Launch(None, chosen.gpu_hours, None, "the sweep is of a simulated world: there is nothing to train")
    longest = pilot_of(board, chosen.configuration) if astray is None else None
    if longest is not None and longest.step >= chosen.update_steps:
        note = f"{longest.trial} in {longest.folder} has made {longest.step:,} updates already: it is the final run"
        return Launch(None, 0.0, longest, note)
    n, B, _ = chosen.configuration
    flag = ("--allocation", f"n={n},B={B}") if chosen.by_name else ()
    typed = typed_here(database)
    where = () if SECRET in database or typed == DEFAULT_DATABASE else ("--db", typed)
    command = ("rlplan", "launch", sweep, *flag, *where)
    machine = None if spec.training.trainer is None else spec.training.machine
    if machine is not None and spec.final_gpus is not None:
        machine = machine.model_copy(update={"gpus": spec.final_gpus, "nodes": spec.final_nodes})
    pilot, note = beginning(board, chosen.configuration, chosen.update_steps, astray)
    if pilot is None:
        return Launch(command, chosen.gpu_hours, None, note, machine)
    left = max(0.0, chosen.gpu_hours - pilot.gpu_hours)
    return Launch(command, left, pilot, f"{note}: {left:.3g} are still to be paid", machine)


def beginning(
    board: SweepState, configuration: Configuration, update_steps: int, astray: str | None
) -> tuple[Pilot | None, str]:
    """Return the pilot that a final run goes on from, whoever trained it, and what that means.

    That is exact on the pilot's own layout, where the pilot's folder or its copy in the storage is at hand.
    """
    spec, base = board.spec, "it starts from the base model"
    at_hand = (astray is None or spec.storage is not None) and spec.goes_on
    pilot = pilot_of(board, configuration) if at_hand else None
    if pilot is None:
        trained = any(trial.step for trial in board.trials.values() if trial.configuration == configuration)
        return None, f"{base}; {astray}" if astray and trained else base
    config = TrialConfig.model_validate(board.facts[pilot.number].config)
    if reaching(config, update_steps) != config:
        return None, f"{base}, for it needs longer data than its pilot had"
    return (
        pilot,
        f"it goes on from step {pilot.step:,} of {pilot.trial}, whose {hours(pilot.gpu_hours)} GPU-hours are not lost",
    )


def pilot_of(board: SweepState, configuration: Configuration) -> Pilot | None:
    """Return the longest trial of a configuration that is saved and at rest, whoever trained it."""
    saved = [
        trial
        for trial in board.trials.values()
        if trial.configuration == configuration
        and trial.step > 0
        and trial.state not in (TrialState.RUNNING, TrialState.FAILED)
        and _is_saved(board, trial.trial)
    ]
    longest = max(saved, key=lambda trial: trial.step, default=None)
    if longest is None:
        return None
    reached = longest.scores[-1].gpu_hours if longest.scores else 0.0
    return Pilot(longest.trial, longest.name, str(board.facts[longest.trial].folder), longest.step, reached)


def _is_saved(board: SweepState, trial: int) -> bool:
    facts = board.facts[trial]
    with suppress(RlplanError, ValidationError):  # a trial that nobody can open any more
        if facts.storage is None and not facts.config.get("trainer"):
            return checkpoints.exists(facts.folder)
        config = TrialConfig.model_validate(facts.config)
        saved = checkpoints_of(config, facts.folder)
        if saved or facts.storage is None:
            return bool(saved)
        try:
            return bool(Mirror(facts.storage, facts.folder, config).saves())
        except CheckpointError:  # the launch says why it cannot be fetched, and does not start anew
            return True
    return False
