from pathlib import Path

import pytest

from bench.allocating.making import How, Part, Standing, next_arguments
from bench.allocating.own_tasks import OWN_TASKS, own_problems, rewrite_digits, sort_digits
from planner.config.layers import embedded_tasks, file_layer, resolve
from runner.tasks.embedded import EMBEDDED
from runner.tasks.rewards import ExactReward


@pytest.mark.parametrize("name", OWN_TASKS)
def test_problems_are_the_same_every_time_and_no_two_alike(name: str) -> None:
    train, validation = own_problems(name)
    assert own_problems(name) == (train, validation)
    assert (len(train), len(validation)) == (4096, 512)
    assert len({problem.prompt for problem in (*train, *validation)}) == 4096 + 512


@pytest.mark.parametrize("name", OWN_TASKS)
def test_the_right_answer_alone_is_rewarded(name: str) -> None:
    problems = own_problems(name)[1][:8]
    reward = ExactReward(strip=True)
    assert list(reward.score(problems, [problem.answer for problem in problems]).values) == [1.0] * 8
    assert list(reward.score(problems, [problem.answer[:-1] for problem in problems]).values) == [0.0] * 8


def test_the_rules_do_what_they_are_called() -> None:
    assert sort_digits("52413") == "12345"
    assert rewrite_digits("529") == "036"


def test_the_tasks_do_not_come_with_rlplan() -> None:
    assert not set(OWN_TASKS) & {*EMBEDDED, *embedded_tasks()}


def test_an_own_task_is_told_by_its_files_and_has_the_grid_of_the_embedded_ones(tmp_path: Path) -> None:
    part = Part(tmp_path, "sort", scale=0.5)
    started = next_arguments(part, 0, Standing("plan-2"), How(1))
    assert started is not None
    assert ["--problems", str(tmp_path / "sort-task" / "train.jsonl")] == started[started.index("--problems") :][:2]
    assert "--problems" not in (next_arguments(Part(tmp_path, "sum-steps"), 0, Standing("plan-2"), How(1)) or [])
    file = tmp_path / "rlplan.toml"
    file.write_text(part.settings)
    config = resolve([file_layer(file)]).config
    assert (config.grid.most_rollouts_per_step, config.validation.every_rollouts) == (1024, 1024)
    assert part.budget == pytest.approx(Part(tmp_path, "sort").budget / 2)
