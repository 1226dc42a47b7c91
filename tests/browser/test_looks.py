"""Every page in light and dark, on a phone, a tablet and a wall: nothing breaks, and it can be read and heard."""

import re

import pytest

from tests.browser.conftest import Look
from tests.browser.sweeps import EMPTY, FINISHED, HOSTILE, PLAN, UNDER_WAY

WIDTHS = (360, 390, 2500)
PAGES = {
    "report-finished": lambda reports, _: reports[FINISHED],
    "report-under-way": lambda reports, _: reports[UNDER_WAY],
    "report-empty": lambda reports, _: reports[EMPTY],
    "report-hostile": lambda reports, _: reports[HOSTILE],
    "report-plan": lambda reports, _: reports[PLAN],
    "dashboard-plan": lambda _, dashboard: f"{dashboard}/plans/{PLAN}",
    "dashboard-sweeps": lambda _, dashboard: f"{dashboard}/",
    "dashboard-finished": lambda _, dashboard: f"{dashboard}/sweeps/{FINISHED}",
    "dashboard-under-way": lambda _, dashboard: f"{dashboard}/sweeps/{UNDER_WAY}",
    "dashboard-empty": lambda _, dashboard: f"{dashboard}/sweeps/{EMPTY}",
    "dashboard-hostile": lambda _, dashboard: f"{dashboard}/sweeps/{HOSTILE}",
    "dashboard-no-such-page": lambda _, dashboard: f"{dashboard}/sweeps/none",
}


@pytest.mark.parametrize("name", PAGES)
def test_it_looks_right_everywhere(look: Look, reports: dict[str, str], dashboard: str, name: str) -> None:
    eye = look()
    status = eye.open(PAGES[name](reports, dashboard))
    page = eye.page
    eye.see_all()
    assert eye.measure("unheard") == []
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        eye.see_all()
        assert eye.measure("faint") == [], scheme
        eye.picture(f"{name}-{scheme}", whole=True)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.emulate_media(color_scheme="light")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        eye.see_all()
        assert eye.measure("sideways") == [], width
        assert eye.measure("cutOff") == [], width
        eye.picture(f"{name}-{width}", whole=width == WIDTHS[0])
    if status == 404:  # the browser itself logs that
        assert [each for each in eye.wrong if not re.search("error: Failed to load resource: .* 404", each)] == []
        eye.wrong.clear()


def test_the_button_changes_the_theme_and_the_choice_is_kept(look: Look, reports: dict[str, str]) -> None:
    eye = look(color_scheme="dark")
    eye.open(reports[FINISHED])
    eye.see_all()
    ground = "getComputedStyle(document.body).backgroundColor"
    ticks = "getComputedStyle(document.querySelector('#curves .xtick text')).fill"
    dark = eye.page.evaluate(ground), eye.page.evaluate(ticks)
    eye.page.locator("[data-theme-toggle]").click()
    light = eye.page.evaluate(ground), eye.page.evaluate(ticks)
    assert all(one != other for one, other in zip(dark, light, strict=True))
    eye.page.reload()
    eye.see_all()
    assert (eye.page.evaluate(ground), eye.page.evaluate(ticks)) == light
