"""The final run of a sweep: what it is, what it costs, and how far its GPU-hours take it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import update
from sqlalchemy.orm import Session

from budgets.errors import BudgetError
from planner.axes import named_configuration
from planner.policy.final import last_spacing, paid_steps
from planner.recommend.facts import VALIDATIONS, FinalLength, FinalPrice
from planner.store import results
from planner.store.base import values_of
from planner.store.read_model import points_of
from planner.store.results import add_points
from planner.store.schema import Plan, Point, Segment, SegmentOutcome, Sweep, Trial
from planner.store.sweeps import next_name
from planner.view import FINAL_POLICY, READY, Configuration, ScorePoint, TrialView
from runner.ports.trial import Machine, TrialConfig
from runner.sweep.journal import Journal
from runner.sweep.kept import FromPilot
from runner.sweep.plan import trial_row
from runner.sweep.plan_rows import CPU, pilot_gpus
from runner.sweep.spec import Resources, SweepSpec
from runner.sweep.state import SweepState
from runner.trainers.catalogue import horizon_of, reaching

HORIZON = 2  # times its planned updates, that the data of a final run last for: steps may turn out cheaper


@dataclass(frozen=True, slots=True)
class Layout:
    """How a final run occupies its machines: so many times the GPUs of a pilot, on so many nodes."""

    times: float = 1.0
    nodes: int | None = None  # None: as a pilot

    @classmethod
    def of(cls, spec: SweepSpec, plan: Plan) -> "Layout":
        """Return the layout of a sweep's final run; the plan has the GPUs of a pilot, a stand-in many times them."""
        if spec.final_gpus is None:
            return cls()
        occupies = spec.resources.gpus > 0 or spec.training.machine.device == "cpu"
        return cls(spec.final_gpus / pilot_gpus(plan), spec.final_nodes if occupies else None)

    def resources(self, need: Resources) -> Resources:
        """Return what a worker occupies."""
        cpus = need.cpus * self.times if need.gpu == CPU else need.cpus
        changes = {"slots": max(1, round(need.slots * self.times)), "cpus": cpus, "gpus": need.gpus * self.times}
        return need.model_copy(update=changes)

    def machine(self, machine: Machine) -> Machine:
        """Return where it runs."""
        nodes = machine.nodes if self.nodes is None else self.nodes
        return machine.model_copy(update={"gpus": max(1, round(machine.gpus * self.times)), "nodes": nodes})


@dataclass(frozen=True, slots=True)
class FinalRun:
    """A final run as it is to be launched."""

    configuration: Configuration
    learning_rate: float
    price: FinalPrice
    length: FinalLength  # at the price that is expected; it follows the one that it measures
    budget_gpu_hours: float
    pilot: FromPilot | None
    layout: Layout

    @property
    def from_step(self) -> int:
        """The update that it goes on from."""
        return 0 if self.pilot is None else self.pilot.step

    @property
    def is_again(self) -> bool:
        """Whether it goes on from another final run, on the layout of that."""
        return self.pilot is not None and self.pilot.config is not None


def final_price(
    board: SweepState,
    configuration: Configuration,
    gpu_hours_per_step: float,
    scores: Sequence[ScorePoint],
    begun: int = 0,
    most_steps: int | None = None,
) -> FinalPrice:
    """Return what a final run is priced by: a step's price that holds a pilot's validations is split by its scores."""
    need = board.spec.resources
    slots = Layout.of(board.spec, board.plan).resources(need).slots
    start_up = board.start_ups.of(configuration.axes) * slots / need.slots
    return FinalPrice(*FinalPrice.split(gpu_hours_per_step, scores), start_up, slots, begun, most_steps)


def final_run(
    board: SweepState,
    configuration: Configuration,
    learning_rate: float,
    price: FinalPrice,
    budget_gpu_hours: float,
    pilot: FromPilot | None,
    validations: int = VALIDATIONS,
) -> FinalRun:
    """Return the run that a budget pays for, from one validation with a checkpoint to the next; else BudgetError."""
    length = price.length(budget_gpu_hours, validations)
    if length.steps <= price.begun:
        updates = "update" if length.first_steps == 1 else f"{length.first_steps:,} updates"
        raise BudgetError(
            f"a final run of {named_configuration(configuration)} needs at least {length.least_gpu_hours:.3g} "
            f"GPU-hours for its first {updates} with its start-up, and {budget_gpu_hours:.3g} are left of the plan's "
            f"budget: make a plan with a larger one{'' if pilot is None else pilot.stays}"
        )
    layout = Layout.of(board.spec, board.plan)
    return FinalRun(configuration, learning_rate, price, length, budget_gpu_hours, pilot, layout)


def limit_of(run: FinalRun, config: TrialConfig) -> int | None:
    """Return the update beyond which a final run is not trained: more would harm, or its data end there."""
    return min((limit for limit in (run.price.most_steps, horizon_of(config)) if limit is not None), default=None)


def spec_of_final(spec: SweepSpec, run: FinalRun) -> SweepSpec:
    """Return the settings that a final run is driven by: those of the sweep, with the final run's layout and money."""
    training = spec.training.model_copy(update={"machine": run.layout.machine(spec.training.machine)})
    changes = {
        "policy": FINAL_POLICY,
        "search": None,
        "pilot_gpu_hours": run.budget_gpu_hours,
        "target_gpu_hours": run.length.steps * run.length.gpu_hours_per_step,
        "champion": None,
        "rest_to_final": False,
        "continues_pilot": False,
        "workers": 1,
        "learning_rate_range": None,
        "resources": run.layout.resources(spec.resources),
        "final_gpus": None,
        "final_nodes": 1,
        "training": training,
    }
    return spec.model_copy(update=changes)


