"""Fits learning curves from Python: of files, of frames, of arrays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from budgets.errors import InputError, UnknownNameError
from planner.curves.curve import Curve
from planner.curves.fitting import Interval, Prediction
from planner.curves.reading import Table, read_curves
from planner.curves.reading.assembly import curves_of
from rlplan.actions.fit_data import curve_data, fits_data
from rlplan.actions.fit_request import FitRequest
from rlplan.actions.fitting import FittedCurve, fit_read
from rlplan.actions.law_fitting import compare_recipes, fit_law, read_tables
from rlplan.api.laws import FittedLaws, RecipeComparison
from rlplan.api.wording import Said, arguments_named, first_few, reworded
from rlplan.reading.tabular import Tabular, arrays_of, is_path, is_table, table_of
from rlplan.wording.answers import Read, page_part
from rlplan.wording.frames import FITS, Frame, Kind, Library, make_frame
from rlplan.wording.numbers import interval

if TYPE_CHECKING:
    from rlplan.actions.fitting import Fits as Fitted

ARRAYS = "arrays"
PARAMETERS = ("R0", "A", "B", "C_mid")


@dataclass(frozen=True)
class Fit:
    """What the points of one curve say."""

    fitted: FittedCurve = field(repr=False)

    curve = Read[str]("fitted.fit.curve", "The curve's name.")
    verdict = Read[str](
        "fitted.fit.verdict.value", "rising, saturated, flat, declining, collapsed or not-identifiable."
    )
    evidence = Read[str]("fitted.fit.evidence", "What the verdict rests on.")
    parameters = Read[Mapping[str, Interval]]("fitted.fit.parameters", "R0, A, B and C_mid, with intervals.")
    predictions = Read[tuple[Prediction, ...]]("fitted.fit.predictions", "The mean score at each x that was asked for.")
    observed = Read[tuple[float | None, ...]](
        "fitted.observed", "What came of each prediction; None if it is not known."
    )
    now = Read[Prediction]("fitted.now", "The mean score at the last x that was used.")
    noise_sd = Read[float]("fitted.fit.noise_sd", "The standard deviation of a score around the curve.")
    notes = Said("fitted.fit.notes", "What was done to the points, and what to mind.")

    def to_dict(self) -> dict[str, Any]:
        """Return what `rlplan fit --format json` prints of one curve."""
        return curve_data(self.fitted)

    def __repr__(self) -> str:
        last = self.predictions[-1] if self.predictions else self.now
        return f"<Fit of {self.curve}: {self.verdict}, {interval(last.mean, last.low, last.high)} at x={last.x:.4g}>"


@dataclass(frozen=True)
class Fits(Sequence[Fit]):
    """The fits of all curves, by place or by the curve's name; what could not be read or fitted is in `failures`."""

    fitted: "Fitted" = field(repr=False)

    failures = Said("fitted.failures", "A line for each file or curve that could not be fitted.")

    def __len__(self) -> int:
        return len(self.fitted.curves)

    def __iter__(self) -> Iterator[Fit]:
        return (Fit(each) for each in self.fitted.curves)

    @overload
    def __getitem__(self, which: int | str) -> Fit: ...
    @overload
    def __getitem__(self, which: slice) -> list[Fit]: ...
    def __getitem__(self, which: int | str | slice) -> Fit | list[Fit]:
        if isinstance(which, slice):
            return [Fit(each) for each in self.fitted.curves[which]]
        if isinstance(which, int):
            return Fit(self.fitted.curves[which])
        by_name = {each.fit.curve: each for each in self.fitted.curves}
        if which not in by_name:
            raise UnknownNameError("curve", which, by_name)
        return Fit(by_name[which])

    def frame(self, frame: Library | None = None) -> Frame:
        """Return a row for each prediction of each curve."""
        parts = {f"{name}_{part}": Kind.NUMBER for name in PARAMETERS for part in ("median", "low", "high")}
        rows = [
            {
                "curve": each.curve,
                "points": int(each.fitted.whole.x.size),
                "used_points": each.fitted.fit.used_points,
                "verdict": each.verdict,
                "noise_sd": each.noise_sd,
                **{name: getattr(prediction, name) for name in ("x", "mean", "low", "high", "level")},
                "observed": observed,
                "notes": "; ".join(each.notes),
                **{
                    f"{name}_{part}": getattr(each.parameters.get(name), part, None)
                    for name in PARAMETERS
                    for part in ("median", "low", "high")
                },
            }
            for each in self
            for prediction, observed in zip(each.predictions, each.observed, strict=True)
        ]
        return make_frame({**FITS, **parts}, rows, frame)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `rlplan fit --format json` prints."""
        return fits_data(self.fitted)

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return (
            f"<Fits of {len(self)} {'curve' if len(self) == 1 else 'curves'}{failed}: {first_few([*map(repr, self)])}>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                each.curve,
                each.verdict,
                f"{prediction.x:,.4g}",
                interval(prediction.mean, prediction.low, prediction.high),
                each.evidence,
            )
            for each in self
            for prediction in each.predictions
        ]
        said = "; ".join([f"{len(self)} curves", *self.failures])
        return page_part(said, ("curve", "verdict", "x", "mean score", "evidence"), rows)


class FitFlags(TypedDict, total=False):
    """What `fit` takes beside the data, whatever is fitted."""

    x: str | None
    y: str | None
    by: str | None
    percent: bool
    answers: int | None
    fit_fraction: float | None
    fit_until: float | None
    cut: float | str | None
    predict_at: float | str | Sequence[float | str]
    level: float


@overload
def fit(data: Tabular, *, law: None = None, **flags: Unpack[FitFlags]) -> Fits: ...
@overload
def fit(data: Tabular, *, law: str, **flags: Unpack[FitFlags]) -> FittedLaws: ...
def fit(
    data: Tabular,
    *,
    x: str | None = None,
    y: str | None = None,
    by: str | None = None,
    percent: bool = False,
    answers: int | None = None,
    fit_fraction: float | None = None,
    fit_until: float | None = None,
    cut: float | str | None = None,
    predict_at: float | str | Sequence[float | str] = (),
    level: float = 0.9,
    law: str | None = None,
) -> Fits | FittedLaws:
    """Fit learning curves and predict where they go, with intervals and a verdict; or a law.

    Args:
        data: A path to a CSV, JSONL, trainer_state.json or TensorBoard file, or several; a pandas or polars DataFrame,
            a dict of columns, a list of dicts; or a pair of arrays (x, scores).
        x: The column of compute; guessed without this.
        y: The column of scores; guessed without this.
        by: The column that tells curves apart.
        percent: Scores are percentages: divide them by 100.
        answers: Answers behind each score; its binomial error is then known.
        fit_fraction: Fit only the first part of the x range.
        fit_until: Fit only the points up to an x.
        cut: Leave out the points before an x; or 'auto' or 'published'.
        predict_at: One x or several, or 'end'; by default 2 and 4 times the last x.
        level: How much of the probability an interval holds.
        law: A law to fit instead: sigmoid, power, model-size, group-size or value-based.

    Returns:
        The fits, of every curve that could be fitted; FittedLaws with `law`.

    Raises:
        InputError: What is given is not allowed, or no curve could be fitted.

    Example:
        >>> x = [0, 1, 2, 4, 8, 16, 32]
        >>> scores = [0.10, 0.14, 0.21, 0.34, 0.48, 0.56, 0.59]
        >>> (fit,) = rlplan.fit((x, scores), predict_at=64)
        >>> fit.predictions[0].low < fit.predictions[0].mean < fit.predictions[0].high
        True
    """
    asked = dict(locals())
    wanted = (predict_at,) if isinstance(predict_at, str) or not isinstance(predict_at, Sequence) else predict_at
    with arguments_named():
        request = FitRequest.of(asked | {"predict_at": wanted})
        if law is not None:
            found = fit_law(*_tables(data, request))
            if not found.fits:
                raise InputError("; ".join(found.failures) or "there is nothing to fit: give at least one table")
            return FittedLaws(found)
        request.targets()  # what cannot be done is refused before anything is read
        request.cut_point()
        read, failures = _read(data, request)
        fitted = fit_read(read, request, failures)
        if not fitted.curves:
            raise InputError("; ".join(fitted.failures) or "there is no curve to fit: give at least one")
    return Fits(fitted)


def compare(
    data: Tabular,
    *,
    by: str | None = None,
    x: str | None = None,
    y: str | None = None,
    percent: bool = False,
    fit_until: float | None = None,
    level: float = 0.9,
) -> RecipeComparison:
    """Compare two runs or recipes: the difference where their curves end, and what would settle it.

    Args:
        data: As for `fit`; several files are a recipe each.
        by: The column that tells recipes apart instead.
        x: The column of compute; guessed without this.
        y: The column of scores; guessed without this.
        percent: Scores are percentages: divide them by 100.
        fit_until: Only the points up to an x.
        level: How much of the probability an interval holds.

    Returns:
        The recipes from the best to the worst, with the difference of the first two.

    Raises:
        InputError: What is given is not allowed, or there are not two recipes.
    """
    with arguments_named():
        request = FitRequest(x=x, y=y, percent=percent, fit_until=fit_until, level=level)
        tables, _, failures = _tables(data, request)
        comparison, failures = compare_recipes(tables, by, request, failures)
    return RecipeComparison(comparison, tuple(reworded(each) for each in failures))


def _tables(data: Tabular, request: FitRequest) -> tuple[list[tuple[Path, Table]], FitRequest, list[str]]:
    """Return all columns of what was given: a law and a comparison need them, and no curves yet."""
    if (table := _table_in_memory(data)) is not None:
        return [(Path(table.name), table)], request, []
    tables, failures = read_tables(_files(data))
    return tables, request, failures


def _table_in_memory(data: Tabular) -> Table | None:
    if is_table(data):
        return table_of(data)
    pair = arrays_of(data)
    return None if pair is None else Table(ARRAYS, {"x": pair[0], "score": pair[1]})


def _files(data: Tabular) -> list[Path]:
    files = [data] if is_path(data) else list(data) if isinstance(data, Sequence) else []
    if not files or not all(is_path(each) for each in files):
        raise InputError(
            f"{type(data).__name__} is nothing that can be fitted: give a path or several, a pandas or polars "
            "DataFrame, a dict of columns, a list of dicts, or a pair of arrays (x, scores)"
        )
    return list(map(Path, files))


def _read(data: Tabular, request: FitRequest) -> tuple[list[tuple[Path, list[Curve]]], list[str]]:
    """Return the curves of what was given, with where they come from, and a line for each file that failed."""
    chosen: dict[str, Any] = {"x": request.x, "y": request.y, "by": request.by, "percent": request.percent}
    if (table := _table_in_memory(data)) is not None:
        if table.name == ARRAYS:
            chosen |= {"x": "x", "y": "score", "by": ""}
        return [(Path(table.name), curves_of(table, **chosen))], []
    read, failures = [], []
    for file in _files(data):
        try:
            read.append((file, read_curves(file, **chosen)))
        except InputError as failure:
            failures.append(str(failure))
    return read, failures
