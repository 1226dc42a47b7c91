"""`rlplan fit`: fit learning curves made anywhere, and say where they go."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.commands import options
from rlplan.commands.options import plain
from rlplan.wording.formats import Format


def fit(
    files: Annotated[
        list[Path], typer.Argument(help="CSV, JSONL, TensorBoard, any trainer's log as it is, or a run's folder.")
    ],
    x: options.XColumnOption = None,
    y: options.YColumnOption = None,
    by: options.ByColumnOption = None,
    percent: options.PercentOption = False,
    answers: options.AnswersOption = None,
    fit_fraction: Annotated[float | None, plain("--fit-fraction", "Fit only the first part of the x range.")] = None,
    fit_until: Annotated[float | None, plain("--fit-until", "Fit only the points up to an x.", metavar="<x>")] = None,
    cut: Annotated[
        str | None, typer.Option(metavar="<x>|auto|published", help="Leave out the points before an x.")
    ] = None,
    predict_at: Annotated[
        list[str] | None,
        typer.Option(metavar="<x>|end", help="Where to predict; may be repeated. By default 2 and 4 × the last x."),
    ] = None,
    level: Annotated[float, plain("--level", "How much of the probability an interval holds.")] = 0.9,
    law: Annotated[
        str | None,
        typer.Option(metavar="<law>", help="Fit a law: sigmoid, power, model-size, group-size or value-based."),
    ] = None,
    compare_by: Annotated[
        str | None, typer.Option(metavar="<column>", help="Rank what a column tells apart by asymptote, then midpoint.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="<file>", help="Draw the fits into a .html or .png.")] = None,
    format: options.FormatOption = Format.TABLE,
) -> int:
    """Fit learning curves and predict where they go, with intervals and a verdict; or a law; or compare recipes.

    Example: rlplan fit run.csv --fit-fraction 0.25 --predict-at end --plot fit.html
    """
    asked = dict(locals())
    from rlplan.actions.fit_request import FitRequest  # noqa: PLC0415
    from rlplan.actions.fitting import fit_files  # noqa: PLC0415
    from rlplan.printing.fit_output import print_comparison, print_fits, print_laws  # noqa: PLC0415

    request = FitRequest.of(asked)
    if law is None and compare_by is None:
        return print_fits(fit_files(files, request), format, plot)
    from rlplan.actions.law_fitting import compare_recipes, fit_law, read_tables  # noqa: PLC0415

    tables, failures = read_tables(files)
    if compare_by is not None:
        return print_comparison(*compare_recipes(tables, request, failures), format)
    return print_laws(fit_law(tables, request, failures), format, plot)
