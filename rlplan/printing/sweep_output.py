"""Prints a sweep: the ranked allocations and the recommendation when it has ended, or how it stands."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from planner.store import Store, open_store
from planner.store.engine import masked
from planner.store.records import RankedRow
from planner.store.schema import RequestKind
from planner.store.sweeps import sweep_named
from rlplan.exits import ExitCode
from rlplan.printing.final_output import final_lines, print_ended
from rlplan.printing.sweep_screen import screen
from rlplan.reading.approximating import approximated
from rlplan.reading.finals import FinalStanding, final_data, final_standing
from rlplan.reading.row_choice import axis_cells, axis_columns
from rlplan.reading.storage_taken import Taken, taken_by
from rlplan.reading.sweep_data import RANKING_COLUMNS, TRIAL_COLUMNS, sweep_data, trial_row, uses
from rlplan.reading.sweep_picture import Picture, StoredAnswer, TrialRow
from rlplan.reading.sweep_reading import picture
from rlplan.reading.sweep_words import ALL, TrialChoice, last_line, remains, sentence, time_of
from rlplan.wording.console import Part, how_to_run, print_csv, print_drawn, print_json
from rlplan.wording.formats import DEFAULT_DATABASE, Format
from rlplan.wording.numbers import aligned_hours, duration, hours, interval, probability, some_of, steps
from rlplan.wording.tables import RANK, SIZE, Cells, Column, axes_column, table_of
from rlplan.wording.terminal import Canvas, tell

if TYPE_CHECKING:
    from rlplan.actions.asking import Asked
    from rlplan.actions.sweep_request import DryRun, PlannedTrial
    from rlplan.actions.sweeping import Finished
    from rlplan.reading.launching import Launch

SHOWN = 10  # rows of the ranking
NAMED_FAILURES = 3  # trials of a class that are named


def print_finished(ended: "Finished", database: str, format: Format) -> int:
    """Print what a sweep found, or how to go on with one that was stopped; return the exit code."""
    for note in ended.notes:
        tell(note)
    if ended.interrupted:
        tell(stopped(ended.sweep, database))
        return ExitCode.INTERRUPTED
    with open_store(database, read_only=True) as store:
        seen, final = picture(store, ended.sweep), _final(store, ended.sweep)
    if final is not None and final.sweep == ended.sweep:
        code = print_ended(final, format)
        if ended.failed_trials:
            tell(_failed(ended, database))
        return ExitCode.FINISHED_WITH_FAILURES if ended.failed_trials else code
    if format is Format.JSON:
        print_json(_document(seen, _taken(seen), final))
    elif format is Format.CSV:
        rows = seen.answer.ranking if seen.answer else ()
        print_csv(RANKING_COLUMNS, ({name: getattr(row, name) for name in RANKING_COLUMNS} for row in rows))
    else:
        from rlplan.reading.recommend_reading import stored_launch  # noqa: PLC0415 (takes a second to import)

        launched = None if seen.answer is None else stored_launch(database, seen.sweep, seen.answer)
        print_drawn(lambda canvas: _report(seen, launched, database, canvas))
    if not ended.failed_trials:
        return ExitCode.DONE
    tell(_failed(ended, database))
    return ExitCode.FINISHED_WITH_FAILURES


def sweep_name(database: str, sweep: str | None) -> str:
    """Return the name of a sweep that exists, by default the newest."""
    with open_store(database, read_only=True) as store, store.read() as session:
        return sweep_named(session, sweep).name


def print_status(database: str, sweep: str, format: Format, chosen: TrialChoice = ALL) -> int:
    """Print how a sweep stands, with all of its trials or those that are asked for."""
    with open_store(database, read_only=True) as store:
        seen, final = picture(store, sweep), _final(store, sweep)
    taken = _taken(seen)
    wanted = chosen.of(seen.trials)
    if format is Format.JSON:
        print_json(_document(replace(seen, trials=wanted), taken, final))
    elif format is Format.CSV:
        axes = axis_columns(trial.axes for trial in seen.trials)
        print_csv((*TRIAL_COLUMNS, *axes), (trial_row(trial) | axis_cells(trial.axes) for trial in wanted))
    else:
        listed = None if chosen == ALL else wanted
        print_drawn(lambda canvas: _with_final(final, _status(seen, listed, chosen, taken, canvas), canvas))
    return ExitCode.DONE


def _final(store: Store, sweep: str) -> FinalStanding | None:
    with store.read() as session:
        return final_standing(session, sweep_named(session, sweep))


def _with_final(final: FinalStanding | None, parts: Iterator[Part], canvas: Canvas) -> Iterator[Part]:
    """Put a sweep's final run before everything else of it."""
    if final is not None:
        yield from final_lines(final, canvas)
        yield ""
    yield from parts


def _taken(seen: Picture) -> Taken | None:
    """Return what the sweep's folder takes; None where that is not known."""
    return taken_by(str(seen.config.get("folder", "")))


def _document(seen: Picture, taken: Taken | None, final: FinalStanding | None) -> dict[str, Any]:
    stored, told = None if taken is None else asdict(taken), None if final is None else final_data(final)
    return sweep_data(seen) | {"approximated": approximated(seen.config), "storage": stored, "final": told}


