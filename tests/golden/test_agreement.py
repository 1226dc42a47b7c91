"""One thing has one number on every page of a sweep: what is typed, its documents and its report are compared."""

import html
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlplan.actions.sweeping import start
from rlplan.cli import app
from rlplan.wording.numbers import aligned_hours, hours, interval
from tests.golden.databases import DATABASES, make_database
from tests.rlplan.test_sweeping import request

SCORES = ("expected_score", "score_low", "score_high", "probability_best")
SIZES = ("rollouts_per_prompt", "prompts_per_batch")


def swept(**changes: Any) -> Callable[[Path], None]:
    """Return what runs a sweep in a folder."""
    return lambda folder: start(request(**{"budget": 0.3, "db": str(folder / "rlplan.db"), **changes}))


SWEEPS: dict[str, Callable[[Path], None]] = {
    **{name: DATABASES[name] for name in ("finished", "failed", "final")},
    "asha": swept(policy="asha", seed=3),
    "share": swept(policy="rlplan", pilot_fraction=0.4),
    "hard": swept(policy="rlplan", task="sum-hard", budget=1.0, seed=2),
    "recipes": swept(policy="rlplan", recipes="grpo,dapo"),
}
SAID = ("finished", "failed", "asha", "share", "hard", "recipes")  # no final run is launched yet


class Pages:
    """What is said of a sweep, each command asked once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.text = cache(self._answered)

    def _answered(self, *words: str) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self._folder)
            result = CliRunner().invoke(app, [*words], catch_exceptions=False)
        assert result.exit_code in (0, 5), result.output
        return result.stdout

    def document(self, *words: str) -> Any:
        """Return an answer's JSON."""
        return json.loads(self.text(*words, "--format", "json"))

    def report(self) -> str:
        """Return the words of the report, its tiles and cells apart."""
        self.text("report", "report.html")
        page = re.sub(r"(?s)<(script|style|svg).*?</\1>", "", (self._folder / "report.html").read_text("utf-8"))
        return re.sub(r"[\s|]*\|[\s|]*", "|", html.unescape(re.sub(r"<[^>]+>", "|", page)))


@pytest.fixture(scope="module")
def pages_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pages]:
    """Return what gives the pages of a sweep, which is run once."""

    @cache
    def made(name: str) -> Pages:
        folder = tmp_path_factory.mktemp(name)
        make_database(folder, name, SWEEPS)
        return Pages(folder)

    return made


@pytest.fixture(params=SWEEPS)
def pages(request: pytest.FixtureRequest, pages_of: Callable[[str], Pages]) -> Pages:
    """The pages of each sweep."""
    return pages_of(request.param)


def the(row: dict[str, Any], *names: str) -> list[Any]:
    """Return some values of a row."""
    return [row[name] for name in names]


def test_money_scores_and_decisions_of_a_sweep_are_the_same_on_every_page(pages: Pages) -> None:
    answer = pages.document("recommend")
    status, ranked, decisions = (pages.document(name, answer["sweep"]) for name in ("status", "rank", "decisions"))
    spent = status["budget"]["spent_gpu_hours"]
    money = ("spent_gpu_hours", "pilot_gpu_hours")
    assert the(answer, *money) == the(status["budget"], *money)
    assert len(decisions["decisions"]) == status["decisions"]
    rows = {(*the(row, *SIZES), str(row.get("axes") or {})): row for row in ranked["ranking"]}
    for size, row in rows.items():
        trials = [trial for trial in status["trials"] if (*the(trial, *SIZES), str(trial.get("axes") or {})) == size]
        assert row["gpu_hours_spent"] == pytest.approx(sum(trial["gpu_hours_spent"] for trial in trials), rel=1e-4)
        for trial in trials:
            assert trial["expected_score"] is None or the(trial, *SCORES) == the(row, *SCORES)
    assert sum(trial["gpu_hours_spent"] for trial in status["trials"]) <= spent * (1 + 1e-5)
    assert f"{aligned_hours(spent)} spent" in pages.text("status", status["sweep"])


def test_what_is_recommended_is_first_in_the_ranking_and_what_is_printed_and_launched(pages: Pages) -> None:
    answer = pages.document("recommend")
    best, first = answer["recommendation"], pages.document("rank")["ranking"][0]
    what = (*SIZES, "update_steps", "learning_rate", "recipe", *SCORES, "gpu_hours_spent")
    assert the(best, *what) == the(first, *what)
    assert best["gpu_hours"] == first["gpu_hours_to_target"] <= answer["target_gpu_hours"]
    assert the(pages.document("launch", "--print", "verl")["row"], *what) == the(first, *what)
    stored = pages.document("status", answer["sweep"])["recommendation"]
    assert the(stored, *what[:-1]) == the(first, *what[:-1])
    promised = interval(*the(best, "expected_score", "score_low", "score_high"))
    for command in ("recommend", "status"):
        assert f"Expected score {promised}" in " ".join(pages.text(command, answer["sweep"]).split())


@pytest.mark.parametrize("name", SAID)
def test_a_final_run_is_what_was_recommended_on_the_money_that_is_left(
    name: str, pages_of: Callable[[str], Pages]
) -> None:
    pages = pages_of(name)
    run, answer = pages.document("launch", "--dry-run"), pages.document("recommend")
    best, promised = answer["recommendation"], run["promised"]
    what = (*SIZES, "learning_rate", "update_steps", "gpu_hours")
    assert the(run, *what) == the(best, *what)
    assert the(promised, "score", "low", "high") == the(best, "expected_score", "score_low", "score_high")
    assert run["budget_gpu_hours"] == pytest.approx(answer["target_gpu_hours"], rel=1e-9)
    assert run["gpu_hours"] <= answer["target_gpu_hours"]


def test_a_report_says_what_the_commands_say(pages: Pages) -> None:
    said, answer = pages.report(), pages.document("recommend")
    status, best = pages.document("status", answer["sweep"]), answer["recommendation"]
    scores, steps = [f"{best[name]:.3f}" for name in SCORES[:3]], f"{best['update_steps']:,}"
    assert f"for {steps} steps" in said
    assert f"{scores[0]} ({scores[1]}–{scores[2]}) after {best['gpu_hours']:.3g} GPU-hours" in said
    assert f"|{scores[0]}|{scores[1]} to {scores[2]}|" in said
    left = f"of the {hours(answer['target_gpu_hours'])} GPU-hours left"
    assert f"|final run|{hours(best['gpu_hours'])}|{left}|" in said
    assert f"spent {aligned_hours(status['budget']['spent_gpu_hours'])}" in said
    assert f"|decisions|{status['decisions']:,}|" in said
    for row in pages.document("rank")["ranking"]:
        if row["expected_score"] is not None:
            assert f"|{row['expected_score']:.3f}|{row['score_low']:.3f} to {row['score_high']:.3f}|" in said
            assert f"|{row['update_steps']:,}|" in said
