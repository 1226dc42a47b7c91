"""What `rlplan fit --law` says: a law's parameters, what it predicts, and why a table cannot tell."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.gain_curve import CannotTellError, LawDraws, draw_power_law, draw_sigmoid
from planner.curves.laws import Law, averaged, draw_group_law, group_column, parts_by
from planner.metrics import Interval
from rlplan.actions.curve_jobs import (
    compute,
    curves_in,
    fit_jobs,
    gathered,
    grouped_curves,
    require_sound,
    tables_of,
    targets_of,
)
from rlplan.requests.logs import FitRequest
from rlplan.wording.answers import Key, Several, columns
from rlplan.wording.numbers import interval
from rlplan.wording.screen import Canvas, Column, Invocation, Part, listed, next_steps, table_of

FORMS = {
    Law.SIGMOID: "R(C) = R0 + (A − R0) / (1 + (C_mid/C)^B)",
    Law.POWER: "R(C) = A − D / C^B",
    Law.GROUP_SIZE: "log2 n*(C) = L / (1 + exp(−k·(log10 C − c0))) + b",
}


@dataclass(frozen=True)
class LawPrediction:
    """What a law gives at one x, with its interval; `series` says of what (a model size), '' where there is but one."""

    series: str
    x: float
    median: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class LawFit:
    """What the points of a curve or a table say of a law: draws of it, or None where they are too few, with doubts."""

    file: Path
    law: Law = field(repr=False)
    fitted: Curve = field(repr=False)
    draws: LawDraws | None = field(repr=False)
    level: float = field(repr=False)
    predictions: tuple[LawPrediction, ...]
    evidence: tuple[str, ...] = ()  # why the points cannot tell; nothing where they do

    name = Key[str]("fitted.name", "The name of the curve or the table.")
    points = Key[int]("fitted.x.size")
    identified = Key[bool](lambda fit: not fit.evidence, "Whether the points tell what the law is.")
    parameters = Key[Mapping[str, Interval]](
        lambda fit: fit.draws.intervals(fit.level) if fit.draws else {},
        "By the literature's names, each with an interval.",
    )
    noise_sd = Key[float | None](lambda fit: fit.draws and fit.draws.noise_sd)
    notes = Key[Sequence[str]](
        lambda fit: (*fit.fitted.notes, *(fit.draws.notes if fit.draws else ())),
        "What was done to the points, and what to mind.",
    )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each parameter and each prediction; one of nothing where there is none."""
        of: dict[str, Any] = {"law": self.law.value, "name": self.name, "level": self.level}
        of["identified"] = str(self.identified).lower()
        for name, value in self.parameters.items():
            yield of | {"what": name} | asdict(value)
        for prediction in self.predictions:
            row = asdict(prediction)
            yield of | {"what": f"prediction {row.pop('series')}".rstrip()} | row
        if self.draws is None:
            yield of

    def __repr__(self) -> str:
        text = ", ".join(f"{name}={interval(p.median, p.low, p.high)}" for name, p in self.parameters.items())
        return f"<LawFit of {self.name}: {'' if self.identified else 'cannot tell; '}{text}>"


@dataclass(frozen=True, repr=False)
class FittedLaws(Several[LawFit]):
    """The fits of a law: one for each curve, or one for all where the law goes across runs."""

    COLUMNS = columns("law name identified what x median low high level")
    MEMBERS = "fits"

    of: Law = field(repr=False)
    level: float
    fits: tuple[LawFit, ...]

    law = Key[str]("of.value", "The law's name.")

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each parameter and each prediction of each fit."""
        return [row for fit in self.fits for row in fit.rows()]

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw the law's parameters and forecasts, and what a table cannot tell."""
        yield Text(f"The law '{self.law}': {FORMS[self.of]}", "bold")
        yield Text(f"Intervals hold {self.level * 100:g} %, if the law holds.", "dim")
        columns: Sequence[Column[tuple[str, Any]]] = (
            Column("", itemgetter(0)),
            Column(self.law, lambda row: f"{row[1].median:.4g}"),
            Column(f"{self.level * 100:g} % interval", lambda row: f"{row[1].low:.4g} – {row[1].high:.4g}"),
        )
        for fit in self.fits:
            yield ""
            yield Text(f"{fit.name}: {'' if fit.identified else 'this table cannot tell'}".rstrip(": "), "bold")
            rows: list[tuple[str, Any]] = list(fit.parameters.items())
            rows += [(f"{point.series or 'score'} at {compute(point.x)}", point) for point in fit.predictions]
            if rows:
                yield table_of(rows, columns, canvas)
            yield from listed("Why not", fit.evidence)
            yield from listed("Mind", fit.notes)
        steps = [] if self.drawn else [invocation.with_flags("draws it", "--plot", "fit.html")]
        yield from next_steps([*steps, invocation.with_flags("every number", "--format", "csv")], canvas)


def fit_law(request: FitRequest) -> FittedLaws:
    """Fit the law of a request: to every curve, or where it goes across runs, to all tables together."""
    require_sound(request)
    tables, errors = tables_of(request.files)
    law, fits = Law(str(request.law)), []
    if law is not Law.GROUP_SIZE:
        draw = draw_sigmoid if law is Law.SIGMOID else draw_power_law
        read, unread = gathered(tables, lambda member: (member[0], curves_in(member[1], request)))
        jobs, refused = fit_jobs(read, request)
        errors += [*unread, *refused]
        fits = [_fitted(request, job.file, job.used, job.whole, lambda curve: draw(averaged(curve))) for job in jobs]
    elif groups := grouped_curves(tables, lambda _, table: parts_by(table, group_column(table)), request, errors):
        name = tables[0][1].name if len(tables) == 1 else f"{len(tables)} tables"
        if broken := [n for n in groups if not float(n).is_integer()]:
            raise InputError(f"{broken[0]:g} rollouts per prompt in '{name}': give whole numbers")
        runs = [run for curves in groups.values() for run in curves]
        notes = tuple(dict.fromkeys(note for run in runs for note in run.notes))
        points = replace(Curve.joined(runs), name=name, notes=notes)
        by_number = {int(n): [averaged(run) for run in curves] for n, curves in groups.items()}
        fits = [_fitted(request, tables[0][0], points, points, lambda _: draw_group_law(by_number))]
    if not fits:
        raise InputError("; ".join(errors) or "there is nothing to fit: give at least one table")
    return FittedLaws(law, request.level, tuple(fits), failed=tuple(errors))


def _fitted(request: FitRequest, file: Path, used: Curve, whole: Curve, draw: Callable[[Curve], LawDraws]) -> LawFit:
    """Draw a law, and what it predicts where the request says; or return why it cannot be drawn."""
    law = Law(str(request.law))
    try:
        draws = draw(used)
    except CannotTellError as reason:
        return LawFit(file, law, used, None, request.level, (), (str(reason),))
    x = np.array([target.of(whole, used) for target in targets_of(request)])
    series = "n*" if law is Law.GROUP_SIZE else ""  # of the score where there is none
    rows = zip(x, *draws.at(x, request.level), strict=True)
    predictions = tuple(LawPrediction(series, *map(float, row)) for row in rows)
    return LawFit(file, law, used, draws, request.level, predictions, draws.doubts)
