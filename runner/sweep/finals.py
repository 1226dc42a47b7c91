"""From a sweep and a choice to its final run: the settings it is driven by, its trial, and what it takes of a pilot."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.orm import Session

from budgets.errors import BudgetError
from budgets.work import Phase
from planner.axes import named_configuration
from planner.store import results
from planner.store.base import values_of
from planner.store.curves import points_of
from planner.store.results import add_points
from planner.store.schema import Point, Segment, SegmentOutcome, Sweep, Trial
from planner.store.sweeps import next_name
from planner.sweeping.final import LAST_MARGIN
from planner.sweeping.grants import MOST_IDLE_SHARE, idle_gpu_hours
from planner.view import FINAL_POLICY, Configuration
from runner.ports.trial import Machine, TrialConfig
from runner.sweep.board import Board
from runner.sweep.keeping import FromPilot
from runner.sweep.planned import CPU
from runner.sweep.planning import trial_row
from runner.sweep.spec import Resources, SweepSpec
from runner.trainers.horizon import horizon_of, reaching

VALIDATIONS = 40  # over a final run
HORIZON = 2  # times its planned updates, that the data of a final run last for: steps may turn out cheaper


@dataclass(frozen=True, slots=True)
class Layout:
    """How a final run occupies its machines: so many times the GPUs of a pilot, on so many nodes."""

    times: float = 1.0
    nodes: int | None = None  # None: as a pilot

    @classmethod
    def of(cls, spec: SweepSpec, gpus_of_a_pilot: int) -> "Layout":
        """Return the layout of a sweep's final run; the plan has the GPUs of a pilot, a stand-in many times them."""
        if spec.final_gpus is None:
            return cls()
        occupies = spec.resources.gpus > 0 or spec.training.machine.device == "cpu"
        return cls(spec.final_gpus / gpus_of_a_pilot, spec.final_nodes if occupies else None)

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
    update_steps: int  # that its GPU-hours pay for at the price that is expected; it follows the one that it measures
    most_steps: int | None  # beyond which it is not trained, whatever that costs
    segment_steps: int
    learning_rate: float
    gpu_hours_per_step: float
    start_up_gpu_hours: float
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

    @property
    def gpu_hours(self) -> float:
        """What it is to cost."""
        return self.start_up_gpu_hours + (self.update_steps - self.from_step) * self.gpu_hours_per_step


@dataclass(frozen=True, slots=True)
class StepPrice:
    """GPU-hours of a final run's updates and of its validations."""

    update: float
    validation: float = 0.0  # 0: its share is within an update's

    def steps(self, gpu_hours: float, validations: int, begun: int) -> int:
        """Return the updates of a run of so many validations, of which GPU-hours pay for those after `begun`.

        T updates in all: (T - begun) (u + V v / T) = gpu_hours.
        """
        scoring = validations * self.validation
        without = gpu_hours + begun * self.update - scoring
        return math.floor((without + math.sqrt(without**2 + 4 * self.update * begun * scoring)) / (2 * self.update))

    def of_one(self, steps: int, validations: int) -> float:
        """Return the price of a step of a run, its share of the validations included."""
        return self.update + validations * self.validation / steps


