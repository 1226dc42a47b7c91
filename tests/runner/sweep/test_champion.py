"""A sweep of a plan with a champion: who is trained, for how much, and who goes on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from budgets.errors import InputError
from planner.policy.champion import KEY, champion_data
from planner.policy.champion_first import ChampionPolicy
from planner.rules import LOOK_SHARE
from planner.store import Store
from planner.store.schema import Decision, Plan, Recommendation
from planner.view import CHAMPION_POLICY, Champion, Configuration, has_curve
from runner.ports.trial import TrialConfig
from runner.simulation.world import Course, course_of
from runner.sweep.conclusions import stored_board
from runner.sweep.fingerprint import configuration_fingerprint
from runner.sweep.plan import SweepChoice, sweep_spec
from runner.sweep.plan_rows import configuration_of
from runner.sweep.spec import SweepSpec
from tests.runner.sweep.simulated_sweeps import SimulatedSweep
from tests.runner.sweep.test_driver import PLAIN, KilledError, Mortal, essence

USUAL = Configuration(8, 64)


@dataclass
class ChampionSweep(SimulatedSweep):
    """A sweep of a plan whose champion is one of its rows, or one with another learning rate."""

    policy: str = CHAMPION_POLICY
    champion: Configuration = USUAL
    share: float = 0.05

    def planned(self, store: Store) -> str:
        """Store the plan as `propose` leaves it: all but the challengers' GPU-hours are the final run's."""
        name = super().planned(store)
        terms = Champion((self.champion,), self.budget, (USUAL,), challenger_share=self.share)
        with store.write() as session:
            plan = session.scalars(select(Plan).where(Plan.name == name)).one()
            plan.config = {**plan.config, KEY: champion_data(terms, "flag")}
        return name

    def recommended(self) -> Recommendation:
        with self.store() as store, store.read() as session:
            return session.scalars(select(Recommendation).order_by(Recommendation.id.desc()).limit(1)).one()

    def decisions(self) -> list[tuple[str, str]]:
        with self.store() as store, store.read() as session:
            rows = session.scalars(select(Decision).order_by(Decision.number))
            return [(row.action, row.reason) for row in rows]


def champion_sweep(folder: Path, **changes: Any) -> ChampionSweep:
    folder.mkdir(parents=True, exist_ok=True)
    options = {"choice": PLAIN, "every_steps": 20, "budget": 1.0, "workers": 1}
    return ChampionSweep(folder / "rlplan.db", **{**options, **changes})


class Flat:
    """A shape of a run that learns nothing."""

    def __init__(self, shape: Any) -> None:
        self._start = shape.score(0)

    def score(self, rollouts: float) -> float:
        return float(self._start)


class Collapsed:
    """A shape of a run that loses most of what it could from its first update on."""

    def __init__(self, shape: Any) -> None:
        self._start = shape.score(0)

    def score(self, rollouts: float) -> float:
        return float(self._start if rollouts == 0 else self._start / 5)


def sick_above(rate: float) -> Callable[[TrialConfig], Course]:
    """Return a world in which runs with a higher learning rate collapse."""

    def course(config: TrialConfig) -> Course:
        found = course_of(config)
        if config.learning_rate > rate:
            found._shape = Collapsed(found._shape)
        return found

    return course


def flat_below(rate: float, start_up_seconds: tuple[float, float]) -> Callable[[TrialConfig], Course]:
    """Return a world in which runs with a lower learning rate stay where they begin, and start in the first time."""

    def course(config: TrialConfig) -> Course:
        found = course_of(config)
        found.start_up_seconds = start_up_seconds[config.learning_rate >= rate]
        if config.learning_rate < rate:
            found._shape = Flat(found._shape)
        return found

    return course


def rule_rate(given: ChampionSweep) -> float:
    return next(row.learning_rate for row in given.plan.candidates if configuration_of(row) == USUAL)


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> ChampionSweep:
    """A sweep that ended whose champion has twice the rate that it bears."""
    given = champion_sweep(tmp_path_factory.mktemp("sick"))
    given.run(ChampionPolicy(), course=sick_above(rule_rate(given) / 2))
    return given


def test_a_champion_is_trained_first_and_alone_where_nothing_else_is_worth_a_look(tmp_path: Path) -> None:
    given = champion_sweep(tmp_path, share=0.0)
    spec, total = given.spec, given.plan.budget_gpu_hours
    assert (spec.policy, spec.target_gpu_hours) == (CHAMPION_POLICY, total)
    assert spec.rest_to_final
    assert spec.continues_pilot
    assert LOOK_SHARE * total < spec.pilot_gpu_hours < 0.25 * total
    with given.store() as store, store.read() as session:
        first, *others = stored_board(session, given.name).trials.values()
    assert (first.configuration, first.proposed, first.segment_steps < first.pilot_steps) == (USUAL, False, True)
    assert USUAL not in {trial.configuration for trial in others}
    outcome = given.run(ChampionPolicy())
    assert LOOK_SHARE * total == pytest.approx(outcome.spent_gpu_hours, rel=0.1)
    assert [action for action, _ in given.decisions()] == ["start", "stop"]
    answer = given.recommended()
    assert (answer.rollouts_per_prompt, answer.prompts_per_batch) == USUAL[:2]
    # All that there was buys the final run, its first look among it.
    assert answer.gpu_hours_to_target == pytest.approx(total, rel=0.02)
    champion = answer.details["champion"]
    assert (champion["switched"], champion["probability"], champion["alone"]["gpu_hours"]) == (False, None, total)
    assert champion["alone"]["expected_score"] == pytest.approx(answer.expected_score, abs=1e-3)


def test_a_sick_champion_is_replaced_by_a_third_of_its_rate(sick: ChampionSweep) -> None:
    answer, own = sick.recommended(), dict(sick.recommended().axes)
    assert (answer.rollouts_per_prompt, answer.prompts_per_batch, own) == (8, 64, {"learning_rate": 0.333})
    assert answer.learning_rate == pytest.approx(rule_rate(sick) / 3, rel=1e-3)
    champion, runner_up = answer.details["champion"], answer.details["runner_up"]
    assert champion["switched"]
    assert (champion["configuration"]["axes"], runner_up["axes"]) == ({}, {})
    assert runner_up["probability_wins"] == pytest.approx(1 - champion["probability"])
    assert champion["alone"]["expected_score"] < answer.expected_score
    actions = dict(sick.decisions())
    assert "learning rate" in actions["propose"]
    assert "goes on to the end" in actions["stop"]


@pytest.mark.parametrize(
    ("start_up_seconds", "is_seen"), [((150, 150), True), ((300, 300), True), ((60, 300), True), ((60, 900), False)]
)
def test_a_challenger_is_looked_at_to_its_first_score_however_long_it_starts(
    tmp_path: Path, start_up_seconds: tuple[float, float], is_seen: bool
) -> None:
    own = USUAL._replace(axes=(("learning_rate", 0.1),))
    given = champion_sweep(tmp_path, champion=own)
    outcome = given.run(ChampionPolicy(), course=flat_below(rule_rate(given) / 5, start_up_seconds))
    with given.store() as store, store.read() as session:
        trials = stored_board(session, given.name).trials.values()
    beside = [trial for trial in trials if trial.configuration != own and trial.gpu_hours_spent]
    total = given.plan.budget_gpu_hours
    assert [has_curve(trial) for trial in beside] == [is_seen]
    assert beside[0].gpu_hours_spent <= (0.1 if is_seen else 0.15) * total
    assert outcome.spent_gpu_hours <= given.spec.pilot_gpu_hours
    answer, (last, why) = given.recommended(), given.decisions()[-1]
    assert (last, answer.details["champion"]["switched"]) == ("stop", True)
    assert ("by its settings alone" in why) is not is_seen


@pytest.mark.parametrize("waits", [3, 20])
def test_a_sweep_that_is_killed_and_resumed_ends_as_it_would_have(
    tmp_path: Path, sick: ChampionSweep, waits: int
) -> None:
    given = champion_sweep(tmp_path)
    course = sick_above(rule_rate(given) / 2)
    executor = Mortal(given.workers, course=course)
    executor.lives = waits
    with given.store() as store:
        running = given.driver(executor, ChampionPolicy(), store)
        with pytest.raises(KilledError):
            running._turns()
    given.run(ChampionPolicy(), course=course)
    assert {name: trial["points"] for name, trial in essence(given).items()} == {
        name: trial["points"] for name, trial in essence(sick).items()
    }
    assert given.recommended().axes == sick.recommended().axes


def test_other_policies_explore_a_plan_with_a_champion_and_none_without_one_takes_that_policy(tmp_path: Path) -> None:
    given = champion_sweep(tmp_path, policy="asha")
    assert (given.spec.champion, given.spec.pilot_gpu_hours) == (None, given.plan.pilot_gpu_hours)
    bare = SimulatedSweep(tmp_path / "bare.db")
    with pytest.raises(InputError, match="has no champion"):
        sweep_spec(bare.plan, SweepChoice(policy=CHAMPION_POLICY, simulation=PLAIN.model_dump(mode="json")))
    stored = given.spec.model_dump(mode="json", exclude={"champion"})
    assert configuration_fingerprint(SweepSpec.model_validate(stored)) == configuration_fingerprint(given.spec)
    with pytest.raises(InputError, match="no row for its champion, n = 3"):
        champion_sweep(tmp_path / "other", champion=Configuration(3, 5))
