"""`rlplan status`: a sweep's answer or its state, its money and its trials, one trial, or every sweep of a database."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from budgets.errors import InputError, NotFoundError
from planner.store import open_store
from planner.store.schema import SweepStatus
from planner.store.sweeps import missing
from planner.view import TrialState
from rlplan.commands.trial import TrialName, TrialStanding, sweep_or_trial, trial_standing
from rlplan.live.sweep_screen import SHOWN_DECISIONS, budget_bar, chosen, decision_lines, table, title
from rlplan.reading.finals import (
    FinalStanding,
    Record,
    failure_lines,
    final_lines,
    final_of_sweep,
    going_on,
    record_of,
    record_text,
)
from rlplan.reading.row_choice import SortKey, chosen_names, ordered
from rlplan.reading.sweep_data import StatusData, approximated, taken
from rlplan.reading.sweep_picture import Picture, sentence
from rlplan.reading.sweep_rows import picture
from rlplan.reading.sweep_words import ALL, TrialChoice, tally, time_of
from rlplan.reading.sweeps import STATES, ListedSweep, listed_sweeps, plans_without_sweep
from rlplan.requests.results import StatusRequest
from rlplan.wording.answers import TRIALS, Answer, axes_column, columns
from rlplan.wording.numbers import aligned_hours, interval, plural, some_of, steps
from rlplan.wording.screen import Canvas, Cells, Column, Invocation, NextStep, Part, next_steps, one_screen, table_of

SHOWN, NAMED = 14, 8  # sweeps, and plans, that fit one screen
WIDE = 100  # columns from which the policy, the seed and the time of its making are shown
SORT_KEYS: dict[str, SortKey[ListedSweep]] = {
    "made": SortKey(lambda row: row.created_at, largest_first=True),
    "name": SortKey(lambda row: row.sweep),
    "score": SortKey(lambda row: row.expected_score, largest_first=True),
    "spent": SortKey(lambda row: row.spent_gpu_hours, largest_first=True),
}


@dataclass(frozen=True, repr=False)
class SweepList(Answer):
    """The sweeps that are asked for, how final runs went, and the names of plans that no sweep has run."""

    COLUMNS = columns("""
        sweep plan workload policy seed state created_at trials spent_gpu_hours pilot_gpu_hours
        rollouts_per_prompt prompts_per_batch update_steps expected_score score_low score_high
    """)
    ROWS = "sweeps"

    sweeps: tuple[ListedSweep, ...]
    plans_without_sweep: Sequence[str]
    finals: Record | None
    known: int = field(repr=False)  # sweeps that there are
    all_of_them: bool = field(repr=False)  # are wanted, however many

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw those that fit one screen, unless so many or all are asked for."""
        shown = self.sweeps if self.all_of_them or invocation.explain else self.sweeps[:SHOWN]
        if shown:
            yield _table(shown, canvas)
        elif self.known:
            yield from canvas.lines("No sweep is what is asked for.")
        if shown and len(shown) < self.known:
            yield from canvas.lines(f"{plural(self.known - len(shown), 'more sweep')} not shown", "dim")
        if self.finals is not None:
            yield from canvas.lines(record_text(self.finals))
        if self.plans_without_sweep:
            yield from canvas.lines(f"Plans that no sweep has run: {some_of(self.plans_without_sweep, NAMED)}", "dim")
        if shown:
            further = [invocation.step("status", shown[0].sweep, "how it stands")]
        else:
            names = self.plans_without_sweep[-1:]
            further = [invocation.step("rank", name, "its rows, ranked") for name in names]
        if further:
            yield from next_steps(further, canvas)


def listed_in(database: str, chosen: TrialChoice) -> SweepList:
    """Return all sweeps, the newest first."""
    with open_store(database, read_only=True) as store, store.read() as session:
        rows, unused = listed_sweeps(session, datetime.now(UTC)), plans_without_sweep(session)
        record = record_of(session)
    if not rows and not unused:
        raise NotFoundError(missing("sweep", None, []))
    states = chosen_names(chosen.status, "status", STATES)
    selected = [row for row in rows if not states or row.state in states]
    wanted = ordered(selected, chosen.sort or "made", SORT_KEYS, reverse=chosen.reverse)[: chosen.top]
    return SweepList(tuple(wanted), unused, record, len(rows), bool(chosen.top))


def _table(rows: Sequence[ListedSweep], canvas: Canvas) -> Part:
    wide = canvas.width >= WIDE
    columns: Sequence[Column[ListedSweep]] = (
        Column("sweep", attrgetter("sweep"), Cells.NAMES),
        Column("plan", attrgetter("plan"), Cells.NAMES),
        Column("trains", attrgetter("workload"), Cells.NAMES, gives_way=True),
        Column("policy", attrgetter("policy"), Cells.NAMES, shown=wide),
        Column("state", attrgetter("state"), Cells.NAMES),
        Column("trials", lambda row: f"{row.trials:,}", shown=wide),
        Column("GPU-hours", lambda row: f"{aligned_hours(row.spent_gpu_hours)}/{aligned_hours(row.pilot_gpu_hours)}"),
        Column("n", lambda row: steps(row.rollouts_per_prompt)),
        Column("B", lambda row: steps(row.prompts_per_batch)),
        Column("steps", lambda row: steps(row.update_steps), shown=wide),
        Column("expected score", lambda row: interval(row.expected_score, row.score_low, row.score_high)),
        axes_column(rows),
        Column("made (UTC)", lambda row: f"{row.created_at:%Y-%m-%d %H:%M}", Cells.NAMES, shown=wide),
    )
    return table_of(rows, columns, canvas)


