"""A sweep read from its database: rows, the story, and what approximates a recipe."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from planner.recipes import load_recipe
from planner.store import Store, sweeps
from planner.store.control import request, take, take_lease
from planner.store.read_model import Memory
from planner.store.schema import RequestKind, SegmentOutcome
from planner.view import ScorePoint, TrialState
from rlplan.reading.story import story
from rlplan.reading.sweep_data import approximated
from rlplan.reading.sweep_picture import ScoreData
from rlplan.reading.sweep_rows import picture
from rlplan.reading.sweeps import listed_sweeps
from rlplan.wording.answers import plain
from runner.processes import this_driver
from tests.planner.store import samples
from tests.planner.store.samples import NOON, at
from tests.rlplan.sweep_rows import STEPS, Seeder, later


def test_time_left_is_what_the_running_trials_can_spend(seeder: Seeder) -> None:
    now = later(seeder)
    seen = picture(seeder.store, now=now)
    assert seen.elapsed_seconds == (now - NOON).total_seconds()
    most = (seen.money.left + seen.money.reserved_gpu_hours) / (2 * 8) * 3600  # two trials on 8 GPUs each
    assert seen.seconds_left is not None
    assert most / 2 < seen.seconds_left < most
    later_on = picture(seeder.store, now=now + timedelta(seconds=30))
    assert later_on.seconds_left == pytest.approx(seen.seconds_left - 30)
    assert later_on.money.used_of_reserved_gpu_hours == pytest.approx(
        seen.money.used_of_reserved_gpu_hours + 2 * 8 * 30 / 3600
    )


def test_a_driver_that_is_silent_or_gone_is_not_alive(seeder: Seeder) -> None:
    alive = picture(seeder.store, now=later(seeder, 30.0))
    assert alive.driver is not None
    assert (alive.driver.alive, alive.driver.silent_seconds, alive.abandoned) == (True, 30.0, False)
    silent = picture(seeder.store, now=later(seeder, 300.0))
    assert silent.abandoned
    assert silent.seconds_left is None
    assert silent.money.used_of_reserved_gpu_hours == 0.0  # nobody knows
    assert silent.elapsed_seconds == alive.elapsed_seconds - 30.0  # it counts to the last sign of life

    gone = replace(this_driver(), pid=2**22 + 1)  # on this machine, where no process has that number
    with seeder.store.write() as session:
        take_lease(session, seeder.sweep, gone, later(seeder), former_lives=False)
    assert picture(seeder.store, now=later(seeder, 3.0)).abandoned


@pytest.mark.parametrize(("stop", "state"), [(False, "paused"), (True, "running")])
def test_the_list_and_the_picture_have_one_word_for_how_a_sweep_stands(seeder: Seeder, stop: bool, state: str) -> None:
    now = later(seeder)
    with seeder.store.write() as session:
        take(session, request(session, "sweep-1", RequestKind.PAUSE, "anna", now), now)
        if stop:
            request(session, "sweep-1", RequestKind.STOP, "anna", now)
    with seeder.store.read() as session:
        (listed,) = listed_sweeps(session, now)
    assert listed.state == picture(seeder.store, now=now).state == state


def queries(store: Store) -> int:
    """Count what is asked of the database for a story."""
    asked: list[str] = []

    def count(*given: object) -> None:
        asked.append(str(given[2]))

    engine = store._engines.reader
    event.listen(engine, "before_cursor_execute", count)
    story(store)
    event.remove(engine, "before_cursor_execute", count)
    return len([each for each in asked if each.startswith("SELECT")])


def test_the_number_of_queries_does_not_grow_with_the_trials(seeder: Seeder) -> None:
    few = queries(seeder.store)
    for seed in range(1, 40):
        trial = seeder.trial(8, 32, seed)
        seeder.begin(trial, 0)
        seeder.score(trial, 0, 0.2)
    assert queries(seeder.store) == few <= 20


def test_what_is_remembered_changes_nothing(seeder: Seeder) -> None:
    memory: Memory = {}
    now = at(1000)

    def same() -> bool:
        return story(seeder.store, now=now, memory=memory) == story(seeder.store, now=now)

    assert same()
    seeder.score(1, 3 * STEPS + 2, 0.65)
    assert same()
    seeder.settle(2, SegmentOutcome.COMMITTED)  # it started after the one that is still open
    seeder.move(2, TrialState.PAUSED)
    assert same()
    seeder.settle(1, SegmentOutcome.LOST, 3.0)
    seeder.move(1, TrialState.LOST)
    seeder.begin(2, 4 * STEPS)
    assert same()
    settings = {"pilot_gpu_hours": 10.0}
    seeder.sweep = samples.put(seeder.store, sweeps.create_sweep, None, samples.sweep(config=settings), now)
    seeder.decide("start", "the first of another sweep")
    assert same()
    assert len(story(seeder.store, now=now, memory=memory).decisions) == 1


def test_what_is_no_finite_number_is_null() -> None:
    score = plain(ScoreData(ScorePoint(1, float("inf"), float("nan"), 0.01)))
    assert score == {"step": 1, "gpu_hours": None, "score": None, "score_standard_error": 0.01}


def config(trainer: str, *recipes: str, approximate: bool = True, weights: str = "bfloat16") -> dict[str, Any]:
    given = {name: load_recipe(name).model_dump(mode="json") for name in recipes}
    chosen = {"name": trainer, "approximate": approximate}
    machine = {"device": "cuda", "weights": weights}
    several = {"recipes": given} if len(given) > 1 else {}
    return {"training": {"recipe": given[recipes[0]], "trainer": chosen, "machine": machine, **several}}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (config("verl", "cispo"), ["cispo"]),
        (config("trl", "grpo", "minimax", "magistral"), ["minimax", "magistral"]),
        ({}, []),
        (config("verl", "cispo", weights="float32"), []),
        (config("trl", "minimax", approximate=False), []),  # which is refused before it starts
        (config("standin", "minimax"), []),
    ],
    ids=["verl", "each of several", "builtin", "float32", "refused", "stand-in"],
)
def test_each_recipe_that_a_trainer_does_otherwise_has_a_line(given: dict[str, Any], named: list[str]) -> None:
    said = approximated(given)
    assert [line.split("'")[1] for line in said] == named
    assert all(" approximately: " in line for line in said)
