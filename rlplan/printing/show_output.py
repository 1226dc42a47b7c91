"""Prints one thing that has a name: a trial, a sweep or a plan."""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from planner.store import Store, open_store
from planner.store.schema import Candidate, Plan, Sweep
from planner.store.sweeps import plan_named
from rlplan.printing.show_trial import drawn as trial_drawn
from rlplan.printing.sweep_output import command
from rlplan.printing.sweep_screen import money_line, title
from rlplan.reading.masking import without_variables
from rlplan.reading.plan_data import STORED
from rlplan.reading.plans import about_plan, layout_of
from rlplan.reading.row_choice import axis_cells, axis_columns
from rlplan.reading.show_reading import Kind, Named, Sheet, continuation, named, read_sheet
from rlplan.reading.sweep_data import SCORE_COLUMNS, TRIAL_COLUMNS, sweep_data, trial_data, trial_row, with_axes
from rlplan.reading.sweep_picture import Picture
from rlplan.reading.sweep_reading import picture
from rlplan.reading.sweep_words import sentence, tally, time_of
from rlplan.wording.console import Part, how_to_run, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.numbers import UNKNOWN, aligned_hours, hours, interval, steps
from rlplan.wording.tables import RANK, SIZE, Cells, Column, axes_column, table_of
from rlplan.wording.terminal import Canvas, tell

if TYPE_CHECKING:
    from rlplan.reading.launching import Launch


def print_shown(database: str, name: str | None, sweep: str | None, format: Format) -> None:
    """Print what a name stands for."""
    with open_store(database, read_only=True) as store:
        with store.read() as session:
            found = named(session, name, sweep)
        if found.kind is Kind.TRIAL:
            _print_trial(store, found, format)
            return
    if found.kind is Kind.SWEEP:
        print_sweep(database, found.name, format)
    else:
        print_plan(database, found.name, format)


def _print_trial(store: Store, found: Named, format: Format) -> None:
    sheet = read_sheet(store, str(found.sweep), found.name)
    if found.also_in:
        tell(f"{found.name} is of {found.sweep}; --sweep shows that of {', '.join(found.also_in)}")
    if format is Format.CSV:
        print_csv(SCORE_COLUMNS, trial_data(sheet.row)["points"])
        return
    further = continuation(store, str(found.sweep), sheet.row.id)
    if format is Format.JSON:
        print_json(sheet_data(sheet, further))
        return
    print_drawn(lambda canvas: _drawn(sheet, further, canvas))


def _drawn(sheet: Sheet, further: "Launch", canvas: Canvas) -> Iterator[Part]:
    yield from trial_drawn(sheet, canvas)
    yield ""
    yield canvas.line("To train it on", "bold")
    yield from how_to_run(further.command, further.note, canvas)


def sheet_data(sheet: Sheet, further: "Launch") -> dict[str, Any]:
    """Return the document that `show TRIAL --format json` prints."""
    return {
        "kind": Kind.TRIAL.value,
        "sweep": sheet.picture.sweep,
        "plan": sheet.picture.plan,
        "metric": sheet.picture.metric,
        **trial_data(sheet.row),
        "recipe": sheet.recipe,
        "fitted_at": None if sheet.fitted_at is None else sheet.fitted_at.isoformat(),
        "fitted_upto_gpu_hours": sheet.fitted_upto_gpu_hours,
        "checkpoint": sheet.checkpoint,
        "segments": [_timed(each._asdict(), "started_at", "ended_at") for each in sheet.segments],
        "transitions": [_timed(each._asdict(), "at") for each in sheet.moves],
        "decisions": [each.told() for each in sheet.decisions],
        "config": dict(sheet.config),
        "train_on": {"arguments": None if further.command is None else list(further.command), "note": further.note},
    }


