import hashlib
import json
import math
import statistics
from itertools import accumulate
from pathlib import Path

import pytest
import torch

from bench.base_models.measuring import sampled
from bench.base_models.teaching import DESIGNS
from budgets.signal import MeasuredPassRates, difficulty_of
from planner.config import build_request, embedded_tasks, flag_layer, resolve, task_layers
from runner.policy.model import load_model
from runner.tasks.embedded import (
    EMBEDDED,
    TRAIN_PROBLEMS,
    VALIDATION_PROBLEMS,
    embedded_task,
    sum_problems,
)

PINNED = {
    "sum-easy": "5f2c87d4af760f3d",
    "sum-hard": "c0f749f1c443afb9",
    "sum-steps": "ece9d8def013e804",
}


def test_runner_and_planner_know_the_same_tasks() -> None:
    assert sorted(EMBEDDED) == embedded_tasks() == sorted(DESIGNS)


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_model_has_the_shape_that_the_planner_prices(name: str) -> None:
    folder = Path(embedded_task(name).model_path)
    shape = json.loads((folder / "config.json").read_text())
    priced = resolve(task_layers(name, cores=1)).config.models["tiny-sums"]
    assert (shape["hidden_size"], shape["num_hidden_layers"]) == (priced["hidden"], priced["layers"])
    assert (shape["num_attention_heads"], shape["head_dim"]) == (priced["heads"], priced["head_dim"])
    assert (shape["num_key_value_heads"], shape["intermediate_size"]) == (priced["kv_heads"], priced["intermediate"])
    assert (shape["vocab_size"], shape["max_position_embeddings"]) == (priced["vocabulary"], priced["context"])
    assert shape["tie_word_embeddings"] is priced["tied_embeddings"]
    assert (folder / "model.safetensors").stat().st_size < 1_000_000


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_stated_pass_rates_are_those_of_the_model(name: str) -> None:
    torch.set_num_threads(1)
    task = embedded_task(name)
    assert task.base_pass_rates is not None
    low, high = DESIGNS[name].pass_rates
    assert low <= statistics.fmean(task.base_pass_rates) <= high
    model = load_model(task.model_path)
    found = sampled(model, task.train[:256], 4, task.max_response_tokens, seed=1)
    stated = task.base_pass_rates[:256]
    error = math.sqrt(sum(p * (1 - p) / 4 + p * (1 - p) / 16 for p in stated)) / len(stated)
    assert statistics.fmean(found.pass_rates) == pytest.approx(statistics.fmean(stated), abs=4 * error)
    lengths = resolve(task_layers(name, cores=1)).config.workload
    assert statistics.fmean(found.lengths) == pytest.approx(lengths.mean_response_tokens, rel=0.08)
    assert statistics.pstdev([math.log(length) for length in found.lengths]) == pytest.approx(
        lengths.response_spread, abs=0.05
    )
    assert (0.03 if name == "sum-steps" else 0.0) <= found.truncated <= (0.12 if name == "sum-steps" else 0.005)


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_planner_plans_with_the_lengths_and_the_rates_of_the_task(name: str) -> None:
    task, layers = embedded_task(name), task_layers(name, cores=1)
    workload = resolve(layers).config.workload
    assert workload.prompt_set_size == len(task.train)
    assert workload.response_tokens == task.max_response_tokens
    lengths = [len(task.tokenizer.encode_prompt(problem.prompt)) for problem in task.train]
    assert workload.prompt_tokens == pytest.approx(statistics.fmean(lengths), abs=0.1)
    assert task.max_prompt_tokens >= max(lengths)

    assert task.base_pass_rates is not None
    assert workload.difficulty == difficulty_of(statistics.fmean(task.base_pass_rates))
    request = build_request(resolve([*layers, *flag_layer({"budget.gpu_hours": ("--budget", 0.05)})]))
    assert isinstance(request.workload.pass_rates, MeasuredPassRates)
    assert request.workload.pass_rates.rates == task.base_pass_rates


def terms(prompt: str) -> tuple[int, ...]:
    return tuple(sorted(int(term) for term in prompt.removesuffix("=").split("+")))


@pytest.mark.parametrize("task", EMBEDDED)
def test_the_problems_never_change_and_no_two_add_the_same_numbers(task: str) -> None:
    train, validation = sum_problems(task, EMBEDDED[task])
    problems = [*validation, *train]
    text = "\n".join(f"{p.id}\t{p.prompt}\t{p.answer}" for p in problems)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == PINNED[task]
    assert (len(train), len(validation)) == (TRAIN_PROBLEMS, VALIDATION_PROBLEMS)
    assert len({terms(problem.prompt) for problem in problems}) == len(problems)
    assert len({problem.id for problem in problems}) == len(problems)


@pytest.mark.parametrize("task", EMBEDDED)
def test_answers_are_right_and_leave_room_for_their_end(task: str) -> None:
    train, validation = sum_problems(task, EMBEDDED[task])
    reward = embedded_task(task).reward
    assert set(reward.score(train, [problem.answer for problem in train]).values) == {1.0}
    for problem in (*train, *validation):
        numbers = [int(term) for term in problem.prompt.removesuffix("=").split("+")]
        steps = problem.answer.split("=")
        assert int(steps[-1]) == sum(numbers)
        if EMBEDDED[task].steps_written:
            assert [sum(map(int, step.split("+"))) for step in steps[:-1]] == list(accumulate(numbers))[1:]
            assert [int(step.split("+")[-1]) for step in steps[:-1]] == numbers[1:]
        assert len(problem.answer) + 1 <= EMBEDDED[task].max_response_tokens
