"""How plans, their sweeps and trials, and what trials report, are stored: alike on SQLite and PostgreSQL."""

import math
from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from budgets.errors import IllegalTransitionError, InputError, NotFoundError, StoreError
from planner.store import Store, results, sweeps
from planner.store.schema import Candidate, Plan, Point, Segment, SegmentOutcome, Sweep, SweepStatus, Transition, Trial
from planner.view import TrialState
from tests.planner.store import samples
from tests.planner.store.samples import NOON, at, count

# Plans


def test_plans_get_names_in_order_and_come_back_whole(store: Store) -> None:
    first = store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
    second = store.save_plan(samples.plan(recipe="dapo"), [], created_at=at(1))
    assert (first, second) == ("plan-1", "plan-2")
    assert store.plan().name == "plan-2"
    plan = store.plan("plan-1")
    assert plan.created_at == NOON
    assert plan.workload == {"model": "qwen3-8b", "response_tokens": 8192}
    assert plan.assumptions[0]["source"] == "measured"
    assert [(c.rank, c.rollouts_per_prompt, c.expected_score) for c in plan.candidates] == [(1, 8, 0.5), (2, 16, None)]
    assert plan.candidates[0].notes == ["a note"]


def test_candidates_of_one_cell_are_told_apart_by_their_axes(store: Store) -> None:
    easy, hard = (("recipe", "easy"),), (("recipe", "hard"), ("learning_rate", 0.3))
    rows = [
        samples.candidate(1, 8, 64, axes=easy, recipe="easy"),
        samples.candidate(2, 8, 64, axes=hard, recipe="hard"),
    ]
    store.save_plan(samples.plan(), rows, created_at=NOON)
    assert [(each.axes, each.recipe) for each in store.plan().candidates] == [(easy, "easy"), (hard, "hard")]
    with pytest.raises(IntegrityError, match="candidates"):
        store.save_plan(samples.plan(), [rows[0], samples.candidate(2, 8, 64, axes=easy)], created_at=NOON)
    shown = samples.look(store, results.ranked_allocations)
    assert [(row["recipe"], row["axes"]) for row in shown] == [
        ("easy", '{"recipe": "easy"}'),
        ("hard", '{"recipe": "hard", "learning_rate": 0.3}'),
    ]


def test_unknown_plans_are_named_with_what_there_is(store: Store) -> None:
    with pytest.raises(NotFoundError, match="rlplan propose --budget 5000"):
        store.plan()
    with pytest.raises(NotFoundError, match=r"'plan-7'.*rlplan propose --budget 5000"):
        store.plan("plan-7")
    for _ in range(2):
        store.save_plan(samples.plan(), [], created_at=NOON)
    with pytest.raises(NotFoundError, match="'plan-7'; there are: plan-1, plan-2"):
        store.plan("plan-7")
    for _ in range(4):
        store.save_plan(samples.plan(), [], created_at=NOON)
    with pytest.raises(NotFoundError, match="the newest are: plan-2, plan-3, plan-4, plan-5, plan-6"):
        store.plan("plan-7")


@pytest.mark.parametrize(
    "changes",
    [
        {"budget_gpu_hours": 0.0, "pilot_gpu_hours": 0.0, "final_gpu_hours": 0.0},
        {"pilot_gpu_hours": -1.0},
        {"final_gpu_hours": -1.0},
        {"final_gpu_hours": 4000.01},
    ],
)
def test_a_plan_that_breaks_its_budget_is_not_stored(store: Store, changes: dict[str, float]) -> None:
    with pytest.raises(IntegrityError, match="ck_plans_"):
        store.save_plan(samples.plan(**changes), samples.candidates(), created_at=NOON)
    assert count(store, Plan) == count(store, Candidate) == 0
    store.save_plan(samples.plan(final_gpu_hours=4000.0 * (1 + 1e-12)), [], created_at=NOON)  # rounding does not


def test_times_are_utc_and_aware(store: Store) -> None:
    tokyo = datetime(2026, 3, 1, 9, 30, 1, 250, tzinfo=timezone(timedelta(hours=9)))
    store.save_plan(samples.plan(), [], created_at=tokyo)
    stored = store.plan().created_at
    assert stored == tokyo
    assert stored.utcoffset() == timedelta(0)
    with pytest.raises(InputError, match="no time zone"):
        store.save_plan(samples.plan(), [], created_at=datetime(2026, 3, 1))


def test_numbers_that_are_not_finite_become_null_in_json(store: Store) -> None:
    config = {"loss": math.nan, "deep": [math.inf, (1.5, "x")]}
    store.save_plan(samples.plan(config=config), [], created_at=NOON)
    assert store.plan().config == {"loss": None, "deep": [None, [1.5, "x"]]}


# Sweeps and trials


