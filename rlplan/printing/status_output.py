"""Prints how a sweep stands: its answer or its state, its money and its trials on one screen, or all of it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from planner.store import Store, open_store
from planner.store.schema import SweepStatus
from planner.store.sweeps import sweep_named
from planner.trials import TrialState
from rlplan.exits import ExitCode
from rlplan.printing.final_output import final_lines
from rlplan.printing.sweep_screen import budget_bar, chosen, decision_lines, screen, table, title
from rlplan.reading.approximating import approximated
from rlplan.reading.finals import FinalStanding, final_data, final_standing
from rlplan.reading.row_choice import axis_cells, axis_columns
from rlplan.reading.storage_taken import Taken, taken_by
from rlplan.reading.sweep_data import TRIAL_COLUMNS, sweep_data, trial_row
from rlplan.reading.sweep_picture import Picture, TrialRow
from rlplan.reading.sweep_reading import picture
from rlplan.reading.sweep_words import ALL, TrialChoice, last_line, sentence, tally, time_of
from rlplan.wording.console import Part, Unbroken, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.next_steps import FEWEST_ROWS, ROWS, SCREEN, Invocation, NextStep, next_steps
from rlplan.wording.numbers import aligned_hours, some_of
from rlplan.wording.terminal import Canvas

NAMED_FAILURES = 3  # trials of a class that are named
DECISIONS = 2  # the newest, on the first screen


def sweep_name(database: str, sweep: str | None) -> str:
    """Return the name of a sweep that exists, by default the newest."""
    with open_store(database, read_only=True) as store, store.read() as session:
        return sweep_named(session, sweep).name


def print_status(sweep: str, format: Format, invocation: Invocation, choice: TrialChoice = ALL) -> int:
    """Print how a sweep stands, with all of its trials or those that are asked for."""
    with open_store(invocation.database, read_only=True) as store:
        seen, final = picture(store, sweep), final_of_sweep(store, sweep)
    wanted = choice.of(seen.trials)
    if format is Format.JSON:
        print_json(sweep_document(replace(seen, trials=wanted), final))
    elif format is Format.CSV:
        axes = axis_columns(trial.axes for trial in seen.trials)
        print_csv((*TRIAL_COLUMNS, *axes), (trial_row(trial) | axis_cells(trial.axes) for trial in wanted))
    elif invocation.explain:
        listed = None if choice == ALL else wanted
        steps = list(_next(seen, final, invocation))
        drawn = partial(_explained, seen, listed, choice)
        print_drawn(lambda canvas: [*_with_final(final, drawn(canvas), canvas), *next_steps(steps, canvas)])
    else:
        print_drawn(lambda canvas: _status(seen, final, choice, invocation, canvas))
    return ExitCode.DONE


def final_of_sweep(store: Store, sweep: str) -> FinalStanding | None:
    """Return how a sweep's final run stands; None where none was launched."""
    with store.read() as session:
        return final_standing(session, sweep_named(session, sweep))


def sweep_document(seen: Picture, final: FinalStanding | None) -> dict[str, Any]:
    """Return the document that `status` and the end of `sweep` print."""
    taken = _taken(seen)
    stored, ended = None if taken is None else asdict(taken), None if final is None else final_data(final)
    return sweep_data(seen) | {"approximated": approximated(seen.config), "storage": stored, "final": ended}


def _taken(seen: Picture) -> Taken | None:
    """Return what the sweep's folder takes; None where that is not known."""
    return taken_by(str(seen.config.get("folder", "")))


