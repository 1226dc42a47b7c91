"""The results in a database as objects: its plans, and its sweeps with their tables, answers and reports."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from budgets.errors import InputError, StoreError
from planner.store import Store, open_store
from planner.store.engine import masked
from planner.store.read_model import Memory, every_point
from planner.store.schema import SweepStatus
from planner.store.sweeps import sweep_named
from planner.tables import flattened
from rlplan.commands.plan import Plan, stored_document
from rlplan.commands.status import Standing
from rlplan.reading.story import story
from rlplan.reading.sweep_picture import Money, Picture, StoredAnswer
from rlplan.reading.sweep_words import tally
from rlplan.reading.sweeps import listed_plans, listed_sweeps
from rlplan.wording.answers import DECISIONS, TRIALS, Read, columns, plain, spread
from rlplan.wording.command_lines import database_at
from rlplan.wording.numbers import hours

if TYPE_CHECKING:
    from rlplan.reading.recommendation import Recommended as Answer
    from rlplan.reading.story import Beliefs

Rows = list[dict[str, Any]]
PLANS = columns("""
    plan created_at budget_gpu_hours pilot_gpu_hours final_gpu_hours model gpu gpus recipe difficulty candidates
""")
SWEEPS = columns("sweep plan created_at finished_at status policy seed trials gpu_hours_spent")
CURVES = columns("""
    trial rollouts_per_prompt prompts_per_batch seed state step gpu_hours score score_standard_error
""")
POINTS = columns("""
    trial attempt step rollouts tokens seconds gpu_hours compared_gpu_hours score score_standard_error
""")
SEGMENTS = columns("""
    worker trial segment attempt from_step to_step started_at ended_at outcome reserved_gpu_hours charged_gpu_hours
