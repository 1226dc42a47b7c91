"""The ranked allocations of a sweep or a plan: as they were stored last, or as they are believed to be now."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import BudgetError, InputError, NotFoundError, StoreError
from planner.axes import from_text
from planner.store import Store, open_store
from planner.store.finals import Final, pilots_of
from planner.store.results import RankedRow, ranked_allocations
from planner.store.schema import Plan, Sweep, SweepStatus
from planner.store.sweeps import missing, plan_named
from rlplan.reading.sweep_picture import Source
from rlplan.reading.sweep_rows import stored_answer
from rlplan.wording.answers import RANK, RANKED, SIZE, Answer, axes_column
from rlplan.wording.numbers import UNKNOWN, aligned_hours, interval, moment, plural, probability
from rlplan.wording.screen import ROWS, Canvas, Cells, Column, Invocation, NextStep, Part, next_steps, table_of

WIDE = 100  # columns from which learning rate and recipe are shown


@dataclass(frozen=True)
class Ranking(Answer):
    """Ranked allocations, and what they are of."""

    COLUMNS = RANKED
    ROWS = "ranking"
    KEYS = ("plan", "sweep")

    plan: str
    sweep: str | None
    status: SweepStatus | None
    source: Source
    made_at: datetime | None  # of the recommendation that it was stored under
    so_far: bool  # stored before the sweep had ended
    note: str | None  # why it is not what one might expect
    allocations: int
    ranking: tuple[RankedRow, ...]
    every: tuple[RankedRow, ...] = field(repr=False)
    chosen: int = field(repr=False)  # how many are asked for, of which `top` are in `ranking`
    top: int | None = field(default=None, repr=False)

    @property
    def stderr(self) -> Sequence[str]:
        """Why it is not what one might expect."""
        return (f"{self.sweep}: {self.note}",) if self.note else ()

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw a title, what the numbers mean, the rows, and how many are not among them."""
        counted = "one allocation" if self.allocations == 1 else plural(self.allocations, "allocation")
        shown = self.ranking if self.top or invocation.explain else self.ranking[:ROWS]
        when = {
            Source.NOW: "as they look now",
            Source.PROPOSED: "as proposed",
            Source.STORED: "as ranked so far" if self.so_far else "as ranked at its end",
        }[self.source]
        when += "" if self.made_at is None else f", {moment(self.made_at)}"
        title = f"{self.sweep} of {self.plan}, {self.status}: {counted} {when}"
        if self.sweep is None:
            title = f"{self.plan}: {counted} as proposed; no sweep has run them yet"
        yield from canvas.lines(title, "bold")
        yield from canvas.lines(_legend(self), "dim")
        yield ""
        if shown:
            yield ranked_table(shown, canvas)
        if not self.chosen:
            yield from canvas.lines(f"None of {counted} is what --status and --where ask for.", "dim")
        if len(shown) < self.chosen:
            more = f"{self.chosen - len(shown):,} more rows: --top {self.chosen}, or --format csv"
            yield from canvas.lines(more, "dim")
        if 0 < self.chosen < self.allocations:
            yield from canvas.lines(f"{self.chosen:,} of {counted} are what --status and --where ask for", "dim")
        further = [] if len(shown) == self.chosen else [invocation.explained("every row")]
        yield from next_steps([_next(self, invocation), *further], canvas)


def ranking(database: str, name: str | None = None, *, stored: bool = False) -> Ranking:
    """Return the ranking of a sweep or of a plan, by default of the newest sweep, or of the newest plan without one.

    Of a sweep it is what was stored last, when it ended or so far. Where nothing is stored it is worked out from all
    that is known, unless `stored` forbids it, and nothing is changed.
    """
    with open_store(database, read_only=True) as store:
        table = _stored(store, name)
    if table.sweep is None or table.source is Source.STORED or stored:
        return table
    from rlplan.reading.recommendation import recommended  # noqa: PLC0415 (takes a second to import)
    from runner.sweep.conclusions import rankings  # noqa: PLC0415

    try:
        rows = tuple(rankings(recommended(database, table.sweep).answer))
        return _of(table.plan, table.sweep, table.status, Source.NOW, rows)
    except StoreError:
        raise
    except (NotFoundError, InputError, BudgetError) as error:
        return replace(table, note=f"this is what is stored: {error}")


