"""What `rlplan launch PLAN` runs: a row of a plan in full, as the final run of a sweep that has no pilots."""

from dataclasses import replace

from sqlalchemy import select

from budgets.errors import BudgetError, InputError
from planner.store import Store
from planner.store.finals import ENDED, pilots_of
from planner.store.schema import Candidate, Plan, Sweep, SweepStatus
from planner.store.state import SweepState
from planner.store.totals import Totals
from rlplan.actions.going_back import Wanted
from rlplan.actions.sweep_request import spec_of
from rlplan.reading.recommend_reading import Stored
from rlplan.requests.running import SweepRequest
from runner.processes import has_driver
from runner.sweep.board import Board
from runner.sweep.planned import configuration_of


def wanted_of(row: Candidate) -> Wanted:
    """Return what a final run is to be that no pilot tells more of: the row as it is planned."""
    price = row.gpu_hours_per_step
    base = ("it starts from the base model",)
    return Wanted(configuration_of(row), row.update_steps, row.learning_rate, price, None, base)


def unswept(store: Store, plan: Plan, row: Candidate, training: SweepRequest) -> Stored:
    """Return the sweep without pilots that a row's final run is of, as it would be stored.

    Refused while another sweep of the plan has not ended.
    """
    _require_ended(store, plan)
    spec = spec_of(replace(training, only=row.rank), plan)
    sweep = Sweep(name=plan.name, plan_id=plan.id, policy=spec.policy, seed=spec.seed, status=SweepStatus.FINISHED)
    board = Board(spec, SweepState(sweep, plan, [], {}, {}, {}, {}, Totals(), {}))
    return Stored(store.location, sweep, plan, board, None, None)


def _require_ended(store: Store, plan: Plan) -> None:
    with store.read() as session:
        for row in session.scalars(select(Sweep).where(Sweep.plan_id == plan.id)):
            if row.status in ENDED:
                continue
            if has_driver(row):
                raise InputError(f"{row.name} of {plan.name} is running: wait, or `rlplan stop {row.name}` first")
            other = pilots_of(session, row)
            instead = "--switch" if other is not row else "--allocation n=…,B=…"
            raise InputError(
                f"{row.name} of {plan.name} has not ended ({row.status}): `rlplan resume {row.name}` goes on with it; "
                f"`rlplan launch {other.name} {instead}` runs something else"
            )


def row_named(plan: Plan, row: int | None, sizes: tuple[int, int] | None) -> Candidate:
    """Return the row that is named, by its number or its n and B; the first without either."""
    ranked = sorted(plan.candidates, key=lambda each: each.rank)
    named = f"--row {row}" if sizes is None else f"--allocation n={sizes[0]},B={sizes[1]}"
    for each in ranked:
        if row in (None, each.rank) and sizes in (None, (each.rollouts_per_prompt, each.prompts_per_batch)):
            if each.update_steps < 1:
                raise BudgetError(f"{named}: the budget of {plan.name} pays for no update of it")
            return each
    raise InputError(f"{named}: {plan.name} has rows 1 to {len(ranked)}; `rlplan rank {plan.name}` shows them")
