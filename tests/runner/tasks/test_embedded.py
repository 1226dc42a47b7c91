import json
import math
import statistics
from pathlib import Path

import pytest
import torch

from bench.base_models.measuring import sampled
from bench.base_models.teaching import DESIGNS
from budgets.errors import UnknownNameError
from budgets.signal import MeasuredPassRates, difficulty_of
from planner.config import build_request, embedded_tasks, flag_layer, resolve, task_layers
from runner.policy.model import load_model
from runner.tasks.embedded import EMBEDDED, TRAIN_PROBLEMS, VALIDATION_PROBLEMS, embedded_names, embedded_task


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_task_is_complete(name: str) -> None:
    task = embedded_task(name)
    assert task.name == name
    assert (len(task.train), len(task.validation)) == (TRAIN_PROBLEMS, VALIDATION_PROBLEMS)
    lengths = [len(task.tokenizer.encode_prompt(problem.prompt)) for problem in (*task.train, *task.validation)]
    assert task.max_prompt_tokens == max(lengths)
    right = task.reward.score(task.train, [problem.answer for problem in task.train])
    assert set(right.values) == {1.0}


def test_runner_and_planner_know_the_same_tasks() -> None:
    assert embedded_names() == embedded_tasks() == sorted(DESIGNS)


def test_an_unknown_task_gets_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown embedded task 'sum-hrad': did you mean 'sum-hard'"):
        embedded_task("sum-hrad")


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
def test_the_difficulty_is_the_band_of_the_mean_pass_rate(name: str) -> None:
    rates = embedded_task(name).base_pass_rates
    assert rates is not None
    assert resolve(task_layers(name, cores=1)).config.workload.difficulty == difficulty_of(statistics.fmean(rates))


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_planner_is_told_the_lengths_of_the_task(name: str) -> None:
    task = embedded_task(name)
    workload = resolve(task_layers(name, cores=1)).config.workload
    assert workload.prompt_set_size == len(task.train)
    assert workload.response_tokens == task.max_response_tokens
    lengths = [len(task.tokenizer.encode_prompt(problem.prompt)) for problem in task.train]
    assert workload.prompt_tokens == pytest.approx(statistics.fmean(lengths), abs=0.1)


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_planner_plans_with_the_measured_rates(name: str) -> None:
    layers = [*task_layers(name, cores=1), *flag_layer({"budget.gpu_hours": ("--budget", 0.05)})]
    rates = build_request(resolve(layers)).workload.pass_rates
    assert isinstance(rates, MeasuredPassRates)
    assert rates.rates == embedded_task(name).base_pass_rates
