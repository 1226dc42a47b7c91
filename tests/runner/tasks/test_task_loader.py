"""From a choice of task to the task: a model, problems, what is left out and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError, UnknownNameError
from runner.ports.task import Task
from runner.ports.trial import TaskChoice
from runner.tasks.embedded import embedded_task
from runner.tasks.task_loader import open_task, user_task
from tests.runner.tasks.checkpoints import IDS, TEMPLATE, save_checkpoint, save_on_the_hub

PROBLEMS = [{"id": f"p{i}", "prompt": "what is " + "2 + " * (i % 5) + f"2 be-{i}", "answer": i} for i in range(20)]
LONGEST_PROMPT = 15  # <user> what is 2 + 2 + 2 + 2 + 2 be-… <turn> <model>


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the Hugging Face hub of this test's own, and no way to the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def choice(name: str, **values: Any) -> TaskChoice:
    return TaskChoice.model_validate({"name": name, **values})


def test_an_embedded_task_opens_by_its_name_whatever_the_seed() -> None:
    tasks = [open_task(choice("sum-hard"), seed) for seed in (0, 1)]
    assert tasks[0].name == "sum-hard"
    assert list(tasks[0].train) == list(tasks[1].train) == list(embedded_task("sum-hard").train)


def test_responses_of_an_embedded_task_may_be_cut_shorter_and_no_longer() -> None:
    whole = embedded_task("sum-easy")
    cut = open_task(choice("sum-easy", max_response_tokens=2), 0)
    assert cut.max_response_tokens == 2
    assert replace(cut, max_response_tokens=whole.max_response_tokens).model_path == whole.model_path
    with pytest.raises(InputError, match=f"at most {whole.max_response_tokens}"):
        open_task(choice("sum-easy", max_response_tokens=whole.max_response_tokens + 1), 0)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"model": "m"}, "task.model = 'm' with the embedded task 'sum-easy'"),
        ({"validation_file": "v.jsonl"}, "task.validation_file = 'v.jsonl' with the embedded task"),
        ({"reward": "a.b:c"}, "is scored exactly"),
    ],
)
def test_what_an_embedded_task_has_of_its_own_cannot_be_replaced(values: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        open_task(choice("sum-easy", **values), 0)


@pytest.mark.parametrize("name", ["p.jsonl", "without_an_ending"])
def test_a_file_of_problems_opens_by_its_path(tmp_path: Path, name: str) -> None:
    model = save_checkpoint(tmp_path / "model")
    rows = [{"prompt": f"what is {i}", "answer": i} for i in range(40)]
    (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
    own = choice(str(tmp_path / name), model=model, reward="exact", max_response_tokens=4)
    assert len(open_task(own, 0).validation) == 10
    few = open_task(own, 3, validation_problems=4).validation
    assert list(few) == list(open_task(own, 5, validation_problems=4).validation)
    assert len(few) == 4


def test_a_name_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'sum-easy'"):
        open_task(choice("sum-esay"), 0)
    with pytest.raises(UnknownNameError, match="give the path of a JSONL file"):
        open_task(choice("xyzzy"), 0)
    with pytest.raises(InputError, match="does not exist"):
        open_task(choice("/gone/p.jsonl", model=save_checkpoint(tmp_path / "m"), max_response_tokens=1), 0)


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
            {"prompt_length": 5},
            r"nothing is asked; left out, prompts of more than \[task\] prompt_length = 5 tokens: 20",
        ),
        ({"model": "Qwen/Qwen3-8B"}, "'Qwen/Qwen3-8B' is no folder here, and its tokenizer cannot be had"),
        ({"max_response_tokens": 18}, "are 33 tokens, but model .* holds 32: lower max_response_tokens to 17"),
        ({"reward": "no_such_package:f"}, "No module named"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, values: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        built(tmp_path, **values)
    assert built(tmp_path, max_response_tokens=17).max_response_tokens == 17  # which just fit


def test_a_prompt_that_the_model_cannot_take_is_named(tmp_path: Path) -> None:
    rows = [*PROBLEMS, {"id": "chat", "prompt": [{"role": "user", "content": "what"}], "answer": "x"}]
    with pytest.raises(InputError, match=r"problem 'chat' of task .*: a prompt is a list of chat messages, but"):
        built(tmp_path, rows, template=None)


def test_a_model_of_the_hub_goes_by_its_name_and_needs_no_weights_here(tmp_path: Path, cache: Path) -> None:
    save_on_the_hub(cache, "Qwen/Qwen3-8B")
    task = built(tmp_path, model="Qwen/Qwen3-8B")
    assert (task.model_path, task.max_prompt_tokens) == ("Qwen/Qwen3-8B", LONGEST_PROMPT)


def test_prompts_are_as_long_as_they_are_or_left_out_and_counted(tmp_path: Path) -> None:
    rows = [{"prompt": "what " * length, "answer": "x"} for length in (10, 2000, 3000, 4000)]
    save_checkpoint(tmp_path / "long", context=8192)
    held = saved(tmp_path, [{"prompt": "is it", "answer": "y"}], "validation.jsonl")
    given = {"model": str(tmp_path / "long"), "validation_file": held}
    whole = built(tmp_path, rows, **given)
    assert (len(whole.train), whole.max_prompt_tokens, whole.left_out) == (4, 4003, ())
    task = built(tmp_path, rows, **given, prompt_length=2500)
    assert (len(task.train), task.max_prompt_tokens) == (2, 2003)
    assert task.left_out == ("left out, prompts of more than [task] prompt_length = 2500 tokens: 2",)
