import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError, UnknownNameError
from runner.ports.trial import TaskChoice
from runner.tasks.embedded import embedded_names, embedded_task
from runner.tasks.opening import open_task
from tests.runner.tasks.checkpoints import save_checkpoint


def choice(name: str, **values: Any) -> TaskChoice:
    return TaskChoice.model_validate({"name": name, **values})


@pytest.mark.parametrize("name", sorted(embedded_names()))
def test_embedded_tasks_open_by_name_whatever_the_seed(name: str) -> None:
    tasks = [open_task(choice(name), seed) for seed in (0, 1)]
    assert tasks[0].name == name
    assert list(tasks[0].train) == list(tasks[1].train) == list(embedded_task(name).train)


def test_an_embedded_task_is_described_alike_after_a_round_trip_through_json() -> None:
    given = choice("sum-easy")
    again = TaskChoice.model_validate_json(given.model_dump_json())
    assert open_task(again, 0).max_response_tokens == open_task(given, 0).max_response_tokens


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


def test_a_name_that_is_neither_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'sum-easy'"):
        open_task(choice("sum-esay"), 0)
    with pytest.raises(UnknownNameError, match="give the path of a JSONL file"):
        open_task(choice("xyzzy"), 0)
    with pytest.raises(InputError, match="does not exist"):
        open_task(choice("/gone/p.jsonl", model="m", max_response_tokens=1), 0)
