"""Random walks of a trial: the rows must tell exactly the legal moves, whatever was tried."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from budgets.errors import IllegalTransitionError
from planner.store import Store, open_store, sweeps
from planner.store.schema import Transition, Trial
from planner.view import MOVES, TrialState
from tests.planner.store import samples
from tests.planner.store.samples import at


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(Path(tmp_path_factory.mktemp("walks")) / "rlplan.db") as opened:
        samples.started_sweep(opened)
        yield opened


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**40), wanted=st.lists(st.sampled_from(TrialState), max_size=12))
def test_a_walk_leaves_one_row_for_each_legal_move(store: Store, seed: int, wanted: list[TrialState]) -> None:
    with store.read() as session:
        taken = session.scalar(select(Trial.id).order_by(Trial.id.desc()).limit(1)) or 0
    trial_id = samples.put(store, sweeps.add_trial, "sweep-1", samples.trial(seed=taken + 1, name=str(seed)), at(0))
    state, expected, attempt = TrialState.PLANNED, [(None, TrialState.PLANNED)], 1
    for minute, new in enumerate(wanted, start=1):
        if new in MOVES[state]:
            samples.put(store, sweeps.move_trial, trial_id, new, at(minute), "a step")
            attempt += state in (TrialState.FAILED, TrialState.LOST)
            expected.append((state, new))
            state = new
        else:
            with pytest.raises(IllegalTransitionError):
                samples.put(store, sweeps.move_trial, trial_id, new, at(minute), "a step")
    with store.read() as session:
        rows = session.execute(
            select(Transition.from_state, Transition.to_state)
            .where(Transition.trial_id == trial_id)
            .order_by(Transition.id)
        )
        assert [tuple(row) for row in rows] == expected
        trial = session.get_one(Trial, trial_id)
        assert (trial.state, trial.attempt) == (state, attempt)
