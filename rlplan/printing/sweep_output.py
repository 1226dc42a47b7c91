"""Prints a sweep: the ranked allocations and the recommendation when it has ended, or how it stands."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import TYPE_CHECKING

from planner.store import open_store
from planner.store.records import RankedRow
from planner.store.schema import RequestKind, SegmentOutcome
from rlplan.exits import ExitCode
from rlplan.printing.final_output import print_ended
from rlplan.printing.status_output import failure_lines, final_of_sweep, sweep_document
from rlplan.reading.sweep_data import uses
from rlplan.reading.sweep_picture import Picture, StoredAnswer
from rlplan.reading.sweep_reading import picture
from rlplan.reading.sweep_words import remains, sentence, time_of
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.frames import RANKED, spread
from rlplan.wording.next_steps import ROWS, Invocation, NextStep, command, next_steps
from rlplan.wording.numbers import UNKNOWN, aligned_hours, duration, hours, interval, probability, steps
from rlplan.wording.tables import RANK, SIZE, Cells, Column, axes_column, table_of
from rlplan.wording.terminal import Canvas, tell

if TYPE_CHECKING:
    from rlplan.actions.asking import Asked
    from rlplan.actions.sweep_request import DryRun, PlannedTrial
    from rlplan.actions.sweeping import Finished

SPENT_AS = {SegmentOutcome.COMMITTED.value: "trained"}  # an outcome's name is the database's, not the reader's


def print_finished(ended: "Finished", database: str, format: Format) -> int:
    """Print what a sweep found, or how to go on with one that was stopped; return the exit code."""
    for note in ended.notes:
        tell(note)
    if ended.interrupted:
        tell(stopped(ended.sweep, database))
        return ExitCode.INTERRUPTED
    with open_store(database, read_only=True) as store:
        seen, final = picture(store, ended.sweep), final_of_sweep(store, ended.sweep)
    if final is not None and final.sweep == ended.sweep:
        code = print_ended(final, format, Invocation((), database))
        if ended.failed_trials:
            tell(_failed(ended, database))
        return ExitCode.FINISHED_WITH_FAILURES if ended.failed_trials else code
    if format is Format.JSON:
        print_json(sweep_document(seen, final))
    elif format is Format.CSV:
        columns, rows = spread(RANKED, seen.answer.ranking if seen.answer else ())
        print_csv(list(columns), rows)
    else:
        print_drawn(lambda canvas: _report(seen, Invocation((), database), canvas))
    if not ended.failed_trials:
        return ExitCode.DONE
    tell(_failed(ended, database))
    return ExitCode.FINISHED_WITH_FAILURES


def stopped(sweep: str, database: str) -> str:
    """Say how to go on with a sweep that was stopped."""
    return f"{sweep} was stopped and its state is saved; go on with `{command('resume', sweep, database)}`"


def _failed(ended: "Finished", database: str) -> str:
    if ended.all_failed is not None:
        said = f"every trial of {ended.sweep} that ran has failed, most of them with: {ended.all_failed}"
    else:
        said = "one trial has failed" if ended.failed_trials == 1 else f"{ended.failed_trials} trials have failed"
    return f"{said}; what failed is run again with `{command('retry', ended.sweep, database)}`"


def _report(seen: Picture, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Return the answer, what it cost, the ranking that it heads, what failed, and how it is run."""
    if seen.answer is None:
        yield from canvas.lines(f"{seen.sweep} ended without a recommendation: no trial got far enough.", "bold")
        yield from canvas.lines(_spending(seen))
        yield from failure_lines(seen, canvas)
        again = [("retry", "runs what failed again")] if seen.failures else []
        steps = [*again, ("decisions", "why each trial ended so")]
        yield from next_steps([NextStep(invocation.command(verb, seen.sweep), does) for verb, does in steps], canvas)
        return
    yield from canvas.lines(sentence(seen.answer), "bold")
    yield from canvas.lines(_spending(seen))
    yield ""
    yield _ranking(seen.answer, canvas)
    if (hidden := len(seen.answer.ranking) - ROWS) > 0:
        yield from canvas.lines(f"{hidden:,} more rows: `{invocation.command('rank', seen.sweep)}`", "dim")
    yield from failure_lines(seen, canvas)
    yield from next_steps(
        [
            NextStep(invocation.command("recommend", seen.sweep), "how sure this is"),
            NextStep(invocation.command("launch", seen.sweep), "runs it in full"),
        ],
        canvas,
    )


