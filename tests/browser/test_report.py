"""The report as its reader uses it: the answer, a curve under the mouse, sorting, filtering, more curves, paper."""

import math
import re
from typing import Any

import pytest

from rlplan.web.sections import FIRST_PANELS
from tests.browser.conftest import Look
from tests.browser.sweeps import EMPTY, EVIL, FINISHED, HOSTILE, MORE, UNDER_WAY
from tests.browser.watching import Eye
from tests.rlplan.sweep_rows import HOURS, STEPS, TRIALS, curve


def texts(eye: Eye, selector: str) -> list[str]:
    return [re.sub(r"\s+", " ", each).strip() for each in eye.page.locator(selector).all_inner_texts()]


def test_it_shows_what_recommend_says(look: Look, reports: dict[str, str], recommended: dict[str, Any]) -> None:
    eye = look()
    eye.open(reports[FINISHED])
    answer = recommended["recommendation"]
    tiles = dict(zip(texts(eye, "#answer .tile dt"), texts(eye, "#answer .tile dd:nth-of-type(1)"), strict=True))
    assert tiles["n"] == f"{answer['rollouts_per_prompt']:,}"
    assert tiles["B"] == f"{answer['prompts_per_batch']:,}"
    assert tiles["M"] == f"{answer['update_steps']:,}"
    low, high = answer["score_low"], answer["score_high"]
    assert tiles["expected score"] == f"{answer['expected_score']:.3f} {low:.3f} to {high:.3f}"
    assert texts(eye, "#answer .sentence")[0].replace("\u00a0", " ") == recommended["sentences"][0]
    first = texts(eye, "#ranking tbody tr:first-child td")
    chosen = [f"n= {answer['rollouts_per_prompt']}", f"B= {answer['prompts_per_batch']}"]  # "n=" is for who listens
    assert first[:3] == ["1", *chosen]


@pytest.mark.parametrize("step", [2, STEPS, 28])
def test_a_point_under_the_mouse_says_its_numbers(look: Look, reports: dict[str, str], step: int) -> None:
    eye = look()
    eye.open(reports[UNDER_WAY])
    eye.page.mouse.move(*eye.measure("pointAt", "curve-n512-B32", step))
    label = eye.page.locator('[data-chart="curve-n512-B32"] .hoverlayer .hovertext')
    label.wait_for()
    gpu_hours = f"{step * HOURS / STEPS:g} GPU-hours"
    lines = label.first.locator("tspan.line, tspan").all_text_contents()
    said = " ".join(lines) or label.first.text_content()
    for part in ("n512-B32-s0", f"step {step}", gpu_hours, f"score {curve(0.74, step):.4f} ± 0.0110"):
        assert part in said
    assert math.isclose(curve(0.74, step), float(re.findall(r"score ([\d.]+)", said)[0]), abs_tol=1e-4)
    if step == STEPS:
        eye.picture("report-hover")


def test_a_click_on_a_heading_sorts_and_a_second_one_turns_it_round(look: Look, reports: dict[str, str]) -> None:
    eye = look()
    eye.open(reports[FINISHED])
    heading = eye.page.locator("#ranking th", has_text=re.compile(r"^\s*n\b"))
    cells = "#ranking tbody td:nth-child(2)"
    before = texts(eye, cells)
    for direction, falling in (("ascending", False), ("descending", True)):
        heading.get_by_role("button").click()
        assert heading.get_attribute("aria-sort") == direction
        n = [int(each.removeprefix("n= ")) for each in texts(eye, cells)]
        assert n == sorted(n, reverse=falling)
    assert sorted(before) == sorted(texts(eye, cells))
    assert before != texts(eye, cells)


