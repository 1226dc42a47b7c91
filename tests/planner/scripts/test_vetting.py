"""What is said of launches that went wrong in public, and of one that did not; what would have helped them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.config.layers import flag_layer, resolve
from planner.proposals.grid import PricedGrid, price_cells
from planner.proposals.request import Request
from planner.rules import GridBounds
from planner.scripts.changes import Checked, check
from planner.scripts.launch import Launch, configured, launch_of
from planner.scripts.settings import GpuSplit, ScriptFacts, Settings
from planner.scripts.verdict import verdict

SETTINGS = Settings(
    rollouts_per_prompt=8,
    prompts_per_batch=128,
    learning_rate=1e-6,
    model="Qwen/Qwen2.5-7B",
    gpus=16,
    response_tokens=8192,
)


def launch(
    settings: Settings = SETTINGS,
    updates: int = 1,
    values: dict[str, Any] | None = None,
    trainer: str = "verl",
    **flags: Any,
) -> Launch:
    facts = ScriptFacts(
        trainer,
        settings,
        GpuSplit(updates=updates),
        {"update_steps": 300, "save_every": 100, **(values or {})},
        dict.fromkeys(values or {}, "k"),
    )
    given = {f"workload.{name}": (f"--{name}", value) for name, value in flags.items()}
    resolved = resolve(flag_layer({**configured(facts, "qwen2.5-7b"), **given}))
    return launch_of(facts, resolved)


def flags(found: Checked) -> list[str]:
    return [flag.name for flag in found.verdict.flags]


def changed(found: Checked) -> dict[str, Any]:
    return {each.name: each.after for each in found.improvements}


def test_a_sound_launch_has_no_red_flag_and_says_what_it_takes() -> None:
    found = check(launch(mean_response_tokens=2000.0, pass_rate=0.4)).verdict

    assert found.flags == ()
    assert found.memory.fits
    assert found.memory.used == pytest.approx(16 * 7.6e9 / 16 + found.memory.training["activations"], rel=0.02)
    seconds, hours, gpu_hours = found.step_seconds, found.hours, found.gpu_hours
    assert hours is not None
    assert gpu_hours is not None
    assert hours[0] == pytest.approx((300 * seconds[0] + found.price.cost.start_up_seconds) / 3600)
    assert gpu_hours[0] == pytest.approx(16 * hours[0])
    assert hours[1] < hours[0] < hours[2]
    assert found.dollars == pytest.approx(gpu_hours[0] * found.launch.hardware.gpu.dollars_per_hour)


def test_responses_that_are_cut_off_by_more_than_half_get_room() -> None:
    found = check(launch(replace(SETTINGS, response_tokens=4096), mean_response_tokens=3400.0))

    assert found.verdict.cut_off == pytest.approx(0.55, abs=0.05)
    assert flags(found) == ["cut"]
    (first, *_) = found.improvements
    assert (first.name, first.cleared) == ("response_tokens", ("cut",))
    assert first.verdict.cut_off < 0.2
    assert first.saved < 0


def test_a_guess_stops_no_launch_but_asks_where_even_its_best_end_is_bad() -> None:
    roomy, narrow = (check(launch(replace(SETTINGS, response_tokens=tokens))).verdict for tokens in (1024, 256))
    known = check(launch(replace(SETTINGS, response_tokens=1024), mean_response_tokens=900.0)).verdict

    assert roomy.flags == ()
    assert [flag.asks for flag in narrow.flags] == ["--mean-response-tokens"]
    assert (narrow.stops, known.stops) == (False, True)


def test_two_rollouts_at_a_pass_rate_of_18_in_100_leave_70_in_100_groups_dead(tmp_path: Path) -> None:
    rates = tmp_path / "rates.txt"
    rates.write_text("0.18\n" * 50)
    found = check(
        launch(replace(SETTINGS, rollouts_per_prompt=2), mean_response_tokens=900.0, pass_rates_file=str(rates))
    )

    assert found.verdict.dead_groups == pytest.approx(0.7, abs=0.01)
    assert flags(found) == ["dead"]
    assert changed(found)["rollouts_per_prompt"] in (4, 8, 16)
    unknown = check(launch(replace(SETTINGS, rollouts_per_prompt=2))).verdict
    assert (unknown.surely_dead, unknown.stops) == (0.5, True)


def test_a_mini_batch_of_a_quarter_makes_four_updates_at_the_rate_of_its_own_rollouts() -> None:
    whole, quarters = launch(), launch(updates=4)
    twice = launch(updates=4, values={"updates_per_batch": 8})

    found = check(quarters).verdict
    assert (quarters.updates, found.staleness) == (4, 3)
    assert quarters.rule_rate == pytest.approx(whole.rule_rate / 2)
    assert found.step_seconds[0] == pytest.approx(check(whole).verdict.step_seconds[0], rel=0.2)
    assert (twice.updates, twice.update.prompts_per_batch) == (8, quarters.update.prompts_per_batch)
    assert check(twice).verdict.step_seconds[0] > found.step_seconds[0]


def test_lora_saves_memory_and_no_time() -> None:
    lora = replace(SETTINGS, learning_rate=1e-5)
    short: dict[str, Any] = {"trainer": "nemo-rl", "mean_response_tokens": 900.0}
    whole = {"sharding": "megatron"}  # of which nothing is gathered
    with_it = check(launch(lora, values={"lora_rank": 32, **whole}, **short))
    without = check(launch(values=whole, **short))

    assert with_it.verdict.memory.used < without.verdict.memory.used
    assert with_it.verdict.step_seconds[0] > without.verdict.step_seconds[0]
    assert with_it.verdict.rate_factor == pytest.approx(without.verdict.rate_factor)
    assert "lora_rank" not in changed(with_it)  # what it costs is less than the price may be off by


def test_what_is_not_sharded_does_not_fit_and_sharding_it_does() -> None:
    found = check(launch(values={"sharding": "ddp"}, mean_response_tokens=2000.0))

    assert flags(found) == ["memory"]
    assert changed(found)["sharding"] == "zero3"
    assert check(launch(values={"sharding": "zero2", "optimizer_offload": True})).verdict.memory.training.keys() == {
        "weights",
        "gradients",
        "activations",
    }


def test_each_stage_of_zero_shards_what_it_says() -> None:
    by_stage = {
        stage: check(launch(values={"sharding": stage})).verdict.memory.training for stage in ("zero1", "zero2")
    }
    sharded = check(launch(values={"sharding": "zero3"})).verdict.memory.training
    assert by_stage["zero1"]["gradients"] > by_stage["zero2"]["gradients"] == sharded["gradients"]
    assert by_stage["zero1"]["weights"] == by_stage["zero2"]["weights"] > sharded["weights"]
    assert by_stage["zero1"]["optimizer"] == sharded["optimizer"]
    offloaded = check(launch(values={"sharding": "zero1", "optimizer_offload": True})).verdict.memory.training
    assert "optimizer" not in offloaded


def test_with_megatron_weights_are_spread_over_tensor_and_pipeline_alone() -> None:
    values = {"sharding": "megatron", "train_tensor_parallel": 2, "train_pipeline_parallel": 2}
    spread, all_over = (check(launch(values=each)).verdict.memory.training for each in (values, {"sharding": "fsdp"}))

    assert spread["weights"] == pytest.approx(all_over["weights"] * 16 / 4)
    assert spread["optimizer"] == all_over["optimizer"]
    assert spread["activations"] < all_over["activations"]


@pytest.mark.parametrize(
    ("values", "flag"),
    [
        ({"lr_schedule": "cosine", "schedule_steps": 1000}, "schedule"),
        ({"lr_schedule": "cosine", "schedule_steps": 300}, None),
        ({"lr_schedule": "constant", "schedule_steps": 1000}, None),
        ({"resume": True, "save_every": 0}, "resume"),
        ({"resume": False, "save_every": 50}, None),
        ({"resume": True, "save_every": 50}, None),
    ],
)
def test_schedules_and_resumes_are_held_against_the_run(values: dict[str, Any], flag: str | None) -> None:
    found = check(launch(values=values, mean_response_tokens=2000.0))
    assert flags(found) == ([flag] if flag else [])
    if flag == "schedule":
        assert changed(found)["schedule_steps"] == 300


def test_the_steps_of_another_scheduler_say_nothing() -> None:
    values = {"update_steps": 300, "lr_schedule": "linear", "schedule_steps": 1000}
    keys = {"lr_schedule": "policy.scheduler.name", "schedule_steps": "policy.megatron.scheduler.iters"}
    facts = ScriptFacts("nemo-rl", SETTINGS, GpuSplit(), values, keys)
    resolved = resolve(flag_layer(configured(facts, "qwen2.5-7b")))

    assert launch_of(facts, resolved).schedule_steps is None
    assert launch_of(replace(facts, values={**values, "staleness": 2}), resolved).traits.staleness_bound == 0
    split = GpuSplit(generator_gpus=8, asynchronous=True)
    assert launch_of(replace(facts, values={"staleness": 2}, split=split), resolved).traits.staleness_bound == 2


def test_validations_checkpoints_and_epochs_are_counted() -> None:
    values = {"validation_every": 5, "save_every": 100, "keep_checkpoints": 2, "dataset": ["a/gsm8k/train.parquet"]}
    found = check(launch(values=values, mean_response_tokens=2000.0, pass_rate=0.5)).verdict

    assert found.epochs == pytest.approx(128 * 300 / 7473)
    assert 0 < found.validation_share < 1
    assert found.visible_difference == pytest.approx(1.6449 * (2 * 0.25 / (4 * 1319)) ** 0.5)
    assert found.checkpoints is not None
    assert found.checkpoints[0] == 2


def test_a_budget_reaches_what_a_proposal_expects_of_the_same_allocation() -> None:
    one = launch(mean_response_tokens=2000.0, pass_rate=0.4, values={"save_every": 0})
    found = check(one, budget=500.0)
    sizes = {"rollouts_per_prompt": 8, "prompts_per_batch": 128}
    bounds = GridBounds(**{f"{end}_{name}": size for name, size in sizes.items() for end in ("fewest", "most")})
    request = Request(500.0, one.workload, one.hardware, one.traits, "easy", grid=bounds, coefficients=one.coefficients)
    (cell,) = PricedGrid(price_cells(request)).ranked(500.0)

    assert found.budget_steps == cell.affordable_steps
    assert found.score is not None
    assert found.score.median == pytest.approx(cell.expected, abs=1e-5)


@pytest.mark.parametrize(
    ("learning_rate", "flagged"), [(1e-5, True), (1.4e-6, False), (1e-6, False), (5e-7, False), (2e-8, True)]
)
def test_a_rate_at_which_nothing_is_learnt_is_a_red_flag_and_the_rule_s_the_remedy(
    learning_rate: float, flagged: bool
) -> None:
    found = check(launch(replace(SETTINGS, learning_rate=learning_rate), mean_response_tokens=2000.0, pass_rate=0.4))

    assert ("rate" in flags(found)) == flagged
    if flagged:
        assert changed(found)["learning_rate"] == pytest.approx(found.verdict.launch.rule_rate, rel=0.05)


@pytest.mark.parametrize("pass_rate", [0.05, 0.3, 0.45])
@pytest.mark.parametrize("learning_rate", [1e-6, 1e-5, 3e-5])
def test_a_score_lies_within_its_interval(pass_rate: float, learning_rate: float) -> None:
    score = check(launch(replace(SETTINGS, learning_rate=learning_rate), pass_rate=pass_rate)).score

    assert score is not None
    assert score.low <= score.median <= score.high


@pytest.mark.parametrize(
    ("trainer", "sizes", "values", "refused", "remedy"),
    [
        ("verl", (8, 100), {"update_rollouts": 8 * 64}, "B = 100 is no multiple of the mini-batch of 64", 8 * 50),
        ("verl", (8, 64), {"update_rollouts": 8 * 256}, "B = 64 is less than the mini-batch of 256", 8 * 64),
        ("verl", (5, 100), {}, "5 × 100 = 500 rollouts are not shared out evenly to 16 GPUs", None),
        ("verl", (8, 64), {"micro_batch_sequences": 5}, "not shared out evenly to 16 GPUs in passes of 5", None),
        ("openrlhf", (8, 64), {"update_rollouts": 100}, "512 rollouts are no multiple of the mini-batch of 100", 128),
        ("openrlhf", (8, 64), {"update_rollouts": 128, "micro_batch_sequences": 3}, "in passes of 3", None),
        (
            "trl",
            (7, 36),
            {"batch_rollouts": 256, "device_batch": 4},
            "256 rollouts a batch are no multiple of n = 7",
            8,
        ),
    ],
)
def test_sizes_that_a_trainer_s_own_assertions_refuse_are_named_with_the_nearest_that_it_takes(
    trainer: str, sizes: tuple[int, int], values: dict[str, Any], refused: str, remedy: int | None
) -> None:
    settings = replace(SETTINGS, rollouts_per_prompt=sizes[0], prompts_per_batch=sizes[1])
    found = check(launch(settings, values=values, trainer=trainer, mean_response_tokens=2000.0))

    assert refused in next(flag.why for flag in found.verdict.flags if flag.name == "sizes")
    if remedy is not None:
        assert changed(found)["rollouts_per_prompt" if trainer == "trl" else "update_rollouts"] == remedy
        assert found.together is not None
        assert "sizes" not in [flag.name for flag in verdict(found.together).flags]


@pytest.mark.parametrize(
    ("values", "flag", "name"),
    [
        ({"save_every": 0}, "saves", "save_every"),
        ({"save_every": 1, "keep_checkpoints": 2}, "saving", "save_every"),
        ({"save_every": 0, "resume": True}, "resume", "save_every"),
        ({"validation_every": 1, "validation_problems": 2000}, "validation", "validation_every"),
        ({"validation_every": 50, "validation_data": False}, "data", "validation_every"),
    ],
)
def test_what_is_saved_and_validated_too_often_or_not_at_all_has_a_remedy(
    values: dict[str, Any], flag: str, name: str
) -> None:
    found = check(launch(values=values, mean_response_tokens=2000.0))

    assert flags(found) == [flag]
    assert name in changed(found)
    assert found.together is not None
    assert verdict(found.together).flags == ()


def test_two_rollouts_on_hard_problems_are_told_what_eight_and_sixteen_would_leave() -> None:
    found = check(launch(replace(SETTINGS, rollouts_per_prompt=2), mean_response_tokens=2000.0, pass_rate=0.03))

    (why,) = [flag.why for flag in found.verdict.flags if flag.name == "dead"]
    assert "at n = 8" in why
    assert "at n = 16" in why
    assert changed(found)["rollouts_per_prompt"] == 16


def test_a_change_that_saves_less_than_the_price_may_be_off_by_is_not_offered() -> None:
    found = check(launch(values={"engine_tensor_parallel": 2, "validation_every": 30}, mean_response_tokens=2000.0))

    median, _, high = found.verdict.step_seconds
    assert all(each.cleared or each.saved >= 1 - median / high for each in found.improvements if each.saved > 0)
    assert "engine_tensor_parallel" not in changed(found)


def test_no_change_raises_a_red_flag_and_each_is_on_a_value_of_its_own() -> None:
    found = check(launch(replace(SETTINGS, rollouts_per_prompt=2, response_tokens=2048), pass_rate=0.18))

    assert 1 <= len(changed(found)) == len(found.improvements) <= 3
    for each in found.improvements:
        assert {flag.name for flag in each.verdict.flags} <= set(flags(found))