def _ranking(answer: StoredAnswer, canvas: Canvas) -> Part:
    columns: Sequence[Column[RankedRow]] = (
        RANK,
        *SIZE,
        Column("expected score", lambda row: interval(row.expected_score, row.score_low, row.score_high)),
        Column("P(best)", lambda row: probability(row.probability_best)),
        Column("spent", lambda row: aligned_hours(row.gpu_hours_spent) if row.gpu_hours_spent else UNKNOWN),
        Column("status", attrgetter("status")),
        axes_column(answer.ranking),
    )
    return table_of(answer.ranking[:ROWS], columns, canvas)


def _spending(seen: Picture) -> str:
    money = seen.money
    went = ", ".join(
        f"{SPENT_AS.get(kind, kind)} {aligned_hours(gpu_hours)}" for kind, gpu_hours in uses(money).items() if gpu_hours
    )
    return (
        f"The pilots spent {aligned_hours(money.spent)} of {hours(money.pilot_gpu_hours)} GPU-hours"
        f"{f' ({went})' if went else ''}, {remains(money)}; {seen.sweep} {time_of(seen)}."
    )


def print_asked(asked: "Asked", database: str, format: Format) -> int:
    """Print a request as it stands; return the exit code."""
    row = {
        "sweep": asked.sweep,
        "kind": asked.kind.value,
        "by": asked.by,
        "at": asked.at.isoformat(),
        "taken_at": None if asked.taken_at is None else asked.taken_at.isoformat(),
    }
    if format is Format.JSON:
        print_json(row)
    elif format is Format.CSV:
        print_csv(list(row), [row])
    else:
        print_drawn(lambda canvas: canvas.lines(_said_of_request(asked, database)))
    return 0


def _said_of_request(asked: "Asked", database: str) -> str:
    """Say what happens now, and what to do next."""
    go_on = f"go on with `{command('resume', asked.sweep, database)}`"
    status = f"`{command('status', asked.sweep, database)}` shows it"
    if asked.taken_at is None:
        return f"{asked.sweep} was asked to {asked.kind}; its driver has not answered yet: {status}"
    match asked.kind:
        case RequestKind.PAUSE:
            return (
                f"{asked.sweep} is paused: segments under way end normally, no new one starts, and workers without one "
                f"are ended, so that the pause costs no GPU-hours; {go_on}"
            )
        case RequestKind.RESUME:
            return f"{asked.sweep} goes on: {status}"
        case _:
            return f"{asked.sweep} stops when each trial has ended the update under way and is saved; {go_on}"


COLUMNS = ("name", "rollouts_per_prompt", "prompts_per_batch", "pilot_steps", "segment_steps", "gpu_hours")


def print_dry_run(planned: "DryRun", format: Format, invocation: Invocation) -> None:
    """Print the trials with their steps and prices, the time they take, and what is lacking to run them."""
    if format is Format.JSON:
        print_json(asdict(planned))
    elif format is Format.CSV:
        print_csv(COLUMNS, (asdict(trial) for trial in planned.trials))
    else:
        print_drawn(lambda canvas: _dry_run(planned, invocation, canvas))


def _dry_run(planned: "DryRun", invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    columns: Sequence[Column[PlannedTrial]] = (
        *SIZE[:2],
        Column("pilot", lambda trial: f"{steps(trial.pilot_steps)} steps"),
        Column("segment", lambda trial: f"{steps(trial.segment_steps)} steps"),
        Column("GPU-hours", lambda trial: aligned_hours(trial.gpu_hours)),
        Column("trial", attrgetter("name"), Cells.TEXTS),
    )
    yield table_of(planned.trials, columns, canvas)
    yield ""
    total = sum(trial.gpu_hours for trial in planned.trials)
    workers = "one worker" if planned.workers == 1 else f"{planned.workers:,} workers"
    count = "one pilot" if len(planned.trials) == 1 else f"{len(planned.trials):,} pilots"
    yield from canvas.lines(
        f"{planned.plan}: {count} of {hours(total)} GPU-hours together; {hours(planned.pilot_gpu_hours)} are theirs, "
        f"and what is over goes to the most promising. On {workers} they take about {duration(planned.wall_hours)}."
    )
    for text in planned.notes:
        yield from canvas.lines(text, "yellow")
    if planned.shortfall is not None:
        yield from canvas.lines(f"It cannot run here: {planned.shortfall}", "yellow")
    yield from canvas.lines("Nothing was started.", "dim")
    if planned.shortfall is None:
        yield from next_steps([invocation.without("starts it", "--dry-run")], canvas)