def test_a_sweep_belongs_to_its_plan(store: Store) -> None:
    store.save_plan(samples.plan(), [], created_at=NOON)
    store.save_plan(samples.plan(), [], created_at=NOON)
    assert samples.put(store, sweeps.create_sweep, "plan-1", samples.sweep(), NOON) == "sweep-1"
    assert samples.put(store, sweeps.create_sweep, None, samples.sweep(), NOON) == "sweep-2"
    with store.read() as session:
        rows = session.execute(select(Sweep.name, Plan.name, Sweep.status, Sweep.seed).join(Plan).order_by(Sweep.id))
        assert [tuple(row) for row in rows] == [
            ("sweep-1", "plan-1", SweepStatus.CREATED, 2**40),
            ("sweep-2", "plan-2", SweepStatus.CREATED, 2**40),
        ]
    with pytest.raises(NotFoundError, match="plan-9"):
        samples.put(store, sweeps.create_sweep, "plan-9", samples.sweep(), NOON)


def test_unknown_sweeps_are_named(store: Store) -> None:
    with pytest.raises(NotFoundError, match=r"'sweep-1'.*rlplan sweep"):
        samples.look(store, results.ranked_allocations, sweep="sweep-1")
    samples.started_sweep(store)
    with pytest.raises(NotFoundError, match="'sweep-4'; there are: sweep-1"):
        samples.put(store, sweeps.add_trial, "sweep-4", samples.trial(), NOON)


def test_a_trial_planned_again_is_the_same_trial(store: Store) -> None:
    sweep = samples.started_sweep(store)
    first = samples.put(store, sweeps.add_trial, sweep, samples.trial(), NOON)
    samples.put(store, sweeps.move_trial, first, TrialState.RUNNING, at(1), "started")
    assert samples.put(store, sweeps.add_trial, sweep, samples.trial(name="another name"), at(2)) == first
    assert samples.put(store, sweeps.add_trial, sweep, samples.trial(seed=2), at(2)) != first
    others = [(("model", "a"),), (("model", "b"),)]
    made = {samples.put(store, sweeps.add_trial, sweep, samples.trial(axes=axes), at(2)) for axes in others}
    assert len(made - {first}) == 2
    with store.read() as session:
        trial = session.get_one(Trial, first)
        assert (trial.state, trial.attempt, trial.gpu_hours_spent) == (TrialState.RUNNING, 1, 0.0)
        assert (trial.created_at, trial.updated_at) == (NOON, at(1))
    assert count(store, Trial) == 4


def test_every_move_is_a_row(store: Store) -> None:
    trial_id = samples.started_trial(store)
    samples.put(store, sweeps.move_trial, trial_id, TrialState.RUNNING, at(1), "started on w1")
    samples.put(store, sweeps.move_trial, trial_id, TrialState.FAILED, at(2), "out of memory", "oom", "CUDA …")
    with store.read() as session:
        failed = session.get_one(Trial, trial_id)
        assert (failed.failure_class, failed.failure_tail, failed.attempt) == ("oom", "CUDA …", 1)
    samples.put(store, sweeps.move_trial, trial_id, TrialState.PLANNED, at(3), "retry")
    with store.read() as session:
        moves = session.scalars(select(Transition).order_by(Transition.id)).all()
        assert [(m.from_state, m.to_state, m.at, m.reason) for m in moves] == [
            (None, "planned", NOON, "planned"),
            ("planned", "running", at(1), "started on w1"),
            ("running", "failed", at(2), "out of memory"),
            ("failed", "planned", at(3), "retry"),
        ]
        again = session.get_one(Trial, trial_id)
        assert (again.failure_class, again.failure_tail, again.attempt) == (None, None, 2)


def test_an_illegal_move_leaves_no_trace(store: Store) -> None:
    trial_id = samples.started_trial(store)
    with pytest.raises(IllegalTransitionError, match="planned trial cannot become finished"):
        samples.put(store, sweeps.move_trial, trial_id, TrialState.FINISHED, at(1), "no")
    with store.read() as session:
        trial = session.get_one(Trial, trial_id)
        assert (trial.state, trial.updated_at) == (TrialState.PLANNED, NOON)
    assert count(store, Transition) == 1
    with pytest.raises(NotFoundError, match="no trial with id 99"):
        samples.put(store, sweeps.move_trial, 99, TrialState.RUNNING, at(1), "no")


# Segments and points


def test_settling_charges_the_trial_once(store: Store) -> None:
    trial_id = samples.started_trial(store)
    first = samples.put(store, results.open_segment, trial_id, samples.segment(1), NOON)
    second = samples.put(store, results.open_segment, trial_id, samples.segment(2), at(1))
    for _ in range(2):
        samples.put(store, results.settle_segment, first, SegmentOutcome.COMMITTED, 4.5, at(1), checkpoint_path="/c/1")
    samples.put(store, results.settle_segment, second, SegmentOutcome.LOST, 1.25, at(2))
    with store.read() as session:
        trial = session.get_one(Trial, trial_id)
        assert (trial.gpu_hours_spent, trial.checkpoint_path, trial.updated_at) == (5.75, "/c/1", at(2))
        row = session.get_one(Segment, first)
        assert (row.outcome, row.charged_gpu_hours, row.reserved_gpu_hours) == (SegmentOutcome.COMMITTED, 4.5, 5.0)
        assert (row.started_at, row.ended_at, row.attempt, row.worker) == (NOON, at(1), 1, "w1")


