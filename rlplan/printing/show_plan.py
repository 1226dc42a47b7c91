"""Shows one stored plan: what it is for, how it is split, its best candidates, and the sweeps that have run it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from planner.axes import said
from planner.store import open_store
from planner.store.schema import Candidate, Plan, Sweep
from planner.store.sweeps import plan_named
from rlplan.printing.show_sweep import fields
from rlplan.printing.sweep_output import command
from rlplan.reading.plan_data import STORED
from rlplan.reading.row_choice import axis_cells, axis_columns
from rlplan.reading.sweep_data import with_axes
from rlplan.wording.canvas import Canvas
from rlplan.wording.console import plain_table, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.numbers import UNKNOWN, aligned_hours, hours, interval, steps

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

SHOWN = 10  # candidates, beside those that get a pilot
OF_PLAN = (
    "budget_gpu_hours",
    "pilot_gpu_hours",
    "final_gpu_hours",
    "workload",
    "hardware",
    "recipe",
    "difficulty",
    "assumptions",
    "outlook",
    "config",
    "rlplan_version",
)
OF_CANDIDATE = (
    *STORED,
    "expected_score",
    "score_low",
    "score_high",
    "pilot_reason",
)


def print_plan(database: str, name: str, format: Format) -> None:
    """Print a stored plan."""
    with open_store(database, read_only=True) as store, store.read() as session:
        plan = plan_named(session, name)
        sweeps = list(session.scalars(select(Sweep.name).where(Sweep.plan_id == plan.id).order_by(Sweep.id)))
        if format is Format.JSON:
            print_json(plan_document(plan, sweeps))
        elif format is Format.CSV:
            axes = axis_columns(each.axes for each in plan.candidates)
            print_csv((*OF_CANDIDATE, *axes), (_values(each) | axis_cells(each.axes) for each in plan.candidates))
        else:
            print_drawn(lambda canvas: _drawn(plan, sweeps, database, canvas))


def plan_document(plan: Plan, sweeps: Sequence[str]) -> dict[str, Any]:
    """Return the document that `show PLAN --format json` prints."""
    return {
        "kind": "plan",
        "plan": plan.name,
        "created_at": plan.created_at.isoformat(),
        **{name: getattr(plan, name) for name in OF_PLAN},
        "sweeps": list(sweeps),
        "candidates": [
            with_axes(_values(each) | {"axes": each.axes}) | {"notes": each.notes} for each in plan.candidates
        ],
    }


def _values(candidate: Candidate) -> dict[str, Any]:
    return {name: getattr(candidate, name) for name in OF_CANDIDATE}


def _drawn(plan: Plan, sweeps: Sequence[str], database: str, canvas: Canvas) -> "Iterator[RenderableType]":
    yield from canvas.lines(_title(plan), "bold")
    pilots = [each for each in plan.candidates if each.pilot_steps]
    used = sum(each.pilot_gpu_hours for each in pilots)
    yield from canvas.lines(
        f"{hours(plan.pilot_gpu_hours)} GPU-hours for pilots, of which {len(pilots):,} take {hours(used)}; "
        f"{hours(plan.final_gpu_hours)} for the final run. Made {plan.created_at:%Y-%m-%d %H:%M} UTC."
    )
    yield ""
    shown = [each for each in plan.candidates if each.rank <= SHOWN or each.pilot_steps]
    yield _candidates(shown, canvas)
    if hidden := len(plan.candidates) - len(shown):
        yield from canvas.lines(f"{hidden:,} more: `{command('rank', plan.name, database)}`, or --format csv", "dim")
    if plan.assumptions:
        yield ""
        yield canvas.line("What it takes for granted", "bold")
        yield fields([_assumed(each, canvas) for each in plan.assumptions])
    yield ""
    run = command("sweep", plan.name, database)
    ran = f"Run by {', '.join(sweeps)}; `{command('show', sweeps[-1], database)}` shows it." if sweeps else ""
    yield from canvas.lines(ran or f"No sweep has run it yet: `{run}`.")


def _title(plan: Plan) -> str:
    model, gpu = plan.workload.get("model", "a model"), plan.hardware.get("gpu", "GPUs")
    where = f"{plan.hardware['gpus']} {gpu}" if "gpus" in plan.hardware else gpu
    return (
        f"{plan.name}: {hours(plan.budget_gpu_hours)} GPU-hours for {model} on {where}, {plan.difficulty} problems, "
        f"recipe {plan.recipe}"
    )


def _assumed(each: Any, canvas: Canvas) -> tuple[str, str]:
    known = each if isinstance(each, dict) else {}
    source = f" ({known['source']})" if known.get("source") else ""
    return canvas.spelled(str(known.get("what", ""))), canvas.spelled(f"{known.get('value', each)}{source}")


def _candidates(candidates: Sequence[Candidate], canvas: Canvas) -> "Table":
    named = any(each.axes for each in candidates)
    table = plain_table(["#", "n", "B", "M", "GPU-h/step", "score", "pilot"], ["with"] if named else [])
    for each in candidates:
        row = [
            str(each.rank),
            str(each.rollouts_per_prompt),
            str(each.prompts_per_batch),
            steps(each.update_steps),
            aligned_hours(each.gpu_hours_per_step),
            interval(each.expected_score, each.score_low, each.score_high),
            f"{steps(each.pilot_steps)} steps" if each.pilot_steps else UNKNOWN,
            *([said(each.axes)] if named else []),
        ]
        table.add_row(*map(canvas.spelled, row), style=None if each.pilot_steps else "dim")
    return table