def _stored(store: Store, name: str | None) -> Ranking:
    """Return what the view has."""
    with store.read() as session:
        plan, sweep = _named(session, name)
        if sweep is None:
            rows = ranked_allocations(session, None, plan)
            return _of(plan, None, None, Source.PROPOSED, _rows(rows, None))
        if (answer := stored_answer(session, sweep.id)) is not None:
            table = _of(plan, sweep.name, sweep.status, Source.STORED, answer.ranking)
            return replace(table, made_at=answer.made_at, so_far=answer.so_far)
        rows = ranked_allocations(session, sweep.name, None)
        return _of(plan, sweep.name, sweep.status, Source.PROPOSED, _rows(rows, sweep.name))


def _of(
    plan: str, sweep: str | None, status: SweepStatus | None, source: Source, rows: tuple[RankedRow, ...]
) -> Ranking:
    return Ranking(plan, sweep, status, source, None, False, None, len(rows), rows, rows, len(rows))


def _named(session: Session, name: str | None) -> tuple[str, Sweep | None]:
    """Return the plan and the sweep that a name stands for: of a plan the newest sweep, of a final run its pilots'."""
    finals = select(Final.sweep_id)
    newest = select(Sweep).where(Sweep.id.not_in(finals)).order_by(Sweep.id.desc()).limit(1)
    sweep = session.scalar(newest if name is None else select(Sweep).where(Sweep.name == name))
    sweep = sweep and pilots_of(session, sweep)
    if sweep is not None:
        return session.scalars(select(Plan.name).where(Plan.id == sweep.plan_id)).one(), sweep
    plans = list(session.scalars(select(Plan.name).order_by(Plan.id)))
    if name is not None and name not in plans:
        sweeps = session.scalars(select(Sweep.name).order_by(Sweep.id))
        raise NotFoundError(missing("sweep or plan", name, [*plans, *sweeps]))
    plan = plan_named(session, name)
    return plan.name, session.scalar(newest.where(Sweep.plan_id == plan.id))


def _rows(cells: list[dict[str, Any]], sweep: str | None) -> tuple[RankedRow, ...]:
    names = [name for name in RankedRow.__dataclass_fields__ if name != "axes"]
    of_sweep = [row for row in cells if row["sweep"] == sweep]
    return tuple(RankedRow(**{name: row[name] for name in names}, axes=from_text(row["axes"])) for row in of_sweep)


def _next(ranked: Ranking, invocation: Invocation) -> NextStep:
    """Name what this ranking is for: the plan that it heads, or the answer that rests on it."""
    if ranked.sweep is None:
        return invocation.step("preview", ranked.plan, "simulates its pilots")
    if ranked.source is Source.PROPOSED:
        return invocation.step("status", ranked.sweep, "how its pilots stand")
    return invocation.step("recommend", ranked.sweep, "which one to run, and how sure that is")


def _legend(found: Ranking) -> str:
    final = "Steps are those of a final run. " if any(row.gpu_hours_to_target for row in found.every) else ""
    if all(row.expected_score is None for row in found.every):
        return f"{final}No published study gives their scores: they are ranked by updates that carry signal."
    if found.source is Source.PROPOSED:
        return f"{final}Scores come from published studies, with 90 % intervals, until pilots measure them."
    return f"{final}Scores have 90 % intervals; spent is what the pilots took."


def ranked_table(rows: Sequence[RankedRow], canvas: Canvas) -> Part:
    """Lay out ranked allocations."""
    wide = canvas.width >= WIDE
    axes = axes_column(rows)
    columns: Sequence[Column[RankedRow]] = (
        RANK,
        *SIZE,
        Column("expected score", lambda row: interval(row.expected_score, row.score_low, row.score_high)),
        Column("P(best)", lambda row: probability(row.probability_best)),
        Column(
            "spent", lambda row: aligned_hours(row.gpu_hours_spent) if row.gpu_hours_spent else UNKNOWN, gives_way=True
        ),
        Column("to target", lambda row: aligned_hours(row.gpu_hours_to_target), shown=wide),
        Column("learning rate", lambda row: f"{row.learning_rate:.2g}", shown=wide),
        Column("status", attrgetter("status"), Cells.NAMES, gives_way=True),
        axes,
        Column("recipe", attrgetter("recipe"), Cells.TEXTS, shown=wide and not axes.shown),
    )
    return table_of(rows, columns, canvas, dim=lambda row: row.expected_score is None)
