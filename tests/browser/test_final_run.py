"""The page of a sweep whose final run falls: the promise, the scores, the warning and the money, in light and dark."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlplan.actions import sweeping
from rlplan.actions.final_run import describe, launch
from rlplan.requests.run import LaunchRequest
from tests.browser.conftest import Look, rlplan, served
from tests.rlplan.test_launching import Falling
from tests.rlplan.test_sweeping import swept_in

CHART = '[data-chart="final"]'


@pytest.fixture(scope="module")
def fallen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a sweep and its final run, which fell from its middle on."""
    folder = swept_in(tmp_path_factory.mktemp("fallen"))
    database = folder / "rlplan.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(Falling, "steps", describe(LaunchRequest(validations=20, db=str(database))).run.length.steps)
        patch.setattr(sweeping, "RayExecutor", Falling)
        launch(LaunchRequest(validations=20, db=str(database)))
    return database


@pytest.fixture(scope="module")
def pages(fallen: Path) -> Iterator[dict[str, str]]:
    """The addresses of its report and of its page on the dashboard."""
    report = fallen.with_name("report.html")
    rlplan("report", str(report), "sweep-1", "--db", str(fallen))
    with served(fallen) as address:
        yield {"report": report.as_uri(), "dashboard": f"{address}/sweeps/sweep-1"}


@pytest.mark.parametrize("kind", ["report", "dashboard"])
def test_the_final_run_is_seen_first_with_its_promise_its_warning_and_the_way_back(
    look: Look, pages: dict[str, str], kind: str
) -> None:
    eye = look()
    eye.open(pages[kind])
    page = eye.page
    eye.see_all()
    headings = page.locator("h2").all_inner_texts()
    assert headings.index("Final run") < headings.index("Recommendation")
    shown = " ".join(page.locator("section", has_text="Final run").first.inner_text().split())
    for part in ("sweep-1-final", "promised was", "GPU-hours, priced at", "Fall: the mean of the last", "--from-best"):
        assert part in shown
    page.wait_for_selector(f"{CHART} .js-plotly-plot .legendtext, {CHART}.js-plotly-plot .legendtext")
    legend = page.locator(f"{CHART} .legendtext").all_text_contents()
    assert {"promised", "promised, 90 %", "scores"} <= set(legend)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        eye.see_all()
        assert eye.measure("faint") == [], scheme
        eye.picture(f"final-run-{kind}-{scheme}")
    page.set_viewport_size({"width": 360, "height": 900})
    eye.see_all()
    assert eye.measure("sideways") == []
    assert eye.measure("cutOff") == []
    eye.picture(f"final-run-{kind}-360")
