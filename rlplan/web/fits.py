"""Draws fitted curves and laws on one page that needs no network and nothing beside it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rlplan.actions.fitting import Fits
from rlplan.actions.law_fitting import FittedLaws
from rlplan.charts.chart import Chart
from rlplan.charts.fit_charts import MOST_CHARTS, fit_charts
from rlplan.web import page
from rlplan.wording.file_writing import write_file

SINGLE_HEIGHT = 560  # pixels, of a chart that has the page for itself


def write_fits(fits: Fits | FittedLaws, path: Path) -> str:
    """Draw the first curves or fits of a law on a page, and return a line that says so."""
    charts, what = fit_charts(fits), "curves" if isinstance(fits, Fits) else "fits"
    write_file(path, fit_page(charts).encode(), force=True)
    missing = len(fits) - len(charts)
    return f"drew {path}" + (f": the first {MOST_CHARTS} {what}, without {missing} more" if missing else "")


def fit_page(charts: Sequence[Chart]) -> str:
    """Return the page of some charts."""
    single = len(charts) == 1
    named = [
        replace(chart, name=f"fit-{number}", height=SINGLE_HEIGHT if single else chart.height)
        for number, chart in enumerate(charts, start=1)
    ]
    title = charts[0].title if single else f"{len(charts)} learning curves"
    return page.rendered("fits.html", title=title, charts=named, **page.contents())