def _status(
    seen: Picture, listed: Sequence[TrialRow] | None, chosen: TrialChoice, taken: Taken | None, canvas: Canvas
) -> Iterator[Part]:
    yield from screen(seen, canvas, listed=listed)
    for text in () if listed is None else chosen.said(seen.trials, listed):
        yield from canvas.lines(text, "dim")
    yield from _failures(seen, canvas)
    if money := seen.money.start_ups and seen.money:
        each = aligned_hours(money.in_start_ups / money.start_ups)
        total = f"{aligned_hours(money.in_start_ups)} GPU-hours of {money.start_ups:,} segments"
        yield from canvas.lines(f"Start-ups took {total}, {each} each", "dim")
    if taken is not None:
        yield from canvas.lines(taken.said(), "dim")
    for text in approximated(seen.config):
        yield from canvas.lines(text, "yellow")
    if seen.learnt_from is not None:
        yield from canvas.lines(seen.learnt_from.said(), "dim")
    if stored_at := seen.config.get("storage"):
        yield from canvas.lines(f"a copy of each trial in {stored_at}", "dim")


def stopped(sweep: str, database: str) -> str:
    """Say how to go on with a sweep that was stopped."""
    return f"{sweep} was stopped and its state is saved; go on with `{command('resume', sweep, database)}`"


def command(verb: str, sweep: str, database: str) -> str:
    """Return a command about a sweep as it has to be typed here; one that would hold a secret says where that goes."""
    if database == DEFAULT_DATABASE:
        return f"rlplan {verb} {sweep}"
    if masked(database) != database:
        return f"rlplan {verb} {sweep}  # with RLPLAN_DB set"
    return f"rlplan {verb} {sweep} --db {shlex.quote(database)}"


def _failed(ended: "Finished", database: str) -> str:
    if ended.all_failed is not None:
        said = f"every trial of {ended.sweep} that ran has failed, most of them with: {ended.all_failed}"
    else:
        said = "one trial has failed" if ended.failed_trials == 1 else f"{ended.failed_trials} trials have failed"
    return f"{said}; what failed is run again with `{command('retry', ended.sweep, database)}`"


def _report(seen: Picture, launched: "Launch | None", database: str, canvas: Canvas) -> Iterator[Part]:
    """Return the parts of what is printed in the end: the answer and its command last, where a terminal stays."""
    if seen.answer:
        yield _ranking(seen.answer, canvas)
        hidden = len(seen.answer.ranking) - SHOWN
        if hidden > 0:
            yield from canvas.lines(f"{hidden:,} more: `{command('rank', seen.sweep, database)}`", "dim")
        yield ""
    yield from canvas.lines(_spending(seen))
    yield from _failures(seen, canvas)
    show = command("status", seen.sweep, database)
    yield from canvas.lines(
        f"{seen.sweep} {time_of(seen)}, {seen.decisions:,} decisions; `{show}` shows its trials", "dim"
    )
    yield ""
    if seen.answer is None:
        yield from canvas.lines(f"{seen.sweep} ended without a recommendation: no trial got far enough", "bold")
        return
    yield from canvas.lines(sentence(seen.answer), "bold")
    if reason := seen.answer.details.get("reason"):
        yield from canvas.lines(f"Why: {reason}")
    yield from canvas.lines(f"How sure that is says `{command('recommend', seen.sweep, database)}`", "dim")
    if launched is not None:
        yield ""
        yield from how_to_run(launched.command, launched.note, canvas)


def _ranking(answer: StoredAnswer, canvas: Canvas) -> Part:
    columns: Sequence[Column[RankedRow]] = (
        RANK,
        *SIZE,
        Column("score", lambda row: interval(row.expected_score, row.score_low, row.score_high)),
        Column("P(best)", lambda row: probability(row.probability_best)),
        Column("spent", lambda row: aligned_hours(row.gpu_hours_spent)),
        Column("status", attrgetter("status")),
        axes_column(answer.ranking),
    )
    return table_of(answer.ranking[:SHOWN], columns, canvas)


def _spending(seen: Picture) -> str:
    money = seen.money
    went = ", ".join(f"{kind} {aligned_hours(gpu_hours)}" for kind, gpu_hours in uses(money).items() if gpu_hours)
    return (
        f"GPU-hours of the pilots: {aligned_hours(money.spent)} of {hours(money.pilot_gpu_hours)} spent"
        f"{f' ({went})' if went else ''}, {remains(money)}"
    )


def _failures(seen: Picture, canvas: Canvas) -> Iterator[Part]:
    """Name what failed, by class, with the last line of one log each."""
    for kind, trials in seen.failures.items():
        names = some_of([trial.name for trial in trials], NAMED_FAILURES)
        log = last_line(trials[0].failure_tail or "")
        yield from canvas.lines(f"failed, {kind}: {names}{f' ({log})' if log else ''}", "red")


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


def print_dry_run(planned: "DryRun", format: Format) -> None:
    """Print the trials with their steps and prices, the time they take, and what is lacking to run them."""
    if format is Format.JSON:
        print_json(asdict(planned))
    elif format is Format.CSV:
        print_csv(COLUMNS, (asdict(trial) for trial in planned.trials))
    else:
        print_drawn(lambda canvas: _dry_run(planned, canvas))


def _dry_run(planned: "DryRun", canvas: Canvas) -> Iterator[Part]:
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