def _timed(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return row | {name: None if row[name] is None else row[name].isoformat() for name in names}


FURTHER = (
    ("status", "its trials, and what was decided last"),
    ("rank", "its allocations, ranked"),
    ("recommend", "what to run now, how sure that is, and the command"),
    ("decisions", "why each trial was started, continued or pruned"),
)


def print_sweep(database: str, sweep: str, format: Format) -> None:
    """Print a sweep."""
    with open_store(database, read_only=True) as store:
        seen = picture(store, sweep)
    if format is Format.JSON:
        print_json({"kind": "sweep", **sweep_data(seen), "config": seen.config})
    elif format is Format.CSV:
        print_csv(TRIAL_COLUMNS, (trial_row(trial) for trial in seen.trials))
    else:
        print_drawn(lambda canvas: _sweep_drawn(seen, database, canvas))


def _sweep_drawn(seen: Picture, database: str, canvas: Canvas) -> Iterator[Part]:
    yield from canvas.lines(title(seen), "bold")
    yield from canvas.lines(time_of(seen), "dim")
    count = "one trial" if len(seen.trials) == 1 else f"{len(seen.trials):,} trials"
    trials = f"{count} ({tally(seen.trials)})" if seen.trials else "no trials yet"
    yield from canvas.lines(f"{money_line(seen.money)}; {trials}; {seen.decisions:,} decisions")
    if seen.answer:
        yield ""
        yield from canvas.lines(sentence(seen.answer), "bold")
    yield ""
    yield fields([(name, str(value)) for name, value in asked_for(seen)], canvas)
    yield ""
    yield fields([(f"`{command(verb, seen.sweep, database)}`", what) for verb, what in FURTHER], canvas)


def asked_for(seen: Picture) -> list[tuple[str, Any]]:
    """Return the settings of a sweep that are worth reading; one of another version may lack some."""
    config, target = seen.config, seen.config.get("target_gpu_hours")
    given = {
        "policy": config.get("policy"),
        "search": config.get("search"),
        "seed": config.get("seed"),
        "workers": config.get("workers"),
        "retries": config.get("retries"),
        "final run": f"{hours(target)} GPU-hours" if isinstance(target, int | float) else None,
        "scored by": seen.metric,
        "folder": config.get("folder"),
    }
    return [(name, value) for name, value in given.items() if value is not None]


def fields(rows: list[tuple[str, str]], canvas: Canvas) -> Part:
    """Return names with their values beside them."""
    columns = (Column("", itemgetter(0), Cells.NAMES), Column("", itemgetter(1), Cells.PATHS))
    return table_of(rows, columns, canvas, headed=False)


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
            print_drawn(lambda canvas: _plan_drawn(plan, sweeps, database, canvas))


def plan_document(plan: Plan, sweeps: Sequence[str]) -> dict[str, Any]:
    """Return the document that `show PLAN --format json` prints."""
    return {
        "kind": "plan",
        "plan": plan.name,
        "created_at": plan.created_at.isoformat(),
        **{name: getattr(plan, name) for name in OF_PLAN},
        "config": without_variables(plan.config),
        "sweeps": list(sweeps),
        "candidates": [
            with_axes(_values(each) | {"axes": each.axes}) | {"notes": each.notes} for each in plan.candidates
        ],
    }


def _values(candidate: Candidate) -> dict[str, Any]:
    return {name: getattr(candidate, name) for name in OF_CANDIDATE}


def _plan_drawn(plan: Plan, sweeps: Sequence[str], database: str, canvas: Canvas) -> Iterator[Part]:
    yield from canvas.lines(f"{plan.name}: {hours(plan.budget_gpu_hours)} GPU-hours for {about_plan(plan)}", "bold")
    pilots = [each for each in plan.candidates if each.pilot_steps]
    used = sum(each.pilot_gpu_hours for each in pilots)
    taken = f"{hours(plan.pilot_gpu_hours)} GPU-hours for pilots, of which {len(pilots):,} take {hours(used)}"
    split = taken if pilots else "No pilots"
    yield from canvas.lines(
        f"{split}; {hours(plan.final_gpu_hours)} for the final run. Made {plan.created_at:%Y-%m-%d %H:%M} UTC."
    )
    if layout := layout_of(plan, len(pilots)):
        yield from canvas.lines(f"{layout}.")
    yield ""
    shown = [each for each in plan.candidates if each.rank <= SHOWN or each.pilot_steps]
    yield _candidates(shown, canvas)
    if hidden := len(plan.candidates) - len(shown):
        yield from canvas.lines(f"{hidden:,} more: `{command('rank', plan.name, database)}`, or --format csv", "dim")
    if plan.assumptions:
        yield ""
        yield canvas.line("What it takes for granted", "bold")
        yield fields([_assumed(each) for each in plan.assumptions], canvas)
    yield ""
    run = command("sweep", plan.name, database)
    ran = f"Run by {', '.join(sweeps)}; `{command('show', sweeps[-1], database)}` shows it." if sweeps else ""
    if ran or pilots:
        yield from canvas.lines(ran or f"No sweep has run it yet: `{run}`.")


def _assumed(each: Any) -> tuple[str, str]:
    known = each if isinstance(each, dict) else {}
    source = f" ({known['source']})" if known.get("source") else ""
    return str(known.get("what", "")), f"{known.get('value', each)}{source}"


def _candidates(candidates: Sequence[Candidate], canvas: Canvas) -> Part:
    columns: Sequence[Column[Candidate]] = (
        RANK,
        *SIZE,
        Column("GPU-h/step", lambda each: aligned_hours(each.gpu_hours_per_step), gives_way=True),
        Column("score", lambda each: interval(each.expected_score, each.score_low, each.score_high)),
        Column("pilot", lambda each: f"{steps(each.pilot_steps)} steps" if each.pilot_steps else UNKNOWN),
        axes_column(candidates),
    )
    return table_of(candidates, columns, canvas, dim=lambda each: not each.pilot_steps)