def trial_of_final(board: SweepState, run: FinalRun) -> Trial:
    """Return the trial of a final run: its pilot's, or one like those of the sweep, on the final run's layout."""
    spec = board.spec
    trials = [trial for trial in board.trials.values() if trial.configuration == run.configuration]
    trained = next((pilot for pilot in trials if run.pilot is not None and pilot.trial == run.pilot.trial), None)
    like = trained or next(iter(trials), None)
    if run.pilot is not None and run.pilot.config is not None:  # a former final run's
        config = run.pilot.config.model_copy(update={"learning_rate": run.learning_rate})
    elif like is None:
        config = spec.trial(run.configuration, run.learning_rate, spec.seed)
    else:
        config = TrialConfig.model_validate(board.facts[like.trial].config)
    if run.pilot is None:
        longest = HORIZON * run.length.steps
        config = reaching(config, longest if run.price.most_steps is None else min(longest, run.price.most_steps))
    often = {"every_rollouts": config.rollouts_per_step * run.length.segment_steps}
    machine = config.machine if run.is_again else run.layout.machine(config.machine)
    config = config.model_copy(update={"validation": config.validation.model_copy(update=often), "machine": machine})
    return trial_row(config, board.candidate(run.configuration), run.configuration.axes)


def name_of_final(sweep: str, taken: list[str]) -> str:
    """Return the next free name of a final run: 'sweep-1-final', 'sweep-1-final-2'."""
    first = f"{sweep}-final"
    return first if first not in taken else f"{first}-{max(2, int(next_name(first, taken).rpartition('-')[2]))}"


def take_over(session: Session, sweep: Sweep, trial: Trial, pilot: FromPilot) -> None:
    """Have a final run's trial stand where its pilot does, with the pilot's curve, and charge nothing for it again."""
    now = sweep.created_at
    new = Segment(number=1, from_step=0, to_step=pilot.step, reserved_gpu_hours=0.0)
    segment = results.open_segment(session, trial.id, new, now)
    path = str(Path(sweep.config["folder"]) / trial.name)
    results.settle_segment(session, segment, SegmentOutcome.COMMITTED, 0.0, now, path, pilot.step)
    keys = {"trial_id": trial.id, "attempt": 1, "segment_id": segment}
    points = [
        Point(**values_of(point) | keys)
        for point in points_of(session, pilot.trial)
        if point.optimizer_step <= pilot.step
    ]
    add_points(session, points)


FACTOR = 1.5  # between the validations that a run will have and those that were asked for, before they are spaced anew
MOST_FOR_SPACING = 0.03  # of the GPU-hours left, that opening the trial again with another spacing may take


class MovingEnd:
    """The end of the final run that a board is of; of a sweep's pilots it changes nothing."""

    def __init__(self, board: SweepState, journal: Journal) -> None:
        """Go by the spacing that the trial's configuration has: an earlier driver may have changed it."""
        self._board, self._journal = board, journal
        self._is_final = board.spec.policy == FINAL_POLICY
        for run in board.trials.values() if self._is_final else ():
            board.put(run.trial, segment_steps=_spacing(TrialConfig.model_validate(board.facts[run.trial].config)))

    def follow(self) -> None:
        """Set the last update to where the money that is left now ends, at the prices that were measured by now."""
        for run in self._board.trials.values() if self._is_final else ():
            if run.state in READY:
                self._end(run)
                self._space(self._board.trials[run.trial])

    def _end(self, run: TrialView) -> None:
        board = self._board
        steps = paid_steps(run, board.ledger.left, board.further_start_up(run.trial), board.spec.most_steps)
        if steps != run.most_steps:
            board.put(run.trial, most_steps=steps)

    def _space(self, run: TrialView) -> None:
        """Space further validations anew where there would be many more or fewer, or GPU-hours be left at the end."""
        board, planned = self._board, self._board.candidate(run.configuration)
        gpu_hours_left, start_up, limit = board.ledger.left, board.start_up(run.trial), board.spec.most_steps
        spacing = max(1, run.most_steps * planned.segment_steps // planned.update_steps)
        if run.most_steps - run.step <= run.segment_steps:
            is_limited = limit is not None and run.most_steps + run.segment_steps > limit
            spacing = run.segment_steps if is_limited else last_spacing(run, gpu_hours_left, start_up)
        elif 1 / FACTOR < spacing / run.segment_steps < FACTOR or start_up > MOST_FOR_SPACING * gpu_hours_left:
            return
        if spacing == run.segment_steps or run.step < run.segment_steps:
            return
        config = TrialConfig.model_validate(board.facts[run.trial].config)
        every = {"every_rollouts": config.rollouts_per_step * spacing}
        config = config.model_copy(update={"validation": config.validation.model_copy(update=every)})
        values = board.facts[run.trial].config = config.model_dump(mode="json")
        row = update(Trial).where(Trial.id == run.trial).values(config=values)
        self._journal.add(lambda session: session.execute(row))
        board.forget(run.trial)
        board.put(run.trial, segment_steps=spacing)
        self._end(board.trials[run.trial])
        reason = (
            f"its GPU-hours pay for {board.trials[run.trial].most_steps:,} updates, and {planned.update_steps:,} were "
            f"priced: it is scored and saved every {spacing:,} updates now, not every {run.segment_steps:,}"
        )
        self._journal.note("validations", run.trial, reason, spacing=spacing)


def _spacing(config: TrialConfig) -> int:
    return max(1, config.validation.every_rollouts // config.rollouts_per_step)
