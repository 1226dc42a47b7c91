"""Sweeps over recipes, base models and learning rates, in a simulated world."""

import random
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import IllegalTransitionError, InputError, UnknownNameError
from planner.axes import LEARNING_RATE, MODEL, rate_factor, value_of
from planner.config import Layer, build_request, resolve, resolved_values
from planner.policy.actions import Action, Propose, Stop, Why
from planner.policy.grants import grant
from planner.policy.policies import open_policy
from planner.proposals import propose
from planner.store import open_store, results
from planner.store.read_model import sweep_snapshot
from planner.store.schema import Decision, Plan, Ranking, Recommendation, SweepStatus, Trial
from planner.view import View
from rlplan.reading.plan_data import new_candidates, new_plan
from runner.sweep.fingerprint import configuration_fingerprint
from runner.sweep.plan import SweepChoice, new_trials, sweep_spec
from runner.sweep.plan_rows import checkpoints
from runner.sweep.state import SweepState
from tests.planner.store import samples
from tests.runner.sweep.simulated_sweeps import START, SimulatedSweep
from tests.runner.sweep.test_driver import PLAIN, KilledError, Mortal, rows

RECIPES = {"axes.recipes": ("--recipes", ["easy", "dapo"])}
RANGE = {"axes.learning_rate_range": ("rlplan.toml", [0.3, 3.0])}
TINY = {
    "hidden": 96,
    "layers": 3,
    "heads": 3,
    "kv_heads": 3,
    "head_dim": 32,
    "intermediate": 256,
    "vocabulary": 16,
    "context": 64,
    "tied_embeddings": True,
}
MODELS = {
    "models.tiny": ("rlplan.toml", TINY),
    "models.tinier": ("rlplan.toml", TINY | {"layers": 1}),
    "axes.models": ("--models", ["tiny", "tinier"]),
}


def sweep(folder: Path, flags: dict[str, Any], **changes: Any) -> SimulatedSweep:
    folder.mkdir(exist_ok=True)
    return SimulatedSweep(folder / "rlplan.db", flags=flags, **{"choice": PLAIN, "every_steps": 50, **changes})


def test_two_recipes_run_side_by_side_and_are_told_apart_everywhere(tmp_path: Path) -> None:
    given = sweep(tmp_path, RECIPES, budget=1.0)
    assert given.run(open_policy("full")).status is SweepStatus.FINISHED
    trials = rows(given, Trial)
    assert {trial.recipe for trial in trials} == {"easy", "dapo"}
    for trial in trials:
        assert trial.axes == (("recipe", trial.recipe),)
        assert trial.config["recipe"]["name"] == trial.recipe
        n, B = trial.rollouts_per_prompt, trial.prompts_per_batch
        assert trial.name == f"n{n}-B{B}-{trial.recipe}-s0"
    twice = {trial.name: (trial.rollouts_per_prompt, trial.prompts_per_batch) for trial in trials}
    assert len(set(twice.values())) < len(twice), "one cell has a trial of each recipe"
    (recommended,) = rows(given, Recommendation)
    assert recommended.axes == (("recipe", recommended.recipe),)
    ranking = rows(given, Ranking)
    assert len({(row.rollouts_per_prompt, row.prompts_per_batch, row.axes) for row in ranking}) == len(ranking)
    assert all(row.axes == (("recipe", row.recipe),) for row in ranking)
    with given.store() as store:
        shown = samples.look(store, results.ranked_allocations)
    assert {row["recipe"] for row in shown} == {"easy", "dapo"}
    assert sum(row["gpu_hours_spent"] for row in shown) == pytest.approx(sum(t.gpu_hours_spent for t in trials))
    started = [decision.reason for decision in rows(given, Decision) if decision.action == "start"]
    assert all(", easy" in reason or ", dapo" in reason for reason in started)


def test_learning_rates_are_searched_within_their_range_also_after_a_kill(tmp_path: Path) -> None:
    whole = sweep(tmp_path, RECIPES | RANGE, policy="rlplan", search="tpe", room=2.0)
    executor = Mortal(whole.workers)
    executor.lives = 12
    with whole.store() as store, pytest.raises(KilledError):
        whole.driver(executor, open_policy("rlplan", search="tpe"), store)._turns()
    assert whole.run(open_policy("rlplan", search="tpe")).status is SweepStatus.FINISHED
    trials = rows(whole, Trial)
    planned = {trial.axes for trial in new_trials(whole.spec, whole.plan)}
    found = [trial for trial in trials if trial.axes not in planned]
    assert found, "nothing was proposed"
    anchor = {
        (c.rollouts_per_prompt, c.prompts_per_batch): c.learning_rate / rate_factor(c.axes)
        for c in whole.plan.candidates
    }
    for trial in trials:
        factor = value_of(trial.axes, LEARNING_RATE)
        assert isinstance(factor, float)
        assert 0.3 <= factor <= 3.0
        rule = anchor[trial.rollouts_per_prompt, trial.prompts_per_batch]
        assert trial.learning_rate == pytest.approx(factor * rule)
        assert trial.config["learning_rate"] == trial.learning_rate
    assert len({trial.name for trial in trials}) == len(trials)