""")


@contextmanager
def arguments_named() -> Iterator[None]:
    """Let errors that are raised within name arguments as Python does: `learning_rate=0.1`."""
    try:
        yield
    except InputError as error:
        error.args = (error.spelled(str, "="),)
        raise


class Book:
    """The results in a database, for reading alone; between two calls it holds no connection."""

    def __init__(self, database: str) -> None:
        """Read from the database at this path or URL."""
        self.database = database
        self.closed = False

    def close(self) -> None:
        """Read no more; what was read already stays."""
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def plans(self) -> Rows:
        """Return a row for each plan, the newest first."""
        with self.reading() as store, store.read() as session:
            return spread(PLANS, listed_plans(session))[1]

    def sweeps(self) -> Rows:
        """Return a row for each sweep, the newest first."""
        with self.reading() as store, store.read() as session:
            rows = [
                {name: getattr(sweep, name, None) for name in SWEEPS} | {"gpu_hours_spent": sweep.spent_gpu_hours}
                for sweep in listed_sweeps(session, datetime.now(UTC))
            ]
            return spread(SWEEPS, rows)[1]

    def plan(self, name: str | None = None) -> Plan:
        """Return the plan of that name, by default the newest; NotFoundError when there is none."""
        with self.reading() as store:
            return Plan(self.database, stored_document(store.plan(name)))

    def sweep(self, name: str | None = None) -> "Sweep":
        """Return the sweep of that name, by default the newest, as it is now; NotFoundError when there is none."""
        return Sweep(self, name)

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """Lend the database for one look at it."""
        if self.closed:
            raise StoreError(f"the {self} is closed: open it again with rlplan.open(…)")
        with arguments_named(), open_store(self.database, read_only=True) as store:
            yield store

    def __repr__(self) -> str:
        return f"<Book of {masked(self.database)}{', closed' if self.closed else ''}>"


class Sweep:
    """A sweep as it was when it was read; `refresh()` reads it again. Everything but points comes from one moment."""

    def __init__(self, book: Book, name: str | None = None, memory: Memory | None = None) -> None:
        """Read the sweep of that name, by default the newest; NotFoundError when there is none."""
        self._book = book
        self._memory: Memory = {} if memory is None else memory
        with book.reading() as store:
            self.story = story(store, name, memory=self._memory)

    picture = Read[Picture]("story.picture", "The rows that all of this is read from, as typed objects.")
    name = Read[str]("picture.sweep", "What it is stored under, such as 'sweep-2'.")
    database = Read[str]("_book.database", "The path or URL of the database that it is in.")
    plan = Read[str]("picture.plan", "The name of its plan.")
    status = Read[SweepStatus]("picture.status", "Where it stands; a text too, such as 'finished'.")
    policy = Read[str]("picture.policy", "What decides.")
    metric = Read[str]("picture.metric", "What all scores are, such as 'mean@1'.")
    money = Read[Money]("picture.money", "Where the pilots' GPU-hours are.")
    target_gpu_hours = Read[float]("story.target_gpu_hours", "The compute at which configurations are compared.")
    answer = Read[StoredAnswer | None]("picture.answer", "What is recommended: at its end, or so far; None at first.")

    def refresh(self) -> "Sweep":
        """Return the sweep as it is now; only what is new is read."""
        return Sweep(self._book, self.name, self._memory)

    def trials(self) -> Rows:
        """Return a row for each trial, with its newest score and the forecast of its curve."""
        return spread(TRIALS, self.picture.trials)[1]

    def curves(self) -> Rows:
        """Return a row for each score that counts, by trial and step: GPU-hours of the trial against its score."""
        rows = [
            {name: getattr(trial, name, None) for name in (*CURVES, "axes")} | plain(score)
            for trial in self.picture.trials
            for score in trial.points
        ]
        return spread(CURVES, rows)[1]

    def points(self) -> Rows:
        """Return a row for each point by trial, step and attempt, with a column `metric_…` for each number measured."""
        with self._book.reading() as store, store.read() as session:
            points = list(every_point(session, sweep_named(session, self.name).id))
        rows = [trial | point._asdict() | _numbers(point.metrics) for trial, point in points]
        metrics = dict.fromkeys(name for row in rows for name in row if name.startswith("metric_"))
        return spread((*POINTS, *metrics), rows)[1]

    def ranked(self, *, stored: bool = False) -> Rows:
        """Return a row for each allocation, the most promising first, as `rlplan rank` does.

        It is the ranking that the sweep stored last, else it is worked out; `stored` asks for the former alone.
        """
        from rlplan.reading.ranked import ranking  # noqa: PLC0415

        with self._book.reading():
            return ranking(self.database, self.name, stored=stored).table()[1]

    def decisions(self) -> Rows:
        """Return a row for each decision, oldest first; what it rested on is JSON."""
        return spread(DECISIONS, self.story.decisions)[1]

    def segments(self) -> Rows:
        """Return a row for each segment, in the order of their start: which worker ran which trial when."""
        return spread(SEGMENTS, self.story.segments)[1]

    def recommend(self, target: float | None = None, budget: float | None = None) -> "Answer":
        """Return the recommendation that the sweep stored last, or another that is worked out.

        `target` has the GPU-hours of another final run, `budget` those of pilots and final run together.
        """
        from rlplan.reading.recommendation import recommended  # noqa: PLC0415

        with self._book.reading():
            return recommended(self.database, self.name, budget=budget, target=target)

    @cached_property
    def beliefs(self) -> "Beliefs":
        """What all curves together let one believe: seconds of work for a large sweep, done once."""
        from rlplan.reading.beliefs import beliefs  # noqa: PLC0415

        with self._book.reading() as store:
            return beliefs(store, self.name)

    def report(self, path: str | Path) -> Path:
        """Write the report into one HTML file that needs no network, and return its path."""
        from rlplan.web.report import checked, report, save  # noqa: PLC0415 (jinja2)

        file = checked(Path(path))  # before the curves are fitted, which takes a while
        save(file, report(self.story, self.beliefs))
        return file

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `rlplan status --format json` prints."""
        return Standing(self.picture, self.story.final).to_dict()

    def __repr__(self) -> str:
        money = self.money
        return (
            f"<Sweep {self.name} of {self.plan}: {self.status.value}, {tally(self.picture.trials)}, "
            f"{hours(money.spent)} of {hours(money.pilot_gpu_hours)} pilot GPU-hours spent>"
        )


def _numbers(metrics: dict[str, Any] | None) -> dict[str, float]:
    """Flatten metrics to their numbers: `{"seconds": {"train": 2}}` to `metric_seconds_train`."""
    return {
        f"metric_{name.replace('.', '_')}": float(value)
        for name, value in flattened(metrics or {})
        if isinstance(value, int | float)
    }


def open(db: str | Path | None = None) -> Book:
    """Open a results database for reading, by its path or URL; by default RLPLAN_DB, else ./rlplan.db.

    Example:
        >>> with rlplan.open("rlplan.db") as book:
        ...     sweep = book.sweep()
        >>> sweep.name
        'sweep-1'
    """
    book = Book(database_at(db))
    with book.reading():  # refuses what cannot be read now rather than at the first question
        return book
