"""`rlplan rank`: what is stored, what is believed now, what a plan proposes; sorted, filtered, at any width."""

import re
from pathlib import Path

import pytest
from sqlalchemy import delete

from planner.store import open_store
from planner.store.results import RankedRow
from planner.store.schema import Recommendation, SweepStatus
from planner.view import Axes, TrialState
from rlplan.commands.rank import chosen_rows
from rlplan.reading.recommendation import recommended
from rlplan.requests.results import RankRequest
from tests.planner.store import samples
from tests.planner.store.samples import NOON
from tests.rlplan.conftest import Run
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.sweep_rows import seeded


@pytest.fixture
def finished(tmp_path: Path) -> str:
    """A sweep that has ended, and a later plan that no sweep has run."""
    with open_store(path := ended(tmp_path / "rlplan.db")) as store:
        store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
    return str(path)


def ranked(rank: int, n: int, score: float | None, status: str = "paused", axes: Axes = ()) -> RankedRow:
    figures = {"expected_score": score, "probability_best": score, "gpu_hours_spent": float(n)}
    return samples.ranking(rank, n, status=status, axes=axes, **figures)


ROWS = (
    ranked(1, 16, 0.8, axes=(("recipe", "dapo"), ("learning_rate", 0.5))),
    ranked(2, 64, 0.6, "running", axes=(("recipe", "easy"), ("learning_rate", 1.0))),
    ranked(3, 8, None, "failed", axes=(("recipe", "easy"), ("learning_rate", 0.5))),
)


def test_a_ranking_has_several_names(run: Run, finished: str) -> None:
    assert run.json("rank") == run.json("rank", "plan-1") == run.json("rank", "--sweep", "sweep-1")
    sizes = [int(row["rollouts_per_prompt"]) for row in run("rank", "--sort", "n", "--format", "csv").rows]
    assert len(sizes) > 1
    assert sizes == sorted(sizes)


def test_a_sweep_that_has_stored_no_answer_is_ranked_by_what_is_believed_now(run: Run, finished: str) -> None:
    with open_store(finished) as store, store.write() as session:
        session.execute(delete(Recommendation))
    found = run.json("rank")
    answer = recommended(finished, None).answer
    assert (found["source"], found["made_at"], found["note"]) == ("now", None, None)
    assert [(row["rollouts_per_prompt"], row["prompts_per_batch"]) for row in found["ranking"]] == [
        *((each.rollouts_per_prompt, each.prompts_per_batch) for each in answer.ranked),
        *((each.rollouts_per_prompt, each.prompts_per_batch) for each in answer.left_out),
    ]
    assert "as they look now" in run("rank").out
    assert run.json("rank", "--stored")["source"] == "proposed"


def test_where_nothing_can_be_said_now_the_rows_are_shown_with_the_reason(run: Run, tmp_path: Path) -> None:
    seeder = seeded(tmp_path / "rlplan.db")  # its settings are none of a sweep
    seeder.end(SweepStatus.FINISHED)
    seeder.move(1, TrialState.PAUSED)
    seeder.store.close()
    ran = run("rank", "--format", "json")
    assert (ran.code, ran.json["source"]) == (0, "proposed")
    assert "this is what is stored: the settings of sweep-1" in ran.err
    ran = run("recommend")
    assert (ran.code, "the settings of sweep-1 are none that this version of rlplan can read" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("request_", "ranks"),
    [
        (RankRequest(), [1, 2, 3]),
        (RankRequest(reverse=True), [3, 2, 1]),
        (RankRequest(sort="score"), [1, 2, 3]),
        (RankRequest(sort="score", reverse=True), [2, 1, 3]),  # what has no score stays last
        (RankRequest(sort="n"), [3, 1, 2]),
        (RankRequest(sort="spent"), [2, 1, 3]),
        (RankRequest(status="running,Failed"), [2, 3]),
        (RankRequest(where="n=16"), [1]),
        (RankRequest(where="recipe=dapo"), []),  # the recipe that a run has, not the axis of that name
        (RankRequest(where="axis_recipe=dapo"), [1]),
        (RankRequest(sort="p-best"), [1, 2, 3]),
        (RankRequest(where="axis_learning_rate=0.5, n=8"), [3]),
        (RankRequest(where="n=8,n=64"), [2, 3]),
        (RankRequest(where="learning_rate=1e-6"), [1, 2, 3]),
    ],
)
def test_rows_are_chosen_and_sorted(request_: RankRequest, ranks: list[int]) -> None:
    assert [row.rank for row in chosen_rows(ROWS, request_)] == ranks


def test_the_table_says_how_many_rows_are_asked_for(run: Run, finished: str) -> None:
    assert "more" not in run("rank", "--top", "30").out
    shown = run("rank", "--status", "paused", "--top", "2").out
    assert re.search(r"\d+ of 30 allocations are what --status and --where ask for", shown)
    assert "None of 30 allocations" in run("rank", "--status", "lost").out
