"""What a sweep notes beside its trials: fingerprints, and costs of updates."""

import re
from pathlib import Path
from typing import Any

import pytest

from planner.config.trainer import TINKER, TrainerChoice
from planner.config.trainer import TRAINERS as NAMES
from planner.recipes import load_recipe
from planner.view import TrialState, TrialView
from runner.ports.backend import Point
from runner.ports.trial import TaskChoice
from runner.sweep import fingerprint
from runner.sweep.fingerprint import code_fingerprint, configuration_fingerprint
from runner.sweep.measurements import ShortSegments, cost_record
from runner.sweep.spec import Resources, SweepSpec, Training, ValidationRule
from tests.planner.store.samples import NOON

TRAINERS = Path(fingerprint.__file__).parents[1] / "trainers"


def spec(**task: Any) -> SweepSpec:
    training = Training(
        task=TaskChoice(**{"name": "sum-easy", "reward": "exact", **task}),
        recipe=load_recipe("grpo"),
        validation=ValidationRule(problems=8, samples=2, every_steps=5),
    )
    return SweepSpec(
        policy="full",
        pilot_gpu_hours=1.0,
        target_gpu_hours=4.0,
        workers=2,
        folder="sweeps/sweep-1",
        resources=Resources(gpu="cpu"),
        training=training,
    )


# Fingerprints


MODULE = '"""A room."""\n\nx = 1  # one\n\n\ndef f():\n    """Return it."""\n    return (x)\n'


@pytest.mark.parametrize(
    ("trainer", "path", "text", "counts"),
    [
        (None, "runner/training/room.py", MODULE.replace("x = 1", "x = 2"), True),
        (None, "runner/training/room.py", MODULE.replace("  # one", "").replace("it", "x").replace("(x)", "x"), False),
        (None, "planner/recipes/room.py", MODULE, True),
        (None, "planner/policy/room.py", MODULE, False),
        (None, "runner/sweep/room.py", MODULE, False),
        (None, "runner/trainers/verl/driver.py", MODULE, False),
        ("prime-rl", "runner/trainers/prime_rl/driver.py", MODULE, True),
        ("prime-rl", "runner/trainers/verl/driver.py", MODULE, False),
        ("prime-rl", "runner/trainers/supervisor.py", MODULE, True),
        ("prime-rl", "runner/engines/torch_engine.py", MODULE, False),
        ("tinker", "runner/policy/scorer.py", MODULE, True),
        ("tinker", "runner/trainers/verl/driver.py", MODULE, False),
        ("standin", "runner/trainers/verl/driver.py", MODULE, True),
    ],
)
def test_the_fingerprint_of_the_code_changes_with_what_makes_a_trainers_curves(
    tmp_path: Path, trainer: str | None, path: str, text: str, counts: bool
) -> None:
    choice = TrainerChoice(name=trainer) if trainer else None
    for each in ("runner/training/room.py", "runner/sweep/driver.py", "planner/metrics.py", "budgets/growth.py"):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text(MODULE)
    first = code_fingerprint(choice, tmp_path)
    assert code_fingerprint(choice, tmp_path) == first
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
    assert (code_fingerprint(choice, tmp_path) != first) == counts


def test_every_part_of_the_code_that_makes_curves_is_where_the_fingerprint_looks() -> None:
    root = Path(fingerprint.__file__).parents[2]
    places = (*fingerprint.MAKES_CURVES, *fingerprint.DRIVES, *fingerprint.OURS, fingerprint.TRAINERS)
    assert [place for place in places if not (root / place).exists()] == []


def test_no_driver_rests_on_code_of_another_trainer_that_its_fingerprint_passes_over() -> None:
    folders = [path.parent for path in TRAINERS.glob("*/driver.py") if path.parent.name != "standin"]
    assert {path.name.replace("_", "-") for path in folders} < set(NAMES)
    for folder in folders:
        text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
        others = "|".join(other.name for other in folders if other != folder)
        ours = "" if folder.name == TINKER else "|engines|policy"
        assert not re.search(rf"\brunner[./](trainers[./]({others})\b{ours})", text), folder.name


def test_settings_and_the_contents_of_named_files_count(tmp_path: Path) -> None:
    problems, reward = tmp_path / "problems.jsonl", tmp_path / "reward.py"
    problems.write_text("{}\n")
    reward.write_text("def score(): ...\n")
    given = spec(name=str(problems), reward=f"{reward}:score")
    first = configuration_fingerprint(given)
    assert configuration_fingerprint(given) == first
    assert configuration_fingerprint(given.model_copy(update={"seed": 1})) != first
    reward.write_text("def score(): return 1\n")
    second = configuration_fingerprint(given)
    assert second != first
    problems.write_text('{"prompt": "1+1="}\n')
    assert configuration_fingerprint(given) != second


@pytest.mark.parametrize("command", ["python {here}/train.py --steps {to_step}", ["x", "--config={here}/train.py"]])
def test_the_files_that_a_trainers_options_name_count(tmp_path: Path, command: object) -> None:
    script = tmp_path / "train.py"
    script.write_text("pass\n")
    now = spec()
    trainer = TrainerChoice(name="command", options={"here": str(tmp_path), "command": command})
    given = now.model_copy(update={"training": now.training.model_copy(update={"trainer": trainer})})
    first = configuration_fingerprint(given)
    script.write_text("print(1)\n")
    assert configuration_fingerprint(given) != first


