"""`rlplan fit`: fits curves or a law, and draws them on a page where that is asked for."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlplan.commands.fit_curves import Fits, fit_curves_of
from rlplan.requests.logs import FitRequest
from rlplan.wording.file_writing import write_file

if TYPE_CHECKING:
    from rlplan.charts.chart import Chart
    from rlplan.commands.fit_law import FittedLaws

SINGLE_HEIGHT = 560  # pixels, of a chart that has the page for itself


def answer(request: FitRequest) -> "Fits | FittedLaws":
    """Fit curves or a law, and draw the first of them on a page that needs no network where that is asked for."""
    if request.law is None:
        fits: Fits | FittedLaws = fit_curves_of(request)
    else:
        from rlplan.commands.fit_law import fit_law  # noqa: PLC0415 (of laws alone)

        fits = fit_law(request)
    if request.plot is None:
        return fits
    from rlplan.commands.fit_charts import MOST_CHARTS, fit_charts  # noqa: PLC0415 (of pages alone)

    charts, path = fit_charts(fits), Path(request.plot)
    write_file(path, fit_page(charts).encode(), force=True)
    line, missing = f"drew {path}", len(fits) - len(charts)
    if missing:
        line += f": the first {MOST_CHARTS} {'curves' if request.law is None else 'fits'}, without {missing} more"
    return replace(fits, drawn=(line,))


def fit_page(charts: "Sequence[Chart]") -> str:
    """Return the page of some charts."""
    from rlplan.web import page  # noqa: PLC0415

    single = len(charts) == 1
    numbered = [
        replace(chart, name=f"fit-{number}", height=SINGLE_HEIGHT if single else chart.height)
        for number, chart in enumerate(charts, start=1)
    ]
    title = charts[0].title if single else f"{len(charts)} learning curves"
    return page.rendered("fits.html", title=title, charts=numbered, **page.contents())