class Proposing:
    """Proposes one configuration, and is content."""

    name = "rlplan"

    def __init__(self, axes: tuple[tuple[str, str | float], ...], seed: int | None = None) -> None:
        self.axes, self.seed = axes, seed

    def decide(self, view: View) -> list[Action]:
        trial = next(iter(view.trials.values()))
        if self.seed in {each.seed for each in view.trials.values()} - {trial.seed}:
            return [Stop(Why("it is there"))]
        return [Propose(trial.rollouts_per_prompt, trial.prompts_per_batch, Why("try it"), self.axes, self.seed)]


def test_a_configuration_that_has_a_trial_is_not_planned_again(tmp_path: Path) -> None:
    given = sweep(tmp_path, RECIPES)
    first = new_trials(given.spec, given.plan)[0]
    with pytest.raises(IllegalTransitionError, match="of which the sweep has a trial"):
        given.run(Proposing(first.axes))


def test_another_seed_of_a_configuration_is_a_trial_of_its_own(tmp_path: Path) -> None:
    given = sweep(tmp_path, RECIPES)
    first = new_trials(given.spec, given.plan)[0]
    given.run(Proposing(first.axes, seed=first.seed + 1))
    (added,) = [trial for trial in rows(given, Trial) if trial.seed == first.seed + 1]
    assert added.name == first.name.removesuffix(f"-s{first.seed}") + f"-s{first.seed + 1}"
    assert added.config["seed"] == first.seed + 1
    assert (added.rollouts_per_prompt, added.learning_rate) == (first.rollouts_per_prompt, first.learning_rate)
    with given.store() as store, store.read() as session:
        board = SweepState(given.spec, sweep_snapshot(session, given.name))
    assert {number for number, each in board.trials.items() if each.proposed} == {added.id}


def test_a_planned_segment_is_allowed_whole_however_its_price_is_rounded(tmp_path: Path) -> None:
    given = sweep(tmp_path, RECIPES)
    with given.store() as store, store.read() as session:
        board = SweepState(given.spec, sweep_snapshot(session, given.name))
    generator = random.Random(0)
    for _ in range(500):
        for trial in board.trials:
            price = generator.uniform(1e-5, 1e-3)
            board._prices.trials[trial].planned = price
            board.put(trial, gpu_hours_per_step=price, start_up_gpu_hours=generator.uniform(1e-3, 1e-1))
            view = board.trials[trial]
            granted = grant(view, view.segment_steps, board.most_of_a_segment(view))
            assert granted is not None
            assert granted.to_step == view.segment_steps


# Base models of one's own


def planned(database: Path, models: list[str]) -> Plan:
    resolved = resolve(
        [
            Layer("--models", {"axes": {"models": models}}),
            Layer(
                "rlplan.toml",
                {
                    "budget": {"gpu_hours": 5000.0},
                    "hardware": {"gpus_per_trial": 1, "gpu": "h200"},
                    "workload": {"response_tokens": 1024},
                },
            ),
        ]
    )
    proposal = propose(build_request(resolved))
    with open_store(database) as store:
        row = new_plan(proposal, resolved_values(proposal.request, resolved), [], "test")
        return store.plan(store.save_plan(row, new_candidates(proposal), created_at=START))


NAMES = ["qwen2.5-0.5b", "qwen2.5-1.5b"]


def test_checkpoints_are_found_by_folder_name_or_as_they_are_named(tmp_path: Path) -> None:
    plan = planned(tmp_path / "rlplan.db", NAMES)
    found = checkpoints(plan, f"{tmp_path}/Qwen2.5-1.5B, qwen2.5-0.5b={tmp_path}/small")
    assert found == {"qwen2.5-0.5b": f"{tmp_path}/small", "qwen2.5-1.5b": f"{tmp_path}/Qwen2.5-1.5B"}
    with pytest.raises(InputError, match=r"checkpoint of qwen2\.5-1\.5b lies is not known: give --model"):
        checkpoints(plan, f"qwen2.5-0.5b={tmp_path}/small")
    with pytest.raises(UnknownNameError, match="unknown model of the plan 'other'"):
        checkpoints(plan, f"{tmp_path}/other")


def test_a_trial_has_its_own_checkpoint_and_all_of_them_are_in_the_fingerprint(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    plan = planned(tmp_path / "rlplan.db", NAMES)
    folders = ",".join(str(tmp_path / name) for name in NAMES)
    spec = sweep_spec(plan, SweepChoice(folder=tmp_path, problems=str(tmp_path / "sums.jsonl"), model=folders))
    for trial in new_trials(spec, plan):
        assert trial.config["task"]["model"] == str(tmp_path / str(value_of(trial.axes, MODEL)))
    before = configuration_fingerprint(spec)
    (tmp_path / NAMES[1] / "config.json").write_text('{"changed": true}')
    assert configuration_fingerprint(spec) != before


def test_an_embedded_task_has_one_model(tmp_path: Path) -> None:
    given = sweep(tmp_path, MODELS)
    with pytest.raises(InputError, match="the embedded task 'sum-easy' has its own: give --problems"):
        sweep_spec(given.plan, SweepChoice(folder=tmp_path))