DECISIONS = 2  # the newest, on the first screen


@dataclass(frozen=True, repr=False)
class Standing(Answer):
    """How a sweep stands, with all of its trials or those that are asked for."""

    COLUMNS = TRIALS

    picture: Picture
    final: FinalStanding | None = None
    choice: TrialChoice = ALL

    @property
    def listed(self) -> Sequence[Any]:
        """Its trials."""
        return self.choice.of(self.picture.trials)

    @property
    def summary(self) -> str:
        """What it recommends, or how it stands."""
        answer = self.picture.answer
        return f"{title(self.picture) if answer is None else sentence(answer)} {time_of(self.picture)}"

    @property
    def document(self) -> StatusData:
        """All of it."""
        return StatusData(replace(self.picture, trials=self.choice.of(self.picture.trials)), self.final)

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw one screen of it, or all that is known; its final run comes before everything else."""
        picture, final, in_full = self.picture, self.final, invocation.explain
        above: list[Part] = [] if final is None else [*final_lines(final, canvas), ""]
        above.append(canvas.line(title(picture), "bold"))
        if picture.answer is not None:
            above += canvas.lines(sentence(picture.answer))
        above += canvas.lines(time_of(picture), "yellow" if picture.abandoned else "dim")
        above += [budget_bar(picture.money, canvas), ""]
        below: list[Part] = [
            *failure_lines(picture, canvas),
            *canvas.lines("; ".join(approximated(picture.config)), "yellow"),
        ]
        for text in _further(picture) if in_full else ():
            below += canvas.lines(text, "dim")
        if decided := decision_lines(picture, SHOWN_DECISIONS if in_full else DECISIONS):
            below += ["", *(canvas.line(line) for line in decided)]
        more = [] if in_full else [invocation.explained("all of it")]
        below += next_steps([*_next(picture, final, invocation), *more], canvas)
        everything = len(picture.trials) if in_full else None
        yield from one_screen(
            above, lambda rows: _trials(picture, self.choice, rows, canvas), below, canvas, everything
        )


def answer(request: StatusRequest) -> Standing | TrialStanding | SweepList:
    """Return how a sweep or a trial stands, after it was followed where that is wanted, or list all sweeps."""
    choice = TrialChoice(request.state, request.sort, request.reverse, request.top)
    if request.all_sweeps:
        if request.sweep is not None or request.watch:
            raise InputError("--all lists every sweep: leave out the name of one and --watch")
        return listed_in(request.db, choice)
    with open_store(request.db, read_only=True) as store, store.read() as session:
        name = sweep_or_trial(session, request.sweep)
        if isinstance(name, TrialName):
            if request.watch or choice != ALL:
                raise InputError(f"{name.trial} is a trial: --watch, --status, --sort and the like are for a sweep")
            return trial_standing(session, name)
    if request.watch:
        from rlplan.live.sweep_running import watch  # noqa: PLC0415 (what drives sweeps, too)

        if choice != ALL:
            raise InputError("--watch shows what finds room: leave out --status, --sort, --reverse and --top")
        watch(request.db, name)
    with open_store(request.db, read_only=True) as store:
        return Standing(picture(store, name), final_of_sweep(store, name), choice)


def _trials(picture: Picture, choice: TrialChoice, rows: int, canvas: Canvas) -> Iterator[Part]:
    """Return the trials that are asked for, else the most promising and those that run, and what is not shown."""
    chosen_trials = choice.of(picture.trials)
    shown = chosen(picture.trials, rows) if choice == ALL else chosen_trials[: None if choice.top else rows]
    if shown:
        yield from table(shown, canvas)
    if picture.trials and not chosen_trials:
        yield canvas.line("No trial is in such a state.", "dim")
    if hidden := [trial for trial in picture.trials if trial not in shown]:
        yield canvas.line(f"{len(hidden)} not shown: {tally(hidden)}", "dim")


def _next(picture: Picture, final: FinalStanding | None, invocation: Invocation) -> Iterator[NextStep]:
    """Name what goes on with the sweep, or with its answer."""
    if final is not None and not final.ended:
        yield invocation.step("status --watch", final.sweep, "follows the final run")
    elif picture.abandoned or picture.paused_since or picture.status in (SweepStatus.INTERRUPTED, SweepStatus.CREATED):
        yield invocation.step("resume", picture.sweep, "goes on with it")
    elif not picture.at_rest:
        yield invocation.step("status --watch", picture.sweep, "follows it")
    elif picture.answer is not None:
        how = "how sure that is" if final is not None else "how sure that is, and how to run it"
        yield invocation.step("recommend", picture.sweep, how)
        yield from going_on(final, invocation) if final is not None else ()
    elif any(trial.state is TrialState.FAILED for trial in picture.trials):
        yield invocation.step("retry", picture.sweep, "runs what failed again")
    else:
        yield invocation.step("decisions", picture.sweep, "why it ended so")


def _further(picture: Picture) -> Iterator[str]:
    """Say what start-ups and saves take, and where copies are."""
    if money := picture.money.start_ups and picture.money:
        each = aligned_hours(money.start_up_gpu_hours / money.start_ups)
        total = f"{aligned_hours(money.start_up_gpu_hours)} GPU-hours of {money.start_ups:,} segments"
        yield f"Start-ups took {total}, {each} each"
    if (space := taken(picture)) is not None:
        yield space.describe()
    if stored_at := picture.config.get("storage"):
        yield f"a copy of each trial in {stored_at}"
