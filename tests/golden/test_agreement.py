"""One thing has one number on every page of a sweep: its recorded answers are compared with each other."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rlplan.wording.numbers import aligned_hours, interval

OUTPUTS = Path(__file__).parent / "outputs"
SWEEPS = ("finished", "failed", "final")
SCORES = ("expected_score", "score_low", "score_high", "probability_best")
SIZES = ("rollouts_per_prompt", "prompts_per_batch")


def recorded(sweep: str, command: str) -> str:
    """Return all that a command has answered of a sweep."""
    return (OUTPUTS / sweep / f"{command}.txt").read_text("utf-8")


def document(sweep: str, command: str) -> Any:
    """Return its JSON."""
    answer = re.search(r"^\$ rlplan .*--format json\nexit \d\n", recorded(sweep, command), re.M)
    assert answer is not None
    return json.JSONDecoder().raw_decode(recorded(sweep, command)[answer.end() :])[0]


def the(row: dict[str, Any], *names: str) -> list[Any]:
    """Return some values of a row."""
    return [row[name] for name in names]


@pytest.mark.parametrize("sweep", SWEEPS)
def test_money_scores_and_decisions_of_a_sweep_are_the_same_on_every_page(sweep: str) -> None:
    status, ranked, decisions = (document(sweep, command) for command in ("status", "rank", "decisions"))
    answer, spent = document(sweep, "recommend"), status["budget"]["spent_gpu_hours"]
    assert the(answer, "spent_gpu_hours", "pilot_gpu_hours") == the(
        status["budget"], "spent_gpu_hours", "pilot_gpu_hours"
    )
    assert len(decisions["decisions"]) == status["decisions"]
    rows = {tuple(the(row, *SIZES)): row for row in ranked["ranking"]}
    for size, row in rows.items():
        trials = [trial for trial in status["trials"] if tuple(the(trial, *SIZES)) == size]
        assert row["gpu_hours_spent"] == pytest.approx(sum(trial["gpu_hours_spent"] for trial in trials), rel=1e-4)
        for trial in trials:
            assert trial["expected_score"] is None or the(trial, *SCORES) == the(row, *SCORES)
    assert sum(trial["gpu_hours_spent"] for trial in status["trials"]) <= spent * (1 + 1e-5)
    assert f"{aligned_hours(spent)} spent" in recorded(sweep, "status")


@pytest.mark.parametrize("sweep", SWEEPS)
def test_what_is_recommended_is_first_in_the_ranking_and_what_is_printed_and_launched(sweep: str) -> None:
    answer = document(sweep, "recommend")
    best, first = answer["recommendation"], document(sweep, "rank")["ranking"][0]
    what = (*SIZES, "update_steps", "learning_rate", "recipe", *SCORES, "gpu_hours_spent")
    assert the(best, *what) == the(first, *what)
    assert best["gpu_hours"] == first["gpu_hours_to_target"] <= answer["target_gpu_hours"]
    assert the(document(sweep, "launch-verl")["row"], *what) == the(first, *what)
    stored = document(sweep, "status")["recommendation"]
    if stored is not None:
        assert the(stored, *what[:-1]) == the(first, *what[:-1])
    promised = interval(*the(best, "expected_score", "score_low", "score_high"))
    for command in ("recommend", "status") if stored is not None else ("recommend",):
        assert f"Expected score {promised}" in " ".join(recorded(sweep, command).split())


@pytest.mark.parametrize("sweep", ["finished", "failed"])
def test_a_final_run_is_what_was_recommended_on_the_money_that_is_left(sweep: str) -> None:
    run, answer = document(sweep, "launch-dry-run"), document(sweep, "recommend")
    assert the(run, *SIZES, "learning_rate") == the(answer["recommendation"], *SIZES, "learning_rate")
    assert run["budget_gpu_hours"] == answer["target_gpu_hours"] >= run["gpu_hours"]