def test_the_log_shows_what_is_typed_and_all_of_it_on_demand(look: Look, reports: dict[str, str]) -> None:
    eye = look()
    eye.open(reports[FINISHED])
    rows, every = eye.page.locator("#decision-rows tr:visible"), eye.page.locator("#decision-rows tr")
    assert 0 < rows.count() < every.count()
    box = eye.page.locator("[data-filter=decision-rows]")
    started = next(each for each in texts(eye, "#decision-rows tr:visible") if "start" in each)
    trial = re.findall(r"n\d+-B\d+", started)[0]
    box.fill(f"start {trial}")
    found = texts(eye, "#decision-rows tr:visible")
    assert found
    assert all("start" in each and trial in each for each in found)
    assert texts(eye, "[data-count=decision-rows]") == [f"{len(found)} of {every.count()} decisions"]
    box.fill("no such word")
    assert rows.count() == 0
    box.fill("")
    eye.page.locator("[data-all=decision-rows]").click()
    assert rows.count() == every.count()
    opened = eye.page.locator("#decision-rows tr:has(summary)").first
    opened.locator("summary").click()
    assert opened.locator("pre").is_visible()


def test_more_panels_are_shown_and_drawn_on_demand(look: Look, reports: dict[str, str]) -> None:
    eye = look()
    eye.open(reports[UNDER_WAY])
    every, visible = eye.page.locator("#curves .panel"), eye.page.locator("#curves .panel:visible")
    assert every.count() == len(TRIALS) + len(MORE)
    assert visible.count() == FIRST_PANELS
    eye.page.locator("#curves [data-more=all]").click()
    assert visible.count() == every.count()
    eye.see_all()
    assert eye.page.locator("#curves [data-drawn]").count() == every.count()
    assert every.last.locator(".plot .xtick").count() > 0


def test_the_buttons_change_axes(look: Look, reports: dict[str, str]) -> None:
    eye = look()
    eye.open(reports[FINISHED])
    eye.see_all()
    kind = "() => document.querySelector('#curves .plot')._fullLayout.xaxis.type"
    assert eye.page.evaluate(kind) == "log"
    eye.page.locator("[data-axis=linear]").click()
    assert eye.page.evaluate(kind) == "linear"
    assert eye.page.locator("[data-chart=timeline] .plot .bars path").count() > 0


def test_it_says_what_is_missing_where_there_is_no_point(look: Look, reports: dict[str, str]) -> None:
    eye = look()
    eye.open(reports[EMPTY])
    eye.see_all()
    for part in ("frontier", "curves", "heat", "decisions", "ranking"):
        assert eye.page.locator(f"#{part} .empty").is_visible(), part
    assert texts(eye, "#answer .sentence")


@pytest.mark.parametrize("kind", ["report", "dashboard"])
def test_a_script_in_a_name_is_text(look: Look, reports: dict[str, str], dashboard: str, kind: str) -> None:
    eye = look()
    eye.open(reports[HOSTILE] if kind == "report" else f"{dashboard}/sweeps/{HOSTILE}")
    title = eye.page.title()
    eye.see_all()
    for panel in eye.page.locator("#curves .panel .plot:has(.point)").all()[:2]:
        panel.hover()
    eye.page.mouse.move(*eye.measure("pointAt", "curve-n512-B32", STEPS))
    label = eye.page.locator('[data-chart="curve-n512-B32"] .hoverlayer .hovertext')
    label.wait_for()
    assert "<script>document.title" in (label.first.text_content() or "")
    assert EVIL.strip() in eye.page.locator("#decision-rows").text_content()
    assert eye.page.title() == title
    assert title.startswith(HOSTILE)
    assert eye.page.locator("img").count() == 0
    eye.picture(f"{kind}-hostile")


def test_on_paper_it_is_light_and_whole(look: Look, reports: dict[str, str]) -> None:
    eye = look(color_scheme="dark")
    eye.open(reports[FINISHED])
    eye.see_all()
    eye.page.evaluate("dispatchEvent(new Event('beforeprint'))")  # as the browser does
    eye.page.emulate_media(media="print", color_scheme="dark")
    assert eye.page.evaluate("getComputedStyle(document.querySelector('.tile dd')).color") == "rgb(27, 32, 39)"
    assert not eye.page.locator("nav").is_visible()
    assert eye.page.locator("button:not(th button):visible").count() == 0
    assert eye.page.locator("#ranking th", has_text="expected").is_visible()
    assert eye.measure("faint") == []
    eye.picture("report-print", whole=True)
    assert eye.page.pdf().startswith(b"%PDF")
