"""Measured costs are known by where they came from, and can be taken back, on every database."""

import pytest

from budgets.errors import InputError, NotFoundError
from planner.store import Store
from planner.store.costs import counted_costs, forget_costs, replace_costs, sources, sweeps_of
from planner.store.sweeps import add_cost_records
from tests.planner.store import samples


@pytest.fixture
def trial(store: Store) -> int:
    """Two records of a/verl.log, one each of b/verl.log and c/other, two of a trial, one of nobody knows."""
    own = samples.started_trial(store)
    of_runs = [
        samples.cost_record(source=f"/runs/{name}") for name in ("a/verl.log", "a/verl.log", "b/verl.log", "c/other")
    ]
    adopted = [samples.cost_record(source="/runs/a/verl.log", trial_id=own)]  # a run that became a trial too
    samples.put(store, add_cost_records, [*of_runs[:1], *adopted, *of_runs[2:]])
    samples.put(store, add_cost_records, [samples.cost_record(trial_id=own)] * 2)
    samples.put(store, add_cost_records, [samples.cost_record()])
    return own


def left(store: Store) -> list[tuple[str | None, int | None]]:
    return [(record.source, record.trial_id) for record in store.cost_records()]


def test_costs_are_told_by_where_they_came_from(store: Store, trial: int) -> None:
    found = samples.look(store, sources)
    assert found == {"/runs/a/verl.log": 2, "/runs/b/verl.log": 1, "/runs/c/other": 1, "sweep-1": 2}
    assert samples.look(store, sweeps_of, [None, trial, None]) == {trial: "sweep-1"}
    assert samples.look(store, sweeps_of, [None]) == {}


@pytest.mark.parametrize(
    ("run", "name", "records"),
    [
        ("/runs/a/verl.log", "/runs/a/verl.log", 2),
        ("other", "/runs/c/other", 1),
        ("elsewhere/other/", "/runs/c/other", 1),
        ("sweep-1", "sweep-1", 2),
    ],
)
def test_one_of_them_is_forgotten(store: Store, trial: int, run: str, name: str, records: int) -> None:
    before = left(store)
    assert samples.put(store, forget_costs, run) == (name, records)
    assert len(left(store)) == len(before) - records
    assert name not in samples.look(store, sources)
    assert (None, None) in left(store)  # of nobody knows


def test_what_is_not_there_names_what_is(store: Store) -> None:
    with pytest.raises(NotFoundError, match="nothing was measured of 'mine', or of any other run: rlplan adopt RUN"):
        samples.put(store, forget_costs, "mine")


@pytest.mark.usefixtures("trial")
def test_a_name_of_several_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match=r"'verl.log' may be /runs/a/verl.log or /runs/b/verl.log: give"):
        samples.put(store, forget_costs, "verl.log")
    with pytest.raises(NotFoundError, match=r"'nobody'; measured are /runs/a/verl.log, /runs/b/verl.log, /runs/c/o"):
        samples.put(store, forget_costs, "nobody")


@pytest.mark.usefixtures("trial")
def test_a_run_that_is_adopted_again_replaces_its_costs(store: Store) -> None:
    samples.put(store, replace_costs, "/runs/a/verl.log")
    assert "/runs/a/verl.log" not in samples.look(store, sources)
    assert len(left(store)) == 5


def test_of_many_records_some_of_each_kind_are_read(store: Store) -> None:
    often, once = samples.cost_record(), samples.cost_record(prompts_per_batch=7)
    samples.put(store, add_cost_records, [*[often] * 40, once])
    read = [record.id for record in store.cost_records(most=10)]
    assert read == [1, 9, 17, 25, 33, 41], "those made alike evenly over time, and the only one of its kind"
    assert len(store.cost_records(most=41)) == 41
    samples.put(store, add_cost_records, [samples.cost_record("a100", prompts_per_batch=7)])
    assert [record.id for record in store.cost_records(most=1, gpu="a100")] == [42]
    assert [tuple(row) for row in samples.look(store, counted_costs, once.gpu, once.model, None)] == [
        (None, None, 8, 8, True, 41)
    ]
