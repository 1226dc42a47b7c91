"""How results are stored and shown in the view of ranked allocations: alike on SQLite and PostgreSQL."""

import pytest
from sqlalchemy import select, text

from budgets.errors import NotFoundError
from planner.store import Store, results, sweeps
from planner.store.results import RankedRow
from planner.store.schema import Decision, Ranking, Recommendation, SegmentOutcome
from planner.view import TrialState
from tests.planner.store import samples
from tests.planner.store.samples import NOON, at

# Results


def recommended(store: Store, *rankings: RankedRow) -> int:
    return samples.put(store, results.save_recommendation, "sweep-1", samples.recommendation(), rankings)


def test_decisions_are_numbered_within_their_sweep(store: Store) -> None:
    trial_id = samples.started_trial(store)
    second = samples.put(store, sweeps.create_sweep, None, samples.sweep(), NOON)
    assert samples.decide(store, trial_id=trial_id) == 1
    assert samples.decide(store, action="continue") == 2
    assert samples.decide(store, second) == 1
    with store.read() as session:
        first = session.scalars(select(Decision).order_by(Decision.id)).first()
        assert first is not None
        assert (first.action, first.trial_id, first.seen, first.alternatives) == (
            "prune",
            trial_id,
            {"p": 0.01},
            ["continue"],
        )


def test_a_recommendation_keeps_the_list_it_rests_on(store: Store) -> None:
    samples.started_sweep(store)
    unknown = samples.ranking(2, 8, expected_score=None, probability_best=None)
    made = recommended(store, samples.ranking(1, 16), unknown)
    with store.read() as session:
        row = session.get_one(Recommendation, made)
        assert (row.probability_best, row.details) == (0.9, {"equivalent": []})
        stored = session.execute(select(Ranking.rank, Ranking.rollouts_per_prompt).order_by(Ranking.rank))
        assert [tuple(each) for each in stored] == [(1, 16), (2, 8)]


def test_cost_records_are_found_by_gpu_and_model(store: Store) -> None:
    samples.put(store, sweeps.add_cost_records, [])
    tiny = samples.cost_record(model="tiny", minutes=3)
    rows = [samples.cost_record("h200", minutes=2), samples.cost_record(minutes=1), tiny]
    samples.put(store, sweeps.add_cost_records, rows)
    stored = [(each.gpu, each.model) for each in store.cost_records()]
    assert stored == [("h100", "qwen3-8b"), ("h200", "qwen3-8b"), ("h100", "tiny")]
    (record,) = store.cost_records(gpu="h100", model="qwen3-8b")
    assert (record.seconds, record.at, record.colocated) == ({"rollout": 30.0, "train": 10.0}, at(1), True)
    assert len(store.cost_records(model="qwen3-8b")) == 2


# The view


def test_a_plan_that_never_ran_shows_its_candidates(store: Store) -> None:
    assert samples.look(store, results.ranked_allocations) == []
    store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
    first, second = samples.look(store, results.ranked_allocations, plan="plan-1")
    shown = {
        "sweep": None,
        "rank": 1,
        "rollouts_per_prompt": 8,
        "prompts_per_batch": 64,
        "update_steps": 400,
        "learning_rate": 1e-6,
        "recipe": "grpo",
        "expected_score": 0.5,
        "score_low": 0.4,
        "score_high": 0.6,
        "probability_best": None,
        "gpu_hours_spent": 0.0,
        "gpu_hours_to_target": 4000.0,
        "status": "proposed",
        "plan": "plan-1",
        "axes": "{}",
    }
    assert first == shown
    with store.read() as session:
        assert list(session.execute(text("SELECT * FROM ranked_allocations")).keys()) == list(shown)
    assert (second["rank"], second["rollouts_per_prompt"], second["expected_score"]) == (2, 16, None)


def test_a_sweep_without_a_recommendation_shows_what_was_spent_and_how_far_it_is(store: Store) -> None:
    sweep = samples.started_sweep(store)
    for seed, state in ((1, TrialState.PRUNED), (2, TrialState.RUNNING)):
        trial_id = samples.put(store, sweeps.add_trial, sweep, samples.trial(8, 64, seed), NOON)
        samples.put(store, sweeps.move_trial, trial_id, TrialState.RUNNING, NOON, "started")
        segment = samples.put(store, results.open_segment, trial_id, samples.segment(), NOON)
        samples.put(store, results.settle_segment, segment, SegmentOutcome.COMMITTED, 2.5, at(1))
        if state is TrialState.PRUNED:
            samples.put(store, sweeps.move_trial, trial_id, state, at(1), "cannot win")
    rows = samples.look(store, results.ranked_allocations, sweep=sweep)
    assert [(r["rollouts_per_prompt"], r["gpu_hours_spent"], r["status"]) for r in rows] == [
        (8, 5.0, "running"),
        (16, 0.0, "proposed"),
    ]


def test_the_view_shows_each_state(store: Store) -> None:
    samples.started_trial(store)
    for state in TrialState:
        with store.write() as session:
            session.execute(text("UPDATE trials SET state = :state"), {"state": state.value})
        assert samples.look(store, results.ranked_allocations)[0]["status"] == state


def test_the_latest_recommendation_is_what_the_view_shows(store: Store) -> None:
    sweep = samples.started_sweep(store)
    recommended(store, samples.ranking(1, 8))
    recommended(store, samples.ranking(2, 8), samples.ranking(1, 16))
    rows = samples.look(store, results.ranked_allocations, sweep=sweep)
    assert [(r["rank"], r["rollouts_per_prompt"], r["probability_best"]) for r in rows] == [(1, 16, 0.9), (2, 8, 0.9)]
    assert rows[0]["gpu_hours_to_target"] == 3900.0


def test_the_newest_comes_first_then_by_rank(store: Store) -> None:
    samples.started_sweep(store)
    samples.put(store, sweeps.create_sweep, "plan-1", samples.sweep(), NOON)
    recommended(store, samples.ranking(1, 8), samples.ranking(2, 16))
    store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
    expected = [
        ("plan-2", None, 1),
        ("plan-2", None, 2),
        ("plan-1", "sweep-2", 1),
        ("plan-1", "sweep-2", 2),
        ("plan-1", "sweep-1", 1),
        ("plan-1", "sweep-1", 2),
    ]
    assert [(r["plan"], r["sweep"], r["rank"]) for r in samples.look(store, results.ranked_allocations)] == expected
    with store.read() as session:
        plain = session.execute(text("SELECT plan, sweep, rank FROM ranked_allocations"))
        assert [tuple(row) for row in plain] == expected
    with pytest.raises(NotFoundError):
        samples.look(store, results.ranked_allocations, plan="plan-3")
