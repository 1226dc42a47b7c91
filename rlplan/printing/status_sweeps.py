"""Lists every sweep of a database, so that a person finds names: what it is of, how it stands, what it says."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from budgets.errors import NotFoundError
from planner.axes import said
from planner.store import open_store
from planner.store.driving import is_driven, pausing
from planner.store.schema import Charge, Plan, Recommendation, Segment, Sweep, SweepStatus, Trial
from planner.store.sweeps import missing
from planner.view import Axes
from rlplan.reading.row_choice import SortKey, chosen_names, ordered
from rlplan.reading.status_choice import TrialChoice
from rlplan.reading.sweep_data import with_axes
from rlplan.reading.sweep_reading import workload_name
from rlplan.wording.canvas import Canvas
from rlplan.wording.console import canvas_of, plain_table, print_csv, print_json, print_tables, tables_console
from rlplan.wording.formats import Format
from rlplan.wording.numbers import UNKNOWN, aligned_hours, interval, steps
from runner.sweep.processes import is_dead

if TYPE_CHECKING:
    from rich.table import Table

WITHOUT_DRIVER, PAUSED = "without a driver", "paused"
WIDE = 100  # columns from which the policy, the seed and the time of its making are shown


@dataclass(frozen=True, slots=True)
class Listed:
    """One sweep in the list."""

    sweep: str
    plan: str
    workload: str
    policy: str
    seed: int
    state: str
    created_at: datetime
    trials: int
    spent_gpu_hours: float
    pilot_gpu_hours: float
    rollouts_per_prompt: int | None
    prompts_per_batch: int | None
    update_steps: int | None
    expected_score: float | None
    score_low: float | None
    score_high: float | None
    axes: Axes = ()


COLUMNS = tuple(name for name in Listed.__dataclass_fields__ if name != "axes")
STATES = (*(status.value for status in SweepStatus), PAUSED, WITHOUT_DRIVER)
SORT_KEYS: dict[str, SortKey[Listed]] = {
    "made": SortKey(lambda row: row.created_at, largest_first=True),
    "name": SortKey(lambda row: row.sweep),
    "score": SortKey(lambda row: row.expected_score, largest_first=True),
    "spent": SortKey(lambda row: row.spent_gpu_hours, largest_first=True),
}


def print_sweeps(database: str, format: Format, chosen: TrialChoice) -> None:
    """Print all sweeps, the newest first, and the names of plans that no sweep has run."""
    with open_store(database, read_only=True) as store, store.read() as session:
        rows, unused = listed(session, datetime.now(UTC)), _unused_plans(session)
    if not rows and not unused:
        raise NotFoundError(missing("sweep", None, []))
    states = chosen_names(chosen.status, "status", STATES)
    kept = [row for row in rows if not states or row.state in states]
    wanted = ordered(kept, chosen.sort or "made", SORT_KEYS, reverse=chosen.reverse)[: chosen.top]
    if format is Format.JSON:
        print_json({"sweeps": [_data(row) for row in wanted], "plans_without_sweep": unused})
    elif format is Format.CSV:
        print_csv(COLUMNS, ({name: _data(row)[name] for name in COLUMNS} for row in wanted))
    else:
        console = tables_console()
        canvas = canvas_of(console)
        parts = [_table(wanted, canvas)] if wanted else canvas.lines("No sweep is what is asked for." if rows else "")
        below = f"{len(rows) - len(wanted):,} more sweeps are not shown" if wanted and len(wanted) < len(rows) else ""
        plans = f"Plans that no sweep has run: {', '.join(unused)}" if unused else ""
        print_tables(console, [*parts, *(line for text in (below, plans) for line in canvas.lines(text, "dim"))])


def listed(session: Session, now: datetime) -> list[Listed]:
    """Return every sweep, the newest first, in a fixed number of queries."""
    spent, held = _spent(session), pausing(session)
    trials: dict[int, int] = dict(session.execute(select(Trial.sweep_id, func.count()).group_by(Trial.sweep_id)).all())
    newest = select(func.max(Recommendation.id)).group_by(Recommendation.sweep_id)
    answers = {
        row.sweep_id: row for row in session.scalars(select(Recommendation).where(Recommendation.id.in_(newest)))
    }
    wanted = select(Sweep, Plan.name, Plan.workload, Plan.pilot_gpu_hours).join(Plan, Plan.id == Sweep.plan_id)
    return [
        Listed(
            sweep=sweep.name,
            plan=plan,
            workload=workload_name(sweep.config, workload),
            policy=sweep.policy,
            seed=sweep.seed,
            state=_state(sweep, now, held),
            created_at=sweep.created_at,
            trials=trials.get(sweep.id, 0),
            spent_gpu_hours=spent.get(sweep.id, 0.0),
            pilot_gpu_hours=float(sweep.config.get("pilot_gpu_hours", planned)),
            **_answer(answers.get(sweep.id)),
        )
        for sweep, plan, workload, planned in session.execute(wanted.order_by(Sweep.id.desc()))
    ]


def _spent(session: Session) -> dict[int, float]:
    """Return the GPU-hours that are gone, by sweep."""
    segments = (
        select(Trial.sweep_id, func.sum(Segment.charged_gpu_hours))
        .join(Segment, Segment.trial_id == Trial.id)
        .group_by(Trial.sweep_id)
    )
    spent: dict[int, float] = {}
    for query in (segments, select(Charge.sweep_id, func.sum(Charge.gpu_hours)).group_by(Charge.sweep_id)):
        for sweep, gpu_hours in session.execute(query):
            spent[sweep] = spent.get(sweep, 0.0) + (gpu_hours or 0.0)
    return spent


def _state(sweep: Sweep, now: datetime, held: Collection[int]) -> str:
    if sweep.status is not SweepStatus.RUNNING:
        return sweep.status.value
    if not is_driven(sweep, now) or is_dead(sweep):
        return WITHOUT_DRIVER
    return PAUSED if sweep.id in held else sweep.status.value


def _answer(found: Recommendation | None) -> dict[str, Any]:
    names = COLUMNS[COLUMNS.index("rollouts_per_prompt") :]
    return {name: getattr(found, name, None) for name in names} | {"axes": () if found is None else found.axes}


def _unused_plans(session: Session) -> list[str]:
    used = select(Sweep.plan_id)
    return list(session.scalars(select(Plan.name).where(Plan.id.not_in(used)).order_by(Plan.id)))


def _data(row: Listed) -> dict[str, Any]:
    return with_axes(asdict(row)) | {"created_at": row.created_at.isoformat()}


def _table(rows: list[Listed], canvas: Canvas) -> "Table":
    wide = canvas.width >= WIDE
    texts = ["sweep", "plan", "of", *(["policy"] if wide else []), "state"]
    numbers = [*(["trials"] if wide else []), "GPU-hours", "n", "B", *(["M"] if wide else []), "score"]
    table = plain_table([], texts)
    for column in table.columns:
        column.no_wrap = True
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    named = any(row.axes for row in rows)
    for heading in (*(["with"] if named else []), *(["made (UTC)"] if wide else [])):
        table.add_column(heading, no_wrap=heading != "with")
    for row in rows:
        cells = [row.sweep, row.plan, row.workload, *([row.policy] if wide else []), row.state]
        cells += [*([f"{row.trials:,}"] if wide else [])]
        cells += [f"{aligned_hours(row.spent_gpu_hours)}/{aligned_hours(row.pilot_gpu_hours)}"]
        cells += [_whole(row.rollouts_per_prompt), _whole(row.prompts_per_batch)]
        cells += [*([_whole(row.update_steps)] if wide else [])]
        cells += [interval(row.expected_score, row.score_low, row.score_high)]
        cells += [*([said(row.axes)] if named else []), *([f"{row.created_at:%Y-%m-%d %H:%M}"] if wide else [])]
        table.add_row(*map(canvas.spelled, cells))
    return table


def _whole(value: int | None) -> str:
    return UNKNOWN if value is None else steps(value)
