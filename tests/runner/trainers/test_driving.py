"""What drivers of named trainers share: settings, checkpoints behind a tracker, our reward in another interpreter."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from budgets.errors import InputError
from planner.config.trainer import TrainerChoice
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.driver import Attempt
from runner.trainers.driving import complete, judged_files, merged, numbered, opened_task, started, tracked

PATTERN, TRACKER = "checkpoints/global_step_{step}", "checkpoints/latest.txt"


def trial(recipe: Recipe | None = None, **changes: object) -> TrialConfig:
    given = {
        "task": TaskChoice(name="sum-easy"),
        "recipe": recipe or Recipe(name="plain"),
        "rollouts_per_prompt": 4,
        "prompts_per_batch": 6,
        "learning_rate": 1e-4,
        "validation": ValidationPlan(problems=20, samples=2, every_rollouts=48),
        "trainer": TrainerChoice(name="trl", python="/opt/trainer/bin/python"),
    }
    return TrialConfig.model_validate({**given, **changes})


def attempt(folder: Path, **changes: object) -> Attempt:
    return Attempt(**{"folder": folder, "number": 2, "from_step": 30, "to_step": 40, "checkpoint": None, **changes})


def saved(folder: Path, *steps: int, torn: int | None = None) -> None:
    for step in steps:
        path = folder / PATTERN.replace("{step}", str(step))
        path.mkdir(parents=True)
        if step != torn:
            (path / "data.pt").touch()


@pytest.mark.parametrize(
    ("said", "steps"),
    [("30", [30, 20]), ("", [40, 30, 20]), ("4x", [40, 30, 20]), (None, [40, 30, 20]), ("100", [40, 30, 20])],
)
def test_what_lies_beyond_the_tracker_is_torn_and_a_torn_tracker_counts_for_nothing(
    said: str | None, steps: list[int], tmp_path: Path
) -> None:
    saved(tmp_path, 20, 30, 40, 50, torn=50)
    if said is not None:
        (tmp_path / TRACKER).write_text(said)

    assert [each.step for each in complete(tmp_path, PATTERN, TRACKER, ("data.pt",))] == steps


def test_an_attempt_takes_back_what_an_earlier_one_vouched_for(tmp_path: Path) -> None:
    saved(tmp_path, 30, 40)
    (tmp_path / TRACKER).write_text("40")

    for name, text in tracked(TRACKER, attempt(tmp_path)).items():
        (tmp_path / name).write_text(text)

    assert [each.step for each in complete(tmp_path, PATTERN, TRACKER)] == [30]


def test_a_name_may_have_parts_that_are_not_known_beforehand(tmp_path: Path) -> None:
    for name in ("run-7/weights/step_4", "run-8/weights/step_9", "run-8/weights/step_x"):
        (tmp_path / name).mkdir(parents=True)

    assert sorted(number for number, _ in numbered(tmp_path, "run-*/weights/step_{step}")) == ["4", "9"]


@pytest.mark.parametrize("given", ["actor.optim.lr", "+actor.optim.lr", "actor.optim", "actor.optim.lr.value"])
def test_settings_must_not_be_ours_nor_stand_above_or_below_them(given: str) -> None:
    with pytest.raises(InputError, match="rlplan sets that itself"):
        merged({"actor.optim.lr": 1e-6, "seed": 1}, {given: 1})


def test_settings_add_to_ours_and_win_where_ours_are_free() -> None:
    assert merged({"lr": 1, "memory": 0.4}, {"memory": 0.6, "lrs": 2}, ["memory"]) == {"lr": 1, "memory": 0.6, "lrs": 2}


def test_one_that_starts_everything_itself_is_started_on_the_head_alone_unless_it_needs_a_ray(tmp_path: Path) -> None:
    config = trial(machine=Machine(gpus=8, nodes=2, device="cuda"))
    both = attempt(tmp_path, hosts=("10.0.0.1", "10.0.0.2"), gpus=("0,1,2,3", "4,5,6,7"))

    head = started(config, both, 0, ["start.py"], {})
    member = started(config, both, 1, ["start.py"], {}, own_ray=True)

    assert head is not None
    assert head.argv == ("/opt/trainer/bin/python", "start.py")
    assert started(config, both, 1, ["start.py"], {}) is None
    assert member is not None
    assert member.argv[1] == str(tmp_path / "in_own_ray.py")
    assert member.environment["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    given = json.loads(member.argv[2])
    assert (given["address"], given["nodes"], given["gpus"]) == ("10.0.0.2", 2, 4)


def test_our_reward_means_the_same_in_another_interpreter(tmp_path: Path) -> None:
    recipe = Recipe.model_validate(
        {"name": "shaped", "rewards": {"correct": 1.0, "wrong": -1.0, "overlong_share": 0.5}}
    )
    config = trial(recipe)
    task = opened_task(config)
    for name, text in judged_files(config, task).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    right = [task.train[0].answer, task.validation[0].answer]
    longest = task.max_response_tokens
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path / "parts")!r})
from runner.trainers.rewarding import judge_in
judge = judge_in({str(tmp_path)!r})
numbers = [0, judge.train_problems]
print(judge.scores(numbers, {right!r}), judge.scores(numbers, ["no", ""]))
print(judge.shaped(1.0), judge.shaped(0.0), judge.shaped(1.0, {longest}), judge.shaped(1.0, 1))
"""
    said = subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True, text=True).stdout

    assert said.splitlines() == ["[1.0, 1.0] [0.0, 0.0]", "1.0 -1.0 0.0 1.0"]


def test_the_tracker_goes_where_a_copy_of_the_checkpoint_goes(tmp_path: Path) -> None:
    saved(tmp_path, 20, 30)
    assert complete(tmp_path, PATTERN, TRACKER)[0].beside == ()
    (tmp_path / TRACKER).write_text("30")
    assert complete(tmp_path, PATTERN, TRACKER)[0].beside == (tmp_path / TRACKER,)
