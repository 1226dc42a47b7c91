"""Without a mouse: everything that does something is reached with Tab, can be seen to be, and does it."""

import pytest

from tests.browser.conftest import Look
from tests.browser.sweeps import FINISHED
from tests.browser.watching import Eye

MOST_STOPS = 200


def tab_to(eye: Eye, selector: str) -> int:
    """Press Tab until an element has the focus, and say how often."""
    for stop in range(1, MOST_STOPS):
        eye.page.keyboard.press("Tab")
        if eye.page.evaluate("wanted => document.activeElement.matches(wanted)", selector):
            outline = "getComputedStyle(document.activeElement).outlineStyle"
            assert eye.page.evaluate(outline) != "none", f"nobody sees that {selector} has the focus"
            return stop
    raise AssertionError(f"{selector} is not reached with {MOST_STOPS} stops")


@pytest.mark.parametrize("kind", ["report", "dashboard"])
def test_the_keyboard_reaches_the_theme_and_the_filter(
    look: Look, reports: dict[str, str], dashboard: str, kind: str
) -> None:
    eye = look(color_scheme="light")
    eye.open(reports[FINISHED] if kind == "report" else f"{dashboard}/sweeps/{FINISHED}")
    eye.page.locator("#decision-rows tr").first.wait_for()
    ground = "getComputedStyle(document.body).backgroundColor"
    light = eye.page.evaluate(ground)
    assert tab_to(eye, "[data-theme-toggle]") <= 5
    eye.page.keyboard.press("Enter")
    assert eye.page.evaluate(ground) != light
    tab_to(eye, "[data-filter=decision-rows]")
    shown = eye.page.locator("#decision-rows tr:visible")
    unfiltered = shown.count()
    eye.page.keyboard.type("start")
    assert 0 < shown.count() < unfiltered
    tab_to(eye, "#decision-rows summary")
    eye.page.keyboard.press("Enter")
    assert shown.locator("pre:visible").count() == 1
    tab_to(eye, "#ranking th:nth-child(2) [data-sort]")
    eye.page.keyboard.press("Space")
    assert eye.page.locator("#ranking th[aria-sort=ascending]").count() == 1
