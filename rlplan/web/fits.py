"""Draws fitted curves and laws on one page that needs no network and nothing beside it."""

from collections.abc import Sequence
from pathlib import Path

from rlplan.actions.fitting import Fits
from rlplan.actions.law_fitting import FittedLaws
from rlplan.charts.fit_charts import fit_charts
from rlplan.charts.fit_panels import MOST_PANELS, Panel, curve_panels, law_panels
from rlplan.web import page
from rlplan.wording.file_writing import write_file


def write_fits(fits: Fits | FittedLaws, path: Path) -> str:
    """Draw the first curves or fits of a law on a page, and return a line that says so."""
    panels, what = (curve_panels(fits), "curves") if isinstance(fits, Fits) else (law_panels(fits), "fits")
    write_file(path, fit_page(panels).encode(), force=True)
    missing = len(fits) - len(panels)
    return f"drew {path}" + (f": the first {MOST_PANELS} {what}, without {missing} more" if missing else "")


def fit_page(panels: Sequence[Panel]) -> str:
    """Return the page of some panels."""
    from markupsafe import Markup  # noqa: PLC0415

    charts = fit_charts(panels)
    return page.rendered(
        "fits.html",
        title=charts[0].title if len(charts) == 1 else f"{len(charts)} learning curves",
        charts=charts,
        styles=Markup(page.styles()),
        scripts=Markup(page.scripts()),
        plotly=Markup(page.plotly_script()),
    )
