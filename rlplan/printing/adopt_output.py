"""Prints what was read of runs that are adopted, and what became of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from planner.adopting.together import Entry
from planner.axes import said
from rlplan.actions.adopting import Adopted
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.next_steps import ROWS, Invocation, NextStep, next_steps
from rlplan.wording.numbers import hours, plural
from rlplan.wording.tables import Cells, Column, table_of
from rlplan.wording.terminal import Canvas, tell

SHOWN_LINES = 3  # of what is lacking and of what is odd, on the first screen


@dataclass(frozen=True, slots=True)
class _Row:
    entry: Entry
    trial: str | None
    missing: tuple[str, ...]


def print_adopted(adopted: Adopted, format: Format, invocation: Invocation) -> int:
    """Print the runs as they were read; return the exit code."""
    for note in adopted.notes:
        tell(f"note: {note}")
    if format is Format.JSON:
        print_json(adopted_data(adopted))
    elif format is Format.CSV:
        rows = [_flat(row) for row in adopted_data(adopted)["runs"]]
        print_csv(list(dict.fromkeys(name for row in rows for name in row)), rows)
    else:
        print_drawn(lambda canvas: _drawn(adopted, invocation, canvas))
    return 0


def adopted_data(adopted: Adopted) -> dict[str, Any]:
    """Return the document that `adopt --format json` prints."""
    return {
        "sweep": adopted.sweep,
        "plan": adopted.plan,
        "prices": adopted.prices,
        "times_price": adopted.times_price,
        "runs": [_data(row) for row in _rows(adopted)],
        "notes": list(adopted.notes),
    }


def _rows(adopted: Adopted) -> list[_Row]:
    return [
        _Row(entry, trial, tuple(adopted.missing.get(entry.run.path, ())))
        for entry, trial in zip(adopted.entries, adopted.trials, strict=True)
    ]


def _data(row: _Row) -> dict[str, Any]:
    run, settings, scores = row.entry.run, row.entry.settings, row.entry.run.scores
    return {
        "run": str(run.path),
        "trainer": run.trainer,
        "trial": row.trial,
        "rollouts_per_prompt": settings.rollouts_per_prompt,
        "prompts_per_batch": settings.prompts_per_batch,
        "learning_rate": settings.learning_rate,
        "recipe": settings.recipe,
        "axes": dict(row.entry.axes),
        "seed": row.entry.seed,
        "model": settings.model,
        "gpus": settings.gpus,
        "update_steps": run.last_step,
        "gpu_hours": row.entry.gpu_hours,
        "score": run.score,
        "why": run.why,
        "others": list(run.others),
        "points": len(scores),
        "first_score": scores[0].score if scores else None,
        "last_score": scores[-1].score if scores else None,
        "seconds_per_step": run.phases(),
        "response_tokens": run.typical("response_tokens"),
        "missing": list(row.missing),
        "notes": [*run.notes, *settings.notes],
    }


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat = {name: value for name, value in row.items() if not isinstance(value, dict | list)}
    flat |= {f"axis_{name}": value for name, value in row["axes"].items()}
    flat |= {f"seconds_{name}": value for name, value in row["seconds_per_step"].items()}
    return flat | {name: "; ".join(row[name]) for name in ("missing", "notes")}


def _drawn(adopted: Adopted, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    rows, in_full = _rows(adopted), invocation.explain
    yield from canvas.lines(_what(adopted), "bold")
    yield ""
    columns: list[Column[_Row]] = [
        Column("run", lambda row: row.entry.run.path.name, Cells.PATHS),
        Column("trainer", lambda row: row.entry.run.trainer or "-", Cells.NAMES),
        Column("n", lambda row: _or_ask(row.entry.settings.rollouts_per_prompt)),
        Column("B", lambda row: _or_ask(row.entry.settings.prompts_per_batch)),
        Column("lr", lambda row: "?" if (rate := row.entry.settings.learning_rate) is None else f"{rate:.3g}"),
        Column("axes", lambda row: said(row.entry.axes), Cells.NAMES, shown=any(row.entry.axes for row in rows)),
        Column("GPUs", lambda row: _or_ask(row.entry.settings.gpus)),
        Column("steps", lambda row: f"{row.entry.run.last_step:,}"),
        Column("GPU-h", lambda row: hours(row.entry.gpu_hours)),
        Column("scores", lambda row: len(row.entry.run.scores)),
        Column("last", lambda row: f"{s[-1].score:.3f}" if (s := row.entry.run.scores) else "-"),
        Column("score is", lambda row: row.entry.run.score or "-", Cells.PATHS, shown=in_full, gives_way=True),
        Column("trial", lambda row: row.trial or "-", Cells.NAMES, shown=in_full and adopted.sweep is not None),
    ]
    shown = rows if in_full else rows[:ROWS]
    yield table_of(shown, columns, canvas)
    if hidden := len(rows) - len(shown):
        yield canvas.line(f"{plural(hidden, 'run')} not shown", "dim")
    lacking = [f"{path.name}: not read, so give {', '.join(flags)}." for path, flags in adopted.missing.items()]
    for text in lacking if in_full else lacking[:SHOWN_LINES]:
        yield from canvas.lines(text)
    if adopted.sweep is not None:
        steps = [
            NextStep(invocation.command("recommend", adopted.sweep), "what to run, and how sure that is"),
            NextStep(invocation.command("rank", adopted.sweep), "all of them, ranked"),
        ]
    else:  # to explain them once more would store them once more
        steps = [invocation.without("stores them", "--dry-run")]
        steps += [] if in_full else [invocation.explained("which series are the scores")]
    yield from next_steps(steps, canvas)


def _what(adopted: Adopted) -> str:
    """Say what became of the runs."""
    runs = plural(len(adopted.entries), "run")
    times = adopted.times_price
    off = "" if times is None else f" Their steps took {times:.2g} times what they were priced at."
    priced = f"{off} The steps of {plural(adopted.prices, 'run')} count for prices now." if adopted.prices else ""
    if adopted.sweep is None:
        return f"{runs} read.{priced}"
    trials = sum(trial is not None for trial in adopted.trials)
    return f"{runs} read: {plural(trials, 'trial')} of {adopted.sweep}.{priced}"


def _or_ask(value: float | None) -> str:
    return "?" if value is None else f"{value:g}"