def test_what_cannot_be_settled_and_settling_differently_again(store: Store) -> None:
    trial_id = samples.started_trial(store)
    segment = samples.put(store, results.open_segment, trial_id, samples.segment(), NOON)
    with pytest.raises(InputError, match="committed, failed, lost, released"):
        samples.put(store, results.settle_segment, segment, SegmentOutcome.RESERVED, 1.0, at(1))
    for charge in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="GPU-hours; give a number from 0 up"):
            samples.put(store, results.settle_segment, segment, SegmentOutcome.COMMITTED, charge, at(1))
    with pytest.raises(NotFoundError, match="no segment with id 77"):
        samples.put(store, results.settle_segment, 77, SegmentOutcome.COMMITTED, 1.0, at(1))
    with pytest.raises(NotFoundError, match="no trial with id 99"):
        samples.put(store, results.open_segment, 99, samples.segment(), NOON)
    samples.put(store, results.settle_segment, segment, SegmentOutcome.COMMITTED, 4.5, at(1))
    for outcome, charge in ((SegmentOutcome.COMMITTED, 4.6), (SegmentOutcome.LOST, 4.5)):
        with pytest.raises(StoreError, match=r"settled already \(committed, 4.5 GPU-hours\)"):
            samples.put(store, results.settle_segment, segment, outcome, charge, at(2))
    with store.read() as session:
        assert session.get_one(Trial, trial_id).gpu_hours_spent == 4.5


def test_one_segment_number_per_attempt(store: Store) -> None:
    trial_id = samples.started_trial(store)
    samples.put(store, results.open_segment, trial_id, samples.segment(1), NOON)
    with pytest.raises(IntegrityError):
        samples.put(store, results.open_segment, trial_id, samples.segment(1), NOON)
    for state in (TrialState.RUNNING, TrialState.LOST, TrialState.PLANNED):
        samples.put(store, sweeps.move_trial, trial_id, state, at(1), "…")
    samples.put(store, results.open_segment, trial_id, samples.segment(1), at(2))
    with store.read() as session:
        assert session.scalars(select(Segment.attempt).order_by(Segment.id)).all() == [1, 2]


def test_points_come_back_by_step_and_attempt(store: Store) -> None:
    trial_id = samples.started_trial(store)
    other = samples.put(store, sweeps.add_trial, "sweep-1", samples.trial(seed=2), NOON)
    segment = samples.put(store, results.open_segment, trial_id, samples.segment(), NOON)
    rows = [samples.point(trial_id, step, score=step / 100) for step in (30, 10, 20)]
    rows.append(samples.point(trial_id, 20, attempt=2, score=0.9, segment_id=segment, metrics={"kl": math.nan}))
    rows.append(samples.point(other, 20, attempt=3))
    assert samples.put(store, results.add_points, rows) == 5
    points = samples.points(store, trial_id)
    assert [(each.optimizer_step, each.attempt) for each in points] == [(10, 1), (20, 1), (20, 2), (30, 1)]
    assert (points[2].metrics, points[2].segment_id) == ({"kl": None}, segment)
    assert (points[0].metrics, points[0].segment_id, points[0].tokens) == (None, None, 10 * 2**32)


def test_a_resent_point_is_stored_once_and_the_first_stays(store: Store) -> None:
    trial_id = samples.started_trial(store)
    assert samples.put(store, results.add_points, [samples.point(trial_id, 10, score=0.25)]) == 1
    resent = [samples.point(trial_id, 10, score=0.75), samples.point(trial_id, 20), samples.point(trial_id, 20)]
    assert samples.put(store, results.add_points, resent) == 1
    assert [(p.optimizer_step, p.score) for p in samples.points(store, trial_id)] == [(10, 0.25), (20, 0.5)]
    assert samples.put(store, results.add_points, []) == 0


def test_scores_come_back_as_they_were_and_what_is_no_number_is_absent(store: Store) -> None:
    trial_id = samples.started_trial(store)
    further = {"best@4": (0.75, 0.02), "worst@4": (math.nan, 0.1)}
    none = samples.point(trial_id, 1, score=math.nan, score_standard_error=math.inf)
    samples.put(store, results.add_points, [none, samples.point(trial_id, 2, further_scores=further)])
    one, other = samples.points(store, trial_id)
    assert (one.score, one.score_standard_error, one.further_scores) == (None, None, None)
    assert other.further_scores == {"best@4": [0.75, 0.02], "worst@4": [None, 0.1]}


def test_points_of_an_unknown_trial_are_refused_all_together(store: Store) -> None:
    trial_id = samples.started_trial(store)
    with pytest.raises(IntegrityError):
        samples.put(store, results.add_points, [samples.point(trial_id, 1), samples.point(99, 1)])
    assert count(store, Point) == 0


def test_many_points_at_once(store: Store) -> None:
    trial_id = samples.started_trial(store)
    rows = [samples.point(trial_id, step) for step in range(5000)]
    assert samples.put(store, results.add_points, rows) == 5000
    assert samples.put(store, results.add_points, rows) == 0
    assert len(samples.points(store, trial_id)) == 5000