# Costs

WORKLOAD = {"model": "tiny-sums", "prompt_tokens": 9.0}
TRIAL = TrialView(7, "n16-B4-s0", 16, 4, 0, TrialState.RUNNING, 0, 8, 2, 100, 0.001, 0.01, 0.0)


def update(step: int, **phases: float) -> Point:
    metrics = {
        "seconds": phases,
        "response_tokens": 4.0 + step,
        "generated_rollouts": 64.0,
        "trained_rollouts": 60.0,
    }
    return Point(step, 64 * step, 300 * step, 0.2 * step, 0.001 * step, metrics=metrics)


def test_a_segment_of_updates_gives_their_typical_cost() -> None:
    points = [
        Point(0, 0, 0, 1.0, 0.001, score=0.4, metrics={"seconds": {"start": 0.7, "evaluate": 0.3}}),
        update(1, generate=0.9, train=0.5),
        update(2, generate=0.1, train=0.2, evaluate=0.3),
        update(3, generate=0.1, train=0.2),
    ]
    record = cost_record(spec(), WORKLOAD, TRIAL, points, NOON)
    assert record is not None
    assert record.seconds == {"generate": 0.1, "train": 0.2, "evaluate": 0.3}
    assert (record.model, record.gpu, record.trial_id, record.mean_response_tokens) == ("tiny-sums", "cpu", 7, 6.0)
    assert (record.generated_rollouts, record.trained_rollouts) == (64, 60)


def test_of_several_updates_a_batch_each_pays_its_share_of_the_generation() -> None:
    given = spec()
    four = load_recipe("gspo")
    given = given.model_copy(update={"training": given.training.model_copy(update={"recipe": four})})
    points = [update(1, generate=0.8, reward=0.4, train=0.2), *(update(step, train=0.2) for step in (2, 3, 4))]
    record = cost_record(given, WORKLOAD, TRIAL, points, NOON)
    assert four.schedule.updates_per_batch == 4
    assert record is not None
    assert record.seconds == {"generate": 0.2, "reward": 0.1, "train": 0.2}


def test_segments_of_one_update_tell_their_cost_together() -> None:
    short = ShortSegments()
    told = [short.with_earlier(7, [update(step, train=0.1 * step)]) for step in range(1, 8)]
    records = [cost_record(spec(), WORKLOAD, TRIAL, points, NOON) for points in told]
    assert [record and record.steps for record in records] == [None, None, 3, None, None, 3, None]
    assert records[2] is not None
    assert records[2].seconds == {"train": 0.2}
    assert len(short.with_earlier(8, [update(8, train=0.1)])) == 1  # another trial's do not count


def outside(name: str, recipe: str = "grpo") -> SweepSpec:
    given = spec()
    changes = {"trainer": TrainerChoice(name=name), "recipe": load_recipe(recipe)}
    return given.model_copy(update={"training": given.training.model_copy(update=changes)})


def driven(step: int, seconds: float, **changes: Any) -> Point:
    """An update as it is put together of what a trainer from outside has said."""
    metrics = {"response_tokens": 100.0, "seconds": {"train": 0.4 * seconds, "other": 0.6 * seconds}}
    return Point(step, 64 * step, 300 * step, 0.2 * step, 0.001 * step, **{"metrics": metrics, **changes})


DRIVEN = [driven(1, 40.0), *(driven(step, 5.0 + 0.1 * step) for step in range(2, 7)), driven(7, 25.0, score=0.5)]


def test_whole_updates_of_a_trainer_from_outside_are_told_without_starts_and_validations() -> None:
    record = cost_record(outside("verl"), WORKLOAD, TRIAL, DRIVEN, NOON)
    assert record is not None
    assert record.seconds == {"step": pytest.approx(5.4)}
    assert (record.trainer, record.steps, record.mean_response_tokens) == ("verl", 5, 100.0)
    assert record.generated_rollouts == TRIAL.rollouts_per_prompt * TRIAL.prompts_per_batch


@pytest.mark.parametrize(
    ("given", "points"),
    [
        (spec(), []),
        (spec(), [update(1, train=0.1), update(2, train=0.1)]),
        (spec(), [Point(step, 64, 300, 1.0, 0.001, metrics={}) for step in range(1, 9)]),
        (outside("standin"), DRIVEN),
        (outside("prime-rl"), DRIVEN),  # generates on GPUs of its own
        (outside("trl", "dapo"), DRIVEN),  # generates more than it says
        (outside("verl"), DRIVEN[:3]),
        (outside("verl"), [driven(step, 5.0, metrics={"response_tokens_at_most": 9.0}) for step in range(1, 9)]),
    ],
    ids=[
        *("no update", "two updates", "a simulated world"),
        *("a stand-in", "apart", "refills", "too few from outside", "lengths unknown"),
    ],
)
def test_what_cannot_be_told_is_left_out(given: SweepSpec, points: list[Point]) -> None:
    assert cost_record(given, WORKLOAD, TRIAL, points, NOON) is None
