"""Prints one thing that has a name: a trial, a sweep or a plan."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.store import Store, open_store
from rlplan.printing.show_trial import drawn
from rlplan.reading.show_naming import Kind, Named, named
from rlplan.reading.show_reading import Continuation, Sheet, continuation, read_sheet
from rlplan.reading.sweep_data import trial_data
from rlplan.wording.canvas import Canvas
from rlplan.wording.console import Part, how_to_run, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.terminal import tell

if TYPE_CHECKING:
    pass

SCORE_COLUMNS = ("step", "gpu_hours", "score", "score_standard_error")


def print_shown(database: str, name: str | None, sweep: str | None, format: Format) -> None:
    """Print what a name stands for."""
    with open_store(database, read_only=True) as store:
        with store.read() as session:
            found = named(session, name, sweep)
        if found.kind is Kind.TRIAL:
            _print_trial(store, found, format)
            return
    if found.kind is Kind.SWEEP:
        from rlplan.printing.show_sweep import print_sweep  # noqa: PLC0415

        print_sweep(database, found.name, format)
    else:
        from rlplan.printing.show_plan import print_plan  # noqa: PLC0415

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


def _drawn(sheet: Sheet, further: Continuation, canvas: Canvas) -> Iterator[Part]:
    yield from drawn(sheet, canvas)
    yield ""
    yield canvas.line("To train it on", "bold")
    yield from how_to_run(further.command, further.note, canvas)


def sheet_data(sheet: Sheet, further: Continuation) -> dict[str, Any]:
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
        "segments": [_timed(asdict(each), "started_at", "ended_at") for each in sheet.segments],
        "transitions": [_timed(asdict(each), "at") for each in sheet.moves],
        "decisions": [each.told() for each in sheet.decisions],
        "config": dict(sheet.config),
        "train_on": {"arguments": None if further.command is None else list(further.command), "note": further.note},
    }


def _timed(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return row | {name: None if row[name] is None else row[name].isoformat() for name in names}
