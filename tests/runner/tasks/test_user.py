import json
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from runner.ports.task import Task
from runner.ports.trial import TaskChoice
from runner.tasks.opening import user_task
from tests.runner.tasks.checkpoints import IDS, TEMPLATE, save_checkpoint

PROBLEMS = [{"id": f"p{i}", "prompt": "what is " + "2 + " * (i % 5) + f"2 be-{i}", "answer": i} for i in range(20)]

LONGEST_PROMPT = 15  # <user> what is 2 + 2 + 2 + 2 + 2 be-… <turn> <model>


def saved(folder: Path, rows: list[dict[str, Any]], name: str = "train.jsonl") -> str:
    (folder / name).write_text("\n".join(map(json.dumps, rows)))
    return str(folder / name)


def built(
    folder: Path,
    rows: list[dict[str, Any]] = PROBLEMS,
    *,
    validation: int = 128,
    template: str | None = TEMPLATE,
    **values: Any,
) -> Task:
    model = save_checkpoint(folder / "model", template=template)
    given = {"model": model, "reward": "exact", "max_response_tokens": 8, **values}
    return user_task(TaskChoice.model_validate({"name": saved(folder, rows), **given}), 0, validation)


def test_a_task_of_a_file_and_a_checkpoint(tmp_path: Path) -> None:
    task = built(tmp_path)
    assert task.name == str(tmp_path / "train.jsonl")
    assert (len(task.train), len(task.validation)) == (15, 5)
    assert task.tokenizer.end_id == IDS["<turn>"]
    assert task.model_path == str(tmp_path / "model")
    assert task.max_prompt_tokens == LONGEST_PROMPT
    assert task.max_response_tokens == 8
    assert task.base_pass_rates is None
    assert task.reward.score(task.train[:1], [task.train[0].answer]).values == [1.0]


def test_fewer_problems_may_be_held_out(tmp_path: Path) -> None:
    few, more = built(tmp_path, validation=2), built(tmp_path)
    assert len(few.validation) == 2
    assert list(few.validation) == list(more.validation)[:2]


def test_a_validation_file_leaves_all_problems_to_train_on(tmp_path: Path) -> None:
    held = saved(tmp_path, [{"prompt": f"is {i}", "answer": i} for i in range(30)], "validation.jsonl")
    task = built(tmp_path, validation_file=held, validation=3)
    assert len(task.train) == 20
    assert sorted(int(problem.answer) for problem in task.validation) == list(range(30))


def test_a_function_may_judge_without_answers(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text("def judge(problem, response): return response == problem['want']")
    rows = [{"prompt": f"is {i}", "want": f"{i}"} for i in range(8)]
    task = built(tmp_path, rows, reward=f"{tmp_path}/judge.py:judge")
    extra = task.train[0].extra
    assert extra is not None
    assert task.reward.score(task.train[:1], [extra["want"]]).values == [1.0]
    task.reward.close()
    with pytest.raises(InputError, match="'answer' is missing"):
        built(tmp_path, rows)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"model": None}, "needs task.model"),
        ({"model": "/no/such/model"}, "is no local checkpoint"),
        ({"max_response_tokens": None}, "needs task.max_response_tokens"),
        (
            {"max_prompt_tokens": 12},
            r"8 of 20 prompts .* longer than task.max_prompt_tokens = 12 \(the longest is problem 'p\d+' with 15\)",
        ),
        ({"max_response_tokens": 18}, "are 33 tokens, but model .* holds 32: lower max_response_tokens to 17"),
        ({"reward": "no_such_package:f"}, "No module named"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, values: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        built(tmp_path, **values)


def test_responses_that_just_fit_are_taken(tmp_path: Path) -> None:
    assert built(tmp_path, max_response_tokens=17).max_response_tokens == 17


def test_a_prompt_that_the_model_cannot_take_is_named(tmp_path: Path) -> None:
    rows = [*PROBLEMS, {"id": "chat", "prompt": [{"role": "user", "content": "what"}], "answer": "x"}]
    with pytest.raises(InputError, match=r"problem 'chat' of task .*: a prompt is a list of chat messages, but"):
        built(tmp_path, rows, template=None)
