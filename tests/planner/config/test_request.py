"""Axes beside n and B in the configuration: what one value means, and what is refused."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import ConfigError, InfeasibleError, InputError, UnknownNameError
from budgets.execution import USUAL, Execution
from budgets.expected_lengths import expected_length
from budgets.signal import MeasuredPassRates
from planner.config import Layer, Resolved, build_request, build_step, flag_layer, resolve, resolved_values, template
from planner.config.layers import collapse_single_values
from planner.proposals import Request, propose

BUDGET = {"budget": {"gpu_hours": 5000.0}}


def built(**sections: dict[str, Any]) -> Request:
    return build_request(resolve([Layer("test", {**BUDGET, **sections})]))


@pytest.mark.parametrize(
    ("workload", "difficulty"),
    [
        ({"difficulty": "hard"}, "hard"),
        ({"pass_rate": 0.03}, "hard"),
        ({"pass_rate": 0.9}, "mixed"),
    ],
)
def test_the_difficulty_follows_a_pass_rate_and_the_recipe_neither(workload: dict[str, Any], difficulty: str) -> None:
    request = built(workload=workload)
    assert (request.difficulty, request.traits.name) == (difficulty, "grpo")
    if "pass_rate" in workload:
        assert request.workload.pass_rates.mean == pytest.approx(workload["pass_rate"])
    assert built(workload=workload, recipe={"name": "scalerl"}).traits.name == "scalerl"


@pytest.mark.parametrize(
    ("content", "read_as"),
    [
        ("# avg@16\n0.5\n\n0.25\n1\n", ""),
        ("50\n25\n100\n", "read as per cent"),
        ("[0.5, 0.25, 1]", ""),
        ("pass_rate\n0.5\n0.25\n1\n", "column 'pass_rate'"),
        ("anything\n50\n25\n100\n", "column 'anything', read as per cent"),
        ("id;n;Pass_Rate\n1;16;0,5\n2;16;0,25\n3;16;1\n", "column 'Pass_Rate'"),
        ("prompt,seed,avg@16\nwhat,1,0.5\nwho,2,0.25\nwhen,3,1\n", "column 'avg@16'"),
        ('{"id": 1, "score": 0.5}\n{"id": 2, "score": 0.25}\n{"id": 3, "score": 1}\n', "column 'score'"),
        ('[{"id": 1, "rate": 0.5}, {"id": 2, "rate": 0.25}, {"id": 3, "rate": 1}]', "column 'rate'"),
    ],
)
def test_pass_rates_are_read_as_people_have_them(tmp_path: Path, content: str, read_as: str) -> None:
    (tmp_path / "rates").write_text(content)
    request = built(workload={"pass_rates_file": str(tmp_path / "rates")})
    assert request.workload.pass_rates == MeasuredPassRates((0.5, 0.25, 1.0), read_as)


def test_a_variant_has_the_shape_of_its_family_and_the_responses_of_its_kind() -> None:
    base, own = (built(workload={"model": name}) for name in ("qwen2.5-7b", "Qwen/Qwen2.5-7B-Instruct"))
    assert own.workload.model == base.workload.model
    for name, request in (("qwen2.5-7b", base), ("Qwen2.5-7B-Instruct", own)):
        expected = expected_length(name, 8192, 0.45)
        assert request.workload.responses.mean == pytest.approx(expected.mean, rel=0.01)
        assert request.coefficients.length_log_sd == pytest.approx(expected.log_sd, rel=0.01)


def test_adapters_learn_at_ten_times_the_rate_unless_one_is_given() -> None:
    assert built(cost={"lora_rank": 32}).learning_rate.base == pytest.approx(10 * built().learning_rate.base)
    given = {"cost": {"lora_rank": 32}, "recipe": {"learning_rate": 3e-6}}
    assert built(**given).learning_rate.base == 3e-6


def test_there_are_as_many_prompts_as_pass_rates_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "rates.csv"
    file.write_text("pass_rate\n" + "0.5\n0.25\n" * 1000)
    for own, prompts in (({}, 2000), ({"prompt_set_size": 9000}, 9000)):
        workload = {"pass_rates_file": str(file), **own}
        resolved = resolve([Layer("test", {**BUDGET, "workload": workload})])
        request = build_request(resolved)
        assert request.workload.prompt_set_size == prompts
        assert resolved_values(request, resolved)["workload"]["prompt_set_size"] == prompts
    file.write_text("0.5\n0.25\n")
    with pytest.raises(InputError, match=r"2 prompts in the set; widen \[grid\], or set workload.prompt_set_size if"):
        propose(built(workload={"pass_rates_file": str(file)}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0.5\nhalf\n", "line 2: 'half' is not a number"),
        (b"50\n0.5\n", "holds 50 as well as 0.5: write all as fractions between 0 and 1, or all in per cent"),
        (b"120\n", "rate 1 is 120: each must lie between 0 and 1, or all in per cent"),
        (b"nan\n", "must lie between 0 and 1"),
        (b"half\n", "give one rate a line, a CSV with a header"),
        (b"id,length,seconds\n1,2,3\n", "Its columns of numbers are id, length, seconds; call that one"),
        (b"id,rate\n1,0.5\n2,\n", "row 2 below the header has no number in 'rate'"),
        (b"", "no pass rates given"),
        (b"\xff\xfe", "it is not text"),
    ],
)
def test_a_broken_file_of_pass_rates_is_explained(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "rates.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=message):
        built(workload={"pass_rates_file": str(file)})


@pytest.mark.parametrize(
    ("sections", "error", "message"),
    [
        ({"workload": {"difficulty": "hrd"}}, UnknownNameError, "unknown difficulty 'hrd': did you mean 'hard'"),
        ({"workload": {"response_tokens": 100_000}}, InputError, "may have at most 40,704 tokens"),
        (
            {"workload": {"model": "qwen2.5-72b"}, "hardware": {"gpus": 2}},
            InfeasibleError,
            "does not fit 2 h100.*It fits .* h100 or",
        ),
        ({"hardware": {"gpus": 4, "gpus_per_trial": 8}}, InputError, "8 GPUs per trial of 4 GPUs"),
        ({"budget": {}}, InputError, "say how many GPU-hours there are, such as --budget 5000"),
        ({"workload": {"pass_rates_file": "no.txt"}}, InputError, r"no.txt cannot be read \(No such file"),
        (
            {"workload": {"pass_rate": 0.3, "pass_rates_file": "x"}},
            ConfigError,
            r"workload.pass_rate \(0.3\) and workload.pass_rates_file \(x\) are both given",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(
    sections: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        built(**sections)


def test_a_gpu_of_ones_own_can_be_used_and_is_offered_as_a_way_out() -> None:
    example = template().partition("takes the same keys as those of the catalogue:\n")[2]
    own = tomllib.loads(re.sub(r"^## ", "", example, flags=re.MULTILINE))["gpus"]["my-gpu"] | {"memory_gb": 1000.0}
    assert built(gpus={"huge": own}, hardware={"gpu": "huge", "gpus": 2}).hardware.gpu.memory_gb == 1000
    with pytest.raises(InfeasibleError, match="or 2 huge"):
        built(gpus={"huge": own}, workload={"model": "qwen2.5-72b"}, hardware={"gpus": 2})


def test_the_resolved_configuration_is_complete_and_can_be_loaded_again() -> None:
    resolved = resolve([Layer("test", {**BUDGET, "workload": {"difficulty": "hard"}})])
    values = resolved_values(build_request(resolved), resolved)
    assert values["sources"] == {"budget.gpu_hours": "test", "workload.difficulty": "test"}
    assert values["recipe_traits"]["name"] == "grpo"
    again = resolve([Layer("stored", {k: v for k, v in values.items() if k not in ("sources", "recipe_traits")})])
    assert (again.config.hardware.gpus, again.config.hardware.gpus_per_trial) == (32, 32)  # which were left open
    hardware = again.config.hardware.model_copy(update={"gpus": None, "gpus_per_trial": None})
    assert again.config.model_copy(update={"hardware": hardware}) == resolved.config


# What [cost] says of a run


def resolved(**sections: dict[str, Any]) -> Resolved:
    return resolve([Layer("test", {"budget": {"gpu_hours": 5000.0}, **sections})])


def executed(**sections: dict[str, Any]) -> Execution:
    return build_step(resolved(**sections))[2].execution


def test_the_section_reaches_every_command_that_prices() -> None:
    cost = {
        "packing": False,
        "micro_batch": 8,
        "lora_rank": 16,
        "rollout_precision": "fp8",
        "training_precision": "fp8",
    }
    usual = replace(USUAL, save_seconds=600.0, save_share=0.02)
    wanted = replace(usual, packing=False, micro_batch=8, lora_rank=16, fp8_rollouts=True, fp8_training=True)
    assert executed(cost=cost) == wanted
    request = build_request(resolved(cost=cost, axes={"recipes": ["easy", "scalerl"]}))
    assert [variant.traits.execution for variant in request.all_variants] == [wanted, wanted]
    assert executed() == usual
    often = executed(trainer={"save_seconds": 60})
    assert (often.save_seconds, often.save_share) == (60, None)


@pytest.mark.parametrize(
    ("reward", "seconds", "parallel"),
    [
        ({"reward": "judge", "reward_seconds": 30.0}, 30.0, 256),
        ({"reward": "sandbox", "reward_parallel": 8}, 1.0, 8),
        ({"reward_seconds": 0.01, "reward_parallel": 16}, 0.01, 16),
    ],
)
def test_a_kind_of_reward_has_seconds_which_can_be_given(reward: dict[str, Any], seconds: float, parallel: int) -> None:
    execution = executed(cost=reward)
    assert (execution.reward_seconds, execution.reward_parallel) == (seconds, parallel)


@pytest.mark.parametrize(
    ("workload", "waited"),
    [
        ({}, 0.0),
        ({"turns": 4}, 4.0),
        ({"turns": 4, "tool_seconds": 0.5}, 2.0),
        ({"most_turns": 10}, 6.0),  # a rollout that may have ten is expected to take six
        ({"most_turns": 10, "turns": 9}, 9.0),
    ],
)
def test_several_turns_wait_for_their_environment(workload: dict[str, Any], waited: float) -> None:
    assert build_request(resolved(workload=workload)).workload.turns.waited == waited


def test_turns_that_are_expected_leave_a_price_less_sure_than_turns_that_are_given() -> None:
    long = {"turn_tokens": 512, "tool_seconds": 20.0, "mean_response_tokens": 500}
    stated, guessed = (
        build_request(resolved(workload=long | turns)).coefficients for turns in ({"turns": 12}, {"most_turns": 20})
    )
    assert guessed.unmodelled_log_sd > stated.unmodelled_log_sd


@pytest.mark.parametrize(("trainer", "sends"), [("verl", True), ("prime-rl", True), ("trl", False)])
def test_whether_adapters_are_sent_alone_depends_on_the_trainer(trainer: str, sends: bool) -> None:
    assert executed(cost={"lora_rank": 32}, trainer={"name": trainer}).sends_adapters is sends


@pytest.mark.parametrize("cost", [{"packing": False}, {"rollout_precision": "fp8"}])
def test_our_own_trainer_on_a_cpu_refuses_what_it_does_not_do(cost: dict[str, Any]) -> None:
    tiny = {"hardware": {"gpu": "cpu", "gpus": 2}}
    with pytest.raises(ConfigError, match="on cpu our own trains all"):
        executed(cost=cost, **tiny)
    assert executed(cost={"reward_seconds": 0.5}, **tiny).reward_seconds == 0.5


def configured(*layers: Layer) -> Resolved:
    return resolve([Layer("rlplan.toml", BUDGET), *layers])


def in_file(**axes: Any) -> Resolved:
    return configured(Layer("rlplan.toml", {"axes": axes}))


def flags(**given: Any) -> list[Layer]:
    keys = {"recipe": "recipe.name", "recipes": "axes.recipes", "model": "workload.model", "models": "axes.models"}
    return flag_layer({keys[name]: (f"--{name}", value) for name, value in given.items()})


def test_several_values_are_an_axis_and_one_is_none() -> None:
    both = build_request(
        in_file(recipes=["easy", "scalerl"], models=["qwen3-4b", "qwen3-8b"], learning_rates=[3.0, 1.0])
    )
    assert len(both.all_variants) == 8
    assert both.all_variants[0].axes == (("recipe", "easy"), ("model", "qwen3-4b"), ("learning_rate", 1.0))
    assert {variant.workload.model.name for variant in both.all_variants} == {"qwen3-4b", "qwen3-8b"}
    one = build_request(in_file(recipes=["scalerl"], models=["qwen3-4b"], learning_rates=[3.0]))
    same = build_request(
        configured(
            Layer("rlplan.toml", {"recipe": {"name": "scalerl", "learning_rate": 3e-6}}),
            *flags(model="qwen3-4b"),
        )
    )
    assert one == same
    assert one.variants == ()
    searched = build_request(in_file(learning_rate_range=[0.3, 3.0]))
    assert (searched.learning_rate_range, searched.variants) == ((0.3, 3.0), ())


def test_one_value_is_stored_where_it_otherwise_stands() -> None:
    resolved = in_file(recipes=["scalerl"], learning_rate_range=[2.0, 2.0])
    values = resolved_values(build_request(resolved), resolved)
    assert "axes" not in values
    assert (values["recipe"]["name"], values["recipe"]["learning_rate"]) == ("scalerl", 2e-6)
    assert values["sources"]["recipe.name"] == "rlplan.toml"
    resolved = in_file(recipes=["easy", "scalerl"])
    assert resolved_values(build_request(resolved), resolved)["axes"]["recipes"] == ["easy", "scalerl"]


@pytest.mark.parametrize(
    ("layers", "recipe", "recipes"),
    [
        ([Layer("rlplan.toml", {"recipe": {"name": "grpo"}}), *flags(recipes=["easy", "scalerl"])], "grpo", 2),
        ([Layer("rlplan.toml", {"axes": {"recipes": ["easy", "scalerl"]}}), *flags(recipe="grpo")], "grpo", 0),
    ],
)
def test_a_flag_wins_over_the_file_in_either_form(layers: list[Layer], recipe: str, recipes: int) -> None:
    config = collapse_single_values(configured(*layers)).config
    assert config.recipe.name == recipe
    assert len(config.axes.recipes or ()) == recipes


@pytest.mark.parametrize(
    ("resolved", "message"),
    [
        (lambda: configured(*flags(recipe="grpo", recipes=["easy", "hard"])), "they say the same thing twice"),
        (lambda: in_file(recipes=[]), "axes.recipes is empty"),
        (lambda: in_file(recipes=["easy", "easy"]), "'easy' and 'easy' are both called 'easy'"),
        (lambda: in_file(learning_rates=[1.0], learning_rate_range=[0.3, 3.0]), "keep one"),
        (lambda: in_file(learning_rate_range=[3.0, 0.3]), "the least and the largest factor"),
        (lambda: in_file(learning_rates=[1.0, 1.0]), "give each factor of the learning rate once"),
        (lambda: in_file(learning_rates=[0.0]), "axes.learning_rates.0 = 0.0 should be greater than 0"),
        (lambda: in_file(recipes="easy"), "axes.recipes = 'easy' should be a valid list"),
        (lambda: in_file(recipes=["easy", "scalrl"]), "unknown recipe 'scalrl': did you mean 'scalerl'"),
    ],
)
def test_what_cannot_be_meant_is_refused(resolved: Any, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        build_request(resolved())
    assert message in str(refusal.value)


def test_growths_are_an_axis_by_the_name_they_are_stored_by() -> None:
    request = build_request(in_file(growths=["none", "4x@32"]))
    assert [variant.axes for variant in request.variants] == [(("growth", "none"),), (("growth", "4x"),)]
    assert [variant.axes for variant in build_request(in_file(growths=["8x"])).variants] == [(("growth", "8x"),)]
    assert build_request(in_file(growths=["none"])).variants == ()
    with pytest.raises(InputError, match="growth 'double' cannot be read"):
        build_request(in_file(growths=["double"]))
    with pytest.raises(ConfigError, match="are both called '4x'"):
        build_request(in_file(growths=["4x", "4x@32"]))