def _status(
    seen: Picture, final: FinalStanding | None, choice: TrialChoice, invocation: Invocation, canvas: Canvas
) -> Iterator[Part]:
    above: list[Part] = [] if final is None else [*final_lines(final, canvas), ""]
    above.append(canvas.line(title(seen), "bold"))
    if seen.answer is not None:
        above += canvas.lines(sentence(seen.answer))
    above += [*canvas.lines(time_of(seen), "yellow" if seen.abandoned else "dim"), budget_bar(seen.money, canvas), ""]
    below: list[Part] = [*failure_lines(seen, canvas), *canvas.lines("; ".join(approximated(seen.config)), "yellow")]
    if decided := decision_lines(seen, DECISIONS):
        below += ["", *(canvas.line(line) for line in decided)]
    below += next_steps([*_next(seen, final, invocation), invocation.explained("all of it")], canvas)
    yield from above
    room = SCREEN - 2 - sum(len(part.lines) if isinstance(part, Unbroken) else 1 for part in (*above, *below))
    yield from _trials(seen, choice, max(FEWEST_ROWS, min(ROWS, room)), canvas)
    yield from below


def _trials(seen: Picture, choice: TrialChoice, rows: int, canvas: Canvas) -> Iterator[Part]:
    """Return the trials that are asked for, else the most promising and those that run, and what is not shown."""
    asked = choice.of(seen.trials)
    shown = chosen(seen.trials, rows) if choice == ALL else asked[: None if choice.top else rows]
    if shown:
        yield from table(shown, canvas)
    if seen.trials and not asked:
        yield canvas.line("No trial is in such a state.", "dim")
    if hidden := [trial for trial in seen.trials if trial not in shown]:
        yield canvas.line(f"{len(hidden)} not shown: {tally(hidden)}", "dim")


def _next(seen: Picture, final: FinalStanding | None, invocation: Invocation) -> Iterator[NextStep]:
    """Name what goes on with the sweep, or with its answer."""
    if final is not None and not final.ended:
        yield NextStep(invocation.command("status --watch", final.sweep), "follows the final run")
    elif seen.abandoned or seen.paused_since or seen.status in (SweepStatus.INTERRUPTED, SweepStatus.CREATED):
        yield NextStep(invocation.command("resume", seen.sweep), "goes on with it")
    elif not seen.at_rest:
        yield NextStep(invocation.command("status --watch", seen.sweep), "follows it")
    elif seen.answer is not None:
        yield NextStep(invocation.command("recommend", seen.sweep), "how sure that is, and how to run it")
    elif any(trial.state is TrialState.FAILED for trial in seen.trials):
        yield NextStep(invocation.command("retry", seen.sweep), "runs what failed again")
    else:
        yield NextStep(invocation.command("decisions", seen.sweep), "why it ended so")


def failure_lines(seen: Picture, canvas: Canvas) -> Iterator[Part]:
    """Name what failed, by class, with the last line of one log each."""
    for kind, trials in seen.failures.items():
        names = some_of([trial.name for trial in trials], NAMED_FAILURES)
        log = last_line(trials[0].failure_tail or "")
        yield from canvas.lines(f"Failed, {kind}: {names}{f' ({log})' if log else ''}", "red")


def _with_final(final: FinalStanding | None, parts: Iterator[Part], canvas: Canvas) -> Iterator[Part]:
    """Put a sweep's final run before everything else of it."""
    if final is not None:
        yield from final_lines(final, canvas)
        yield ""
    yield from parts


def _explained(seen: Picture, listed: Sequence[TrialRow] | None, choice: TrialChoice, canvas: Canvas) -> Iterator[Part]:
    yield from screen(seen, canvas, listed=listed)
    for text in () if listed is None else choice.said(seen.trials, listed):
        yield from canvas.lines(text, "dim")
    yield from failure_lines(seen, canvas)
    if money := seen.money.start_ups and seen.money:
        each = aligned_hours(money.in_start_ups / money.start_ups)
        total = f"{aligned_hours(money.in_start_ups)} GPU-hours of {money.start_ups:,} segments"
        yield from canvas.lines(f"Start-ups took {total}, {each} each", "dim")
    if (taken := _taken(seen)) is not None:
        yield from canvas.lines(taken.said(), "dim")
    for text in approximated(seen.config):
        yield from canvas.lines(text, "yellow")
    if seen.learnt_from is not None:
        yield from canvas.lines(seen.learnt_from.said(), "dim")
    if stored_at := seen.config.get("storage"):
        yield from canvas.lines(f"a copy of each trial in {stored_at}", "dim")
