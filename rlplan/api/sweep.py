"""A sweep at one moment: its state, its trials and curves as frames, its answer and its pictures."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.layering import flattened
from planner.store import Store
from planner.store.curves import Memory, every_point
from planner.store.schema import SweepStatus
from planner.store.sweeps import sweep_named
from rlplan.answers.status import Standing
from rlplan.reading.story import story
from rlplan.reading.sweep_picture import Money, Picture, StoredAnswer
from rlplan.reading.sweep_words import tally
from rlplan.wording import frames
from rlplan.wording.documents import Read, plain
from rlplan.wording.numbers import hours

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from rlplan.api.book import Book
    from rlplan.charts.figures import PictureKind
    from rlplan.reading.recommend_reading import Recommended as Answer
    from rlplan.reading.story import Beliefs


class Sweep:
    """A sweep as it was when it was read; `refresh()` reads it again. Everything but points comes from one moment."""

    def __init__(self, book: "Book", name: str | None = None, memory: Memory | None = None) -> None:
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

    def trials(self, frame: frames.Library | None = None) -> frames.Frame:
        """Return a row for each trial, with its newest score and what its curve foretells."""
        return frames.make_frame(frames.TRIALS, self.picture.trials, frame)

    def curves(self, frame: frames.Library | None = None) -> frames.Frame:
        """Return a row for each score that counts, by trial and step: GPU-hours of the trial against its score."""
        found = [
            {name: getattr(trial, name, None) for name in (*frames.CURVES, "axes")} | plain(score)
            for trial in self.picture.trials
            for score in trial.points
        ]
        return frames.make_frame(frames.CURVES, found, frame)

    def points(self, frame: frames.Library | None = None) -> frames.Frame:
        """Return a row for each point that was reported, with what training measured; read when it is asked for."""
        with self._book.reading() as store:
            columns, rows = _point_rows(store, self.name)
        return frames.make_frame(columns, rows, frame)

    def ranked(self, frame: frames.Library | None = None, *, stored: bool = False) -> frames.Frame:
        """Return a row for each allocation, the most promising first, as `rlplan rank` does.

        It is the one that the sweep has stored last. Where there is none it is worked out, which takes seconds for a
        large one; `stored` asks for what the database holds instead.
        """
        from rlplan.reading.rank_reading import ranking  # noqa: PLC0415

        with self._book.reading():
            return ranking(self.database, self.name, stored=stored).frame(frame)

    def decisions(self, frame: frames.Library | None = None) -> frames.Frame:
        """Return a row for each decision, oldest first; what it rested on is JSON."""
        return frames.make_frame(frames.DECISIONS, self.story.decisions, frame)

    def segments(self, frame: frames.Library | None = None) -> frames.Frame:
        """Return a row for each segment, in the order of their start: which worker ran which trial when."""
        return frames.make_frame(frames.SEGMENTS, self.story.segments, frame)

    def recommend(self, target: float | None = None, budget: float | None = None) -> "Answer":
        """Return what is recommended: what the sweep has stored last, whether it has ended or goes on.

        Another final run is worked out from all that is known now.

        Args:
            target: GPU-hours of the final run, if they are to be other than the plan's.
            budget: GPU-hours in all; the final run then has what the pilots have not spent of them.

        Raises:
            InputError: Both are given.
            NotFoundError: Nothing was seen yet.
            BudgetError: The GPU-hours pay for no update step.
        """
        from rlplan.reading.recommend_reading import recommended  # noqa: PLC0415

        with self._book.reading():
            return recommended(self.database, self.name, budget=budget, target=target)

    def plot(self, kind: "PictureKind" = "curves", *, dark: bool = False) -> "Figure":
        """Return a picture as a plotly figure: curves, frontier, heat, budget or timeline. Nothing is opened.

        Args:
            kind: What is drawn.
            dark: Draw it for a dark background.
        """
        from rlplan.charts.figures import figure  # noqa: PLC0415 (plotly)

        return figure(self.story, self.beliefs, kind, dark=dark)

    @cached_property
    def beliefs(self) -> "Beliefs":
        """What all curves together let one believe: seconds of work for a large sweep, done once."""
        from rlplan.reading.believing import beliefs  # noqa: PLC0415

        with self._book.reading() as store:
            return beliefs(store, self.name)

    def report(self, path: str | Path) -> Path:
        """Write the report into one HTML file that needs no network, and return its path."""
        from rlplan.web.report import checked, report, save  # noqa: PLC0415 (jinja2)

        file = checked(Path(path))  # before the curves are fitted, which takes a while
        save(file, report(self.story, self.beliefs))
        return file

    @property
    def _standing(self) -> Standing:
        return Standing(self.picture, self.story.final)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `rlplan status --format json` prints."""
        return self._standing.to_dict()

    def __repr__(self) -> str:
        money = self.money
        return (
            f"<Sweep {self.name} of {self.plan}: {self.status.value}, {tally(self.picture.trials)}, "
            f"{hours(money.spent)} of {hours(money.pilot_gpu_hours)} pilot GPU-hours spent>"
        )

    def _repr_html_(self) -> str:
        return self._standing._repr_html_()


def _point_rows(store: Store, sweep: str) -> tuple[frames.Columns, list[dict[str, Any]]]:
    """Return the points by trial, step and attempt, and their columns: one `metric_…` for each number of training."""
    with store.read() as session:
        rows = [trial | row._asdict() for trial, row in every_point(session, sweep_named(session, sweep).id)]
    measured = [_numbers(row.pop("metrics") or {}) for row in rows]
    names = dict.fromkeys(name for each in measured for name in each)
    columns = {**frames.POINTS, **dict.fromkeys(names, frames.Kind.NUMBER)}
    return columns, [{**dict.fromkeys(names), **row, **own} for row, own in zip(rows, measured, strict=True)]


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """Flatten metrics to their numbers, `{"seconds": {"train": 2}}` to `metric_seconds_train`."""
    return {
        f"metric_{name.replace('.', '_')}": float(value)
        for name, value in flattened(metrics)
        if isinstance(value, int | float)
    }