def final_run(
    board: Board,
    configuration: Configuration,
    learning_rate: float,
    price: StepPrice,
    budget_gpu_hours: float,
    pilot: FromPilot | None,
    layout: Layout,
    validations: int = VALIDATIONS,
    most_steps: int | None = None,
) -> FinalRun:
    """Return the run, as long as the money pays for with its start-up and the last segment's margin; else BudgetError.

    Segments are from one validation to the next: each ends with a score and a checkpoint. No more than half of the
    money goes into validations.
    """
    slots, of_a_pilot = layout.resources(board.spec.resources).slots, board.spec.resources.slots
    start_up = board.start_ups.of(configuration.axes) * slots / of_a_pilot
    money = budget_gpu_hours - min(idle_gpu_hours(1, 0.0, slots), MOST_IDLE_SHARE * budget_gpu_hours)
    if price.validation:
        validations = max(1, min(validations, int(money / (2 * price.validation))))
    training = (money - start_up) * (1 - (LAST_MARGIN - 1) / validations)
    begun = 0 if pilot is None else pilot.step
    paid = max(begun, price.steps(max(0.0, training), validations, begun))
    paid = paid if most_steps is None else min(paid, most_steps)
    segment = max(1, paid // validations)
    steps = paid // segment * segment  # so that the last update is validated
    per_step = price.of_one(max(1, steps), validations)
    first = segment - begun % segment
    least = LAST_MARGIN * (start_up + first * per_step)
    if steps <= begun or least > money:
        updates = "update" if first == 1 else f"{first:,} updates"
        raise BudgetError(
            f"a final run of {named_configuration(configuration)} needs at least "
            f"{budget_gpu_hours - money + least:.3g} GPU-hours for its first {updates} with its start-up, and "
            f"{budget_gpu_hours:.3g} are left of the plan's budget: make a plan with a larger one"
            f"{'' if pilot is None else pilot.stays}"
        )
    priced = learning_rate, per_step, start_up, budget_gpu_hours
    return FinalRun(configuration, steps, most_steps, segment, *priced, pilot, layout)


def step_price(gpu_hours_per_step: float, points: Sequence[Point]) -> StepPrice:
    """Return the price of an update and of a validation, by the seconds that a pilot's points say of theirs.

    A pilot is scored more often than the final run that its price is for.
    """
    if len(points) < 2:
        return StepPrice(gpu_hours_per_step)
    seconds = points[-1].seconds - points[0].seconds
    steps = points[-1].optimizer_step - points[0].optimizer_step
    scored = [(each.metrics or {}).get("seconds", {}).get(Phase.EVALUATE) for each in points[1:]]
    scoring = [took for took in scored if took]
    share = min(1.0, sum(scoring) / seconds) if scoring and seconds > 0 else 0.0
    if not 0 < share < 1:
        return StepPrice(gpu_hours_per_step)
    return StepPrice(gpu_hours_per_step * (1 - share), gpu_hours_per_step * share * steps / len(scoring))


def limit_of(run: FinalRun, config: TrialConfig) -> int | None:
    """Return the update beyond which a final run is not trained: more would harm, or its data end there."""
    return min((each for each in (run.most_steps, horizon_of(config)) if each is not None), default=None)


def spec_of_final(spec: SweepSpec, run: FinalRun) -> SweepSpec:
    """Return the settings that a final run is driven by: those of the sweep, with the final run's layout and money."""
    training = spec.training.model_copy(update={"machine": run.layout.machine(spec.training.machine)})
    changes = {
        "policy": FINAL_POLICY,
        "search": None,
        "pilot_gpu_hours": run.budget_gpu_hours,
        "target_gpu_hours": run.update_steps * run.gpu_hours_per_step,
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


def trial_of_final(board: Board, run: FinalRun) -> Trial:
    """Return the trial of a final run: its pilot's, or one like those of the sweep, on the final run's layout."""
    spec = board.spec
    known = [each for each in board.trials.values() if each.configuration == run.configuration]
    trained = next((each for each in known if run.pilot is not None and each.trial == run.pilot.trial), None)
    like = trained or next(iter(known), None)
    if run.pilot is not None and run.pilot.config is not None:  # a former final run's
        config = run.pilot.config.model_copy(update={"learning_rate": run.learning_rate})
    elif like is None:
        config = spec.trial(run.configuration, run.learning_rate, spec.seed)
    else:
        config = TrialConfig.model_validate(board.facts[like.trial].config)
    if run.pilot is None:
        longest = HORIZON * run.update_steps
        config = reaching(config, longest if run.most_steps is None else min(longest, run.most_steps))
    often = {"every_rollouts": config.rollouts_per_step * run.segment_steps}
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
    own = {"trial_id": trial.id, "attempt": 1, "segment_id": segment}
    points = [
        Point(**values_of(each) | own) for each in points_of(session, pilot.trial) if each.optimizer_step <= pilot.step
    ]
    add_points(session, points)
