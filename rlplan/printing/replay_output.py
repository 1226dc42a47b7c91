"""Prints what a policy made of recorded curves: as a table for a person, as JSON or CSV for a program."""

from collections.abc import Iterator, Sequence
from typing import Any

from planner.axes import named_configuration
from planner.pooling.priors import NONE
from planner.replaying.play import ChoiceMark, Played
from planner.view import Configuration
from rlplan.actions.replaying import Replays
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.numbers import aligned_hours, duration, hours
from rlplan.wording.tables import Cells, Column, table_of
from rlplan.wording.terminal import Canvas, tell


def print_replays(replays: Replays, format: Format) -> None:
    """Print the replays; notes go to stderr."""
    for note in replays.notes:
        tell(f"note: {note}")
    if format is Format.JSON:
        print_json(replay_data(replays))
    elif format is Format.CSV:
        rows = list(_csv_rows(replays))
        columns = dict.fromkeys(column for row in rows for column in row)
        print_csv(list(columns), rows)
    else:
        print_drawn(lambda canvas: _drawn(replays, canvas))


def replay_data(replays: Replays) -> dict[str, Any]:
    """Return the document of `replay --format json`: the first seed's replay, and what all seeds came to."""
    first = replays.played[0]
    document: dict[str, Any] = {
        "policy": first.policy,
        "chosen": chosen_data(first.chosen),
        **_result(first),
        "trace": [
            {"gpu_hours": mark.gpu_hours, "chosen": chosen_data(mark.chosen), "regret": mark.regret}
            for mark in first.trace
        ],
        "decisions": first.decisions,
    }
    if replays.learnt:
        document["sources"] = [{"source": name, "weight": weight} for name, weight in replays.weights.items()]
    if len(replays.played) > 1:
        document["repeats"] = {
            "seeds": [replays.request.seed + turn for turn in range(len(replays.played))],
            "regrets": [one.regret for one in replays.played],
            "mean_regret": replays.mean_regret,
            "regret_standard_error": replays.regret_error,
            "mean_gpu_hours_spent": sum(one.gpu_hours_spent for one in replays.played) / len(replays.played),
        }
    return document


def _result(played: Played) -> dict[str, float]:
    return {name: getattr(played, name) for name in ("gpu_hours_spent", "score_at_target", "best_at_target", "regret")}


def chosen_data(configuration: Configuration) -> dict[str, Any]:
    """Return a configuration with a key for n, B and each further axis."""
    n, B, axes = configuration
    return {"rollouts_per_prompt": n, "prompts_per_batch": B, **dict(axes)}


def _csv_rows(replays: Replays) -> Iterator[dict[str, Any]]:
    """Yield a row for each seed."""
    for turn, one in enumerate(replays.played):
        yield {
            "policy": one.policy,
            "seed": replays.request.seed + turn,
            **chosen_data(one.chosen),
            **_result(one),
            "decisions": one.decisions,
        }


def _drawn(replays: Replays, canvas: Canvas) -> Iterator[Part]:
    request, recorded = replays.request, replays.read.recorded
    axes = f", told apart by n, B, {', '.join(replays.read.axes)}" if replays.read.axes else ""
    yield canvas.line(f"{request.policy} over {request.table.name}", "bold")
    yield from canvas.lines(
        f"{len(recorded.runs)} runs of {len(recorded.configurations)} configurations{axes}; all of them once to "
        f"{hours(request.target)} GPU-hours would take {hours(replays.full_cost)}, and the pilots may take "
        f"{hours(replays.budget)} ({replays.budget / replays.full_cost:.0%}).",
        "dim",
    )
    if replays.learnt:
        yield from canvas.lines(_learnt(replays), "dim")
    yield ""
    if len(replays.played) > 1:
        columns: Sequence[Column[tuple[int, Played]]] = (
            Column("seed", lambda seeded: seeded[0]),
            Column("GPU-hours", lambda seeded: aligned_hours(seeded[1].gpu_hours_spent)),
            Column("score", lambda seeded: f"{seeded[1].score_at_target:.3f}"),
            Column("regret", lambda seeded: f"{seeded[1].regret:.3f}"),
            Column("decisions", lambda seeded: f"{seeded[1].decisions:,}"),
            Column("chosen", lambda seeded: named_configuration(seeded[1].chosen), Cells.TEXTS),
        )
        yield table_of(enumerate(replays.played, start=request.seed), columns, canvas)
        yield ""
        yield from canvas.lines(_mean(replays))
        return
    played = replays.played[0]
    yield from canvas.lines(_summary(replays, played))
    if played.trace:
        yield ""
        yield table_of(played.trace, TRACE, canvas)


WEIGHED = {NONE: "no source"}
TRACE: Sequence[Column[ChoiceMark]] = (
    Column("GPU-hours", lambda mark: aligned_hours(mark.gpu_hours)),
    Column("regret", lambda mark: f"{mark.regret:.3f}"),
    Column("would have chosen", lambda mark: named_configuration(mark.chosen), Cells.TEXTS),
)


def _summary(replays: Replays, played: Played) -> str:
    best = "that is the best there is: no regret"
    if played.regret > 0:
        best = (
            f"the best, {named_configuration(replays.best)}, has {played.best_at_target:.3f}: a regret of "
            f"{played.regret:.3f}"
        )
    workers = "one worker" if replays.request.workers == 1 else f"{replays.request.workers:,} workers"
    return (
        f"Chosen: {named_configuration(played.chosen)}. At {hours(replays.request.target)} GPU-hours it scores "
        f"{played.score_at_target:.3f}; {best}. Spent: {hours(played.gpu_hours_spent)} GPU-hours in "
        f"{played.decisions:,} decisions, {duration(played.wall_hours)} with {workers}."
    )


def _learnt(replays: Replays) -> str:
    sources = ", ".join(f"{each.name} ({each.configurations} configurations)" for each in replays.learnt)
    if not replays.weights:
        return f"Learnt from {sources}: none of it was weighed, for no score was paid for."
    weights = ", ".join(f"{WEIGHED.get(name, name)} {weight:.0%}" for name, weight in replays.weights.items())
    return f"Learnt from {sources}; weights after the first seed's last score: {weights}."


def _mean(replays: Replays) -> str:
    return (
        f"Mean regret {replays.mean_regret:.4f} ± {replays.regret_error or 0.0:.4f} (standard error) over "
        f"{len(replays.played)} seeds; the best is {named_configuration(replays.best)} with "
        f"{replays.played[0].best_at_target:.3f}."
    )
