"""What a final run is to be: what is recommended, a plan's row, or what goes on from the former's best checkpoint."""

from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import select

from budgets.errors import BudgetError, InputError, NotFoundError
from planner.policy.champion import champion_of
from planner.proposals.propose import STOPS_EARLY
from planner.recommend.choice import Choice
from planner.recommend.facts import facts_of
from planner.store import Store
from planner.store.finals import BEST, ENDED, finals_of, pilots_of
from planner.store.read_model import SweepSnapshot
from planner.store.schema import Candidate, Plan, Sweep, SweepStatus, Trial
from planner.store.sweeps import Totals, totals_of
from planner.view import Configuration, View
from rlplan.actions.sweep_request import spec_of
from rlplan.reading.launch_line import beginning
from rlplan.reading.recommendation import Stored, recommended_for
from rlplan.reading.row_choice import no_such_allocation, row_with, sizes_in
from rlplan.requests.run import SweepRequest
from runner.ports.trial import TrialConfig
from runner.processes import has_driver
from runner.sweep.conclusions import planned_of
from runner.sweep.home import home_of
from runner.sweep.kept import FromPilot, takes_rate
from runner.sweep.plan_rows import configuration_of
from runner.sweep.state import SweepState
from runner.trainers.catalogue import horizon_of, newest_step


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a final run is to be, before it is known how far the money goes."""

    configuration: Configuration
    learning_rate: float
    gpu_hours_per_step: float
    pilot: FromPilot | None
    notes: tuple[str, ...]
    most_steps: int | None = None  # None: as many as its GPU-hours pay for


def wanted_of_sweep(stored: Stored, allocation: str | None) -> Wanted:
    """Return the recommended final run, or the best of the allocation that is named."""
    choice = _choice(stored, allocation)
    pilot, note = beginning(stored.board, choice.configuration, choice.update_steps, stored.astray)
    start = most = None
    if pilot is not None:
        start = FromPilot(pilot.number, Path(pilot.folder), pilot.step)
        most = horizon_of(TrialConfig.model_validate(stored.board.facts[pilot.number].config))
    price = facts_of(stored.board.view(0), planned_of(stored.board))[choice.configuration].gpu_hours_per_step
    return Wanted(choice.configuration, choice.learning_rate, price, start, (note,), most)


def _choice(stored: Stored, allocation: str | None) -> Choice:
    """Return what is to be run: the recommended choice, or the best with the n and B that are named."""
    answer, sizes = recommended_for(stored).answer, sizes_in(allocation)
    if sizes is None:
        return answer.chosen
    for choice in answer.ranked:
        if (choice.rollouts_per_prompt, choice.prompts_per_batch) == sizes:
            if choice.update_steps < 1:
                raise BudgetError(f"--allocation {allocation}: the final run's budget pays for no update of it")
            return choice
    raise no_such_allocation(sizes, answer.ranked, stored.sweep.name)


def best_of_former(store: Store, stored: Stored, learning_rate: float | None) -> Wanted:
    """Return what a final run goes on from that begins at the best checkpoint of the one before."""
    with store.read() as session:
        launched = finals_of(session, stored.sweep.id)
        if not launched:
            raise NotFoundError(f"{stored.sweep.name} has no final run to go back in: launch one without --from-best")
        final, row = launched[-1]
        if has_driver(row):
            raise InputError(f"{row.name} is still running: `rlplan stop {row.name}` first, which saves it")
        trial = session.scalars(select(Trial).where(Trial.sweep_id == row.id)).one()
        folder, totals = home_of(row, store.location).folder / trial.name / BEST, totals_of(session, row.id)
    if stored.board.spec.storage is not None:
        raise InputError(
            f"--from-best: what {row.name} has saved lies in {stored.board.spec.storage}, where the last two saves are "
            f"kept and not the best: `rlplan resume {row.name}` goes on from the last"
        )
    config = TrialConfig.model_validate(trial.config)
    step = newest_step(config, folder)
    if step is None:
        raise NotFoundError(f"{row.name} has kept no best checkpoint in {folder}: none was scored and saved yet")
    rate = trial.learning_rate if learning_rate is None else learning_rate
    if rate != trial.learning_rate and not takes_rate(config):
        trainer = config.trainer.name if config.trainer else ""
        raise InputError(f"--learning-rate: {trainer} goes on at the rate of its checkpoint; leave it out")
    made = totals.committed_step.get(trial.id, 0) - final.from_step
    price = totals.spent / made if made > 0 else final.gpu_hours_per_step
    notes = [f"it goes on from update {step:,} of {row.name}, whose best checkpoint that is"]
    if rate == trial.learning_rate and takes_rate(config) and row.status is not SweepStatus.FINISHED:
        notes.append("at the same learning rate it may do again what it did: --learning-rate gives a lower one")
    return Wanted(
        configuration=configuration_of(trial),
        learning_rate=rate,
        gpu_hours_per_step=price,
        pilot=FromPilot(trial.id, folder, step, config),
        notes=tuple(notes),
        most_steps=horizon_of(config),
    )


def known_there(view: View, pilot: FromPilot) -> View:
    """Return what was known at a best checkpoint: what its run did later is no part of one that goes on from it."""
    run = view.trials[pilot.trial]
    upto = replace(run, scores=tuple(score for score in run.scores if score.step <= pilot.step))
    return replace(view, trials={**view.trials, pilot.trial: upto})


def wanted_of(row: Candidate) -> Wanted:
    """Return what a final run is to be that no pilot tells more of: the row as it is planned."""
    most = row.update_steps if any(note.startswith(STOPS_EARLY) for note in row.notes) else None
    base = ("it starts from the base model",)
    return Wanted(configuration_of(row), row.learning_rate, row.gpu_hours_per_step, None, base, most)


def unswept(store: Store, plan: Plan, row: Candidate, training: SweepRequest) -> Stored:
    """Return the sweep without pilots that a row's final run is of, as it would be stored.

    Refused while another sweep of the plan has not ended.
    """
    with store.read() as session:
        for sweep in session.scalars(select(Sweep).where(Sweep.plan_id == plan.id, Sweep.status.not_in(ENDED))):
            if has_driver(sweep):
                raise InputError(f"{sweep.name} of {plan.name} is running: wait, or `rlplan stop {sweep.name}` first")
            other = pilots_of(session, sweep)
            instead = "--switch" if other is not sweep else "--allocation n=…,B=…"
            raise InputError(
                f"{sweep.name} of {plan.name} has not ended ({sweep.status}): `rlplan resume {sweep.name}` goes on "
                f"with it; `rlplan launch {other.name} {instead}` runs something else"
            )
    spec = spec_of(replace(training, only=row.rank), plan)
    new = Sweep(name=plan.name, plan_id=plan.id, policy=spec.policy, seed=spec.seed, status=SweepStatus.FINISHED)
    board = SweepState(spec, SweepSnapshot(new, plan, [], {}, {}, {}, {}, Totals(), {}))
    return Stored(store.location, new, plan, board, None, None)


def row_named(plan: Plan, row: int | None, sizes: tuple[int, int] | None) -> Candidate:
    """Return the row that is named, by its number or its n and B; without either the champion's, else the first."""
    champion = champion_of(plan.config, plan.budget_gpu_hours)
    starts = () if champion is None or row is not None or sizes is not None else champion.candidates
    ranked = sorted(plan.candidates, key=lambda row: (configuration_of(row) not in starts, row.rank))
    choice = row_with(ranked, row, sizes, plan.name)
    if choice.update_steps < 1:
        n, B, _ = configuration_of(choice)
        raise BudgetError(f"n = {n}, B = {B}: the budget of {plan.name} pays for no update of it")
    return choice
