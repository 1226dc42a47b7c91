"""Draws fitted curves and laws on one page that needs no network and nothing beside it."""

from collections.abc import Sequence
from pathlib import Path

from rlplan.actions.fitting import Fits
from rlplan.actions.law_fitting import LawFits
from rlplan.charts.fit_charts import fit_charts
from rlplan.charts.fit_panels import MOST_PANELS, Panel, curve_panels, law_panels
from rlplan.web import page
from rlplan.wording.file_writing import write_file


def write_fits(fits: Fits, path: Path) -> str:
    """Draw the first curves on a page, and return a line that says so."""
    return _write(curve_panels(fits), len(fits.curves), "curves", path)


def write_laws(fits: LawFits, path: Path) -> str:
    """Draw the first fits of a law, as `write_fits` does curves."""
    return _write(law_panels(fits), len(fits.fits), "fits", path)


def _write(panels: Sequence[Panel], count: int, what: str, path: Path) -> str:
    write_file(path, fit_page(panels).encode(), force=True)
    missing = count - len(panels)
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
