"""Shows one sweep as a whole: how it stands, what it was asked to do, what it says, and where to look next."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from planner.store import open_store
from rlplan.printing.sweep_output import command
from rlplan.printing.sweep_screen import money_line, title
from rlplan.reading.sweep_data import TRIAL_COLUMNS, sweep_data, trial_row
from rlplan.reading.sweep_picture import Picture
from rlplan.reading.sweep_reading import picture
from rlplan.reading.sweep_words import sentence, tally, time_of
from rlplan.wording.canvas import Canvas
from rlplan.wording.console import plain_table, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.numbers import hours

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

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
        print_drawn(lambda canvas: _drawn(seen, database, canvas))


def _drawn(seen: Picture, database: str, canvas: Canvas) -> "Iterator[RenderableType]":
    yield from canvas.lines(title(seen), "bold")
    yield from canvas.lines(time_of(seen), "dim")
    yield from canvas.lines(f"{money_line(seen.money)}; {_trials(seen)}; {seen.decisions:,} decisions")
    if seen.answer:
        yield ""
        yield from canvas.lines(sentence(seen.answer), "bold")
    yield ""
    yield fields([(name, canvas.spelled(str(value))) for name, value in asked_for(seen)])
    yield ""
    yield fields([(f"`{command(verb, seen.sweep, database)}`", what) for verb, what in FURTHER])


def _trials(seen: Picture) -> str:
    count = "one trial" if len(seen.trials) == 1 else f"{len(seen.trials):,} trials"
    return f"{count} ({tally(seen.trials)})" if seen.trials else "no trials yet"


def asked_for(seen: Picture) -> list[tuple[str, Any]]:
    """Return the settings of a sweep that are worth reading; one of another version may lack some."""
    config = seen.config
    given = {
        "policy": config.get("policy"),
        "search": config.get("search"),
        "seed": config.get("seed"),
        "workers": config.get("workers"),
        "retries": config.get("retries"),
        "final run": _hours(config.get("target_gpu_hours")),
        "scored by": seen.metric,
        "folder": config.get("folder"),
    }
    return [(name, value) for name, value in given.items() if value is not None]


def _hours(value: Any) -> str | None:
    return f"{hours(value)} GPU-hours" if isinstance(value, int | float) else None


def fields(rows: list[tuple[str, str]]) -> "Table":
    """Return names with their values beside them."""
    table = plain_table([], ["", ""])
    table.show_header = False
    table.columns[0].no_wrap = True
    table.columns[1].overflow = "fold"
    for row in rows:
        table.add_row(*row)
    return table
