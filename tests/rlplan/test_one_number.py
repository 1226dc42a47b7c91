"""One thing has one number on every page: plans, prices, checks and what trainers are given are compared."""

from pathlib import Path
from typing import Any

import pytest

from budgets.memory import engine_sizes, usual_engine
from planner.config import Layer, build_request, resolve
from planner.proposals.grid import price_cell
from planner.store.schema import Plan
from planner.view import Configuration
from rlplan.actions.step_price import price_one
from rlplan.actions.stored_plan import draft_plan
from runner.sweep.plan import SweepChoice, sweep_spec
from runner.trainers.job import validation_steps
from tests.rlplan.conftest import Run


def planned(folder: Path, **sections: dict[str, Any]) -> Plan:
    """Return a plan that is not stored; its sections are those of rlplan.toml."""
    return draft_plan(resolve([Layer("test", {"budget": {"gpu_hours": 5000.0}, **sections})]), str(folder / "none.db"))


@pytest.mark.parametrize("save_seconds", [None, 300.0])
def test_a_trainer_saves_as_often_as_its_plan_has_priced(save_seconds: float | None, tmp_path: Path) -> None:
    given = {} if save_seconds is None else {"save_seconds": save_seconds}
    plan = planned(tmp_path, trainer={"name": "standin", **given}, hardware={"gpus": 8})
    priced = plan.hardware["save_every_seconds"]
    assert priced == save_seconds or (save_seconds is None and priced > 600)
    trainer = sweep_spec(plan, SweepChoice(folder=tmp_path)).training.trainer
    assert trainer is not None
    assert trainer.saves_every == priced


@pytest.mark.parametrize(("recipe", "every", "updates"), [("dapo", 10, 16), ("dapo", 40, 32), ("grpo", 10, 10)])
def test_a_plan_prices_the_validations_that_its_trainer_makes_after_whole_batches(
    recipe: str, every: int, updates: int, tmp_path: Path
) -> None:
    """A trainer whose step is a batch of 16 updates validated every 16 where 10 were priced."""
    often, whole = (
        planned(
            tmp_path,
            recipe={"name": recipe},
            validation={"every_steps": steps},
            hardware={"gpus": 8},
            trainer={"name": "standin"},
        )
        for steps in (every, updates)
    )
    row, alike = often.candidates[0], whole.candidates[0]
    assert row.gpu_hours_per_step == alike.gpu_hours_per_step
    trial = sweep_spec(often, SweepChoice(folder=tmp_path)).trial(
        Configuration(row.rollouts_per_prompt, row.prompts_per_batch), 1e-6, 0
    )
    assert validation_steps(trial) == updates


VERL = """\
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files={data} data.val_files=test.parquet \\
    data.train_batch_size={batch} actor_rollout_ref.actor.ppo_mini_batch_size={mini} data.max_prompt_length=256 \\
    data.max_response_length={cap} actor_rollout_ref.model.path={model} actor_rollout_ref.rollout.n={n} \\
    actor_rollout_ref.rollout.val_kwargs.n=4 actor_rollout_ref.actor.optim.lr=1e-6 \\
    trainer.n_gpus_per_node={gpus} trainer.nnodes=1 trainer.test_freq=10 {rest}
"""


def script(**values: Any) -> str:
    """Return a script that starts verl."""
    usual = {"data": "train.parquet", "cap": 8192, "model": "Qwen/Qwen3-8B", "gpus": 8, "n": 8, "batch": 64, "rest": ""}
    return VERL.format(**usual | {"mini": values.get("batch", 64)} | values)


def test_the_first_screen_of_a_plan_says_which_facts_were_guessed_and_what_is_lost(run: Run) -> None:
    text = " ".join(run("propose", "--budget", "5000", "--gpus", "8").out.split())
    assert "6,000 prompts (--prompts)" in text
    assert "47 % of responses are cut off. Saves take 2 % of the time." in text
    known = ("--prompts", "17000", "--mean-response-tokens", "2000")
    text = " ".join(run("propose", "--budget", "5000", "--gpus", "8", *known).out.split())
    assert "(--prompts)" not in text
    assert "cut off" not in text
    assert run.json("propose", "--budget", "5000", *known)["workload"]["prompt_set_size"] == 17000


def test_a_run_of_months_by_the_name_of_its_data_is_flagged_with_the_flag_that_says_how_many_there_are(
    run: Run, tmp_path: Path
) -> None:
    text = script(data="dapo-math-17k.parquet", rest="trainer.total_epochs=1 trainer.save_freq=100")
    (tmp_path / "run.sh").write_text(text, encoding="utf-8")
    ran = run("check", "run.sh")
    assert {"length": "--prompts", "disk": "--prompts"}.items() <= flags_of(run).items()
    assert "1,790,000 prompts, by the name of the data. A guess: give --prompts." in " ".join(ran.out.split())
    assert not flags_of(run, "--prompts", "17000").keys() & {"length", "disk"}


def flags_of(run: Run, *words: str) -> dict[str, str | None]:
    """Return what is flagged of the script, and what would settle each."""
    document = run("check", "run.sh", *words, "--format", "json").json
    return {flag["name"]: flag["asks"] for flag in document["red_flags"] + document["likely_flags"]}


def test_what_a_plan_costs_is_what_it_spends(run: Run) -> None:
    few = run.json("propose", "--budget", "5000", "--gpus", "8", "--prompts", "2000")
    assert few["spent_gpu_hours"] < few["budget_gpu_hours"] - 100
    ran = run("propose", "--budget", "5000", "--gpus", "8", "--prompts", "2000")
    dollars = few["spent_gpu_hours"] * few["hardware"]["dollars_per_gpu_hour"]
    assert f"${dollars:,.0f}." in ran.out
    used = few["spent_gpu_hours"] - few["pilot_gpu_hours"]
    assert f"uses {used:,.0f} GPU-hours" in " ".join(ran.out.split())
    soon = run.json("propose", "--budget", "5000", "--gpus", "32", "--within", "3d")
    unspent = soon["deadline"]["unspent_gpu_hours"]
    assert unspent > 1000
    step = max(row["gpu_hours_per_step"] for row in soon["candidates"])  # what is less than a whole one is left over
    assert soon["spent_gpu_hours"] == pytest.approx(soon["budget_gpu_hours"] - unspent, abs=step)


MACHINES = [
    ("qwen2.5-1.5b", 8, "h100"),
    ("qwen3-8b", 8, "h100"),
    ("qwen3-8b", 4, "h200"),
    ("qwen2.5-7b", 16, "a100-80"),
]
SIZES = [(8, 64), (16, 128), (32, 32)]
RECIPES = {"grpo": 1, "gspo": 4, "dapo": 16, "scalerl": 1}  # and the updates of a batch that each makes
WAYS = [("grpo", "verl"), ("gspo", "verl"), ("grpo", "trl"), ("dapo", "openrlhf"), ("scalerl", "verl")]
TWENTY = [
    (machine, SIZES[(row + column) % len(SIZES)], way)
    for row, machine in enumerate(MACHINES)
    for column, way in enumerate(WAYS)
]


@pytest.mark.parametrize(("machine", "sizes", "way"), TWENTY)
def test_a_step_has_one_price_in_plans_prices_and_checks(
    machine: tuple[str, int, str], sizes: tuple[int, int], way: tuple[str, str], run: Run, tmp_path: Path
) -> None:
    (model, gpus, gpu), (n, B), (recipe, trainer) = machine, sizes, way
    mean, updates = 0.3 * 4096, RECIPES[recipe]
    # A script validates every so many batches, a plan every so many updates.
    text = f"[validation]\nevery_steps = {10 * updates}\n[workload]\npass_rate = 0.3\n"
    (tmp_path / "rlplan.toml").write_text(text, encoding="utf-8")
    sections = {
        "budget": {"gpu_hours": 5000.0},
        "workload": {"model": model, "response_tokens": 4096, "mean_response_tokens": mean, "pass_rate": 0.3},
        "hardware": {"gpu": gpu, "gpus": gpus, "gpus_per_trial": gpus},
        "recipe": {"name": recipe},
        "validation": {"every_steps": 10 * updates},
        "trainer": {"name": trainer},
    }
    resolved = resolve([Layer("test", sections)])
    request = build_request(resolved)
    row = price_cell(request, request.all_variants[0], n, B // request.traits.updates_per_batch)
    price = price_one(resolved, n, B, "none.db").price
    assert price.cost == row.cost  # seconds, phases, GPU-hours, layout and saves
    words = (
        "-n",
        f"{n}",
        "-B",
        f"{B}",
        "--model",
        model,
        "--gpu",
        gpu,
        "--gpus",
        f"{gpus}",
        "--response-tokens",
        "4096",
    )
    known = ("--mean-response-tokens", f"{mean}")
    page = run.json("price", *words, *known, "--recipe", recipe, "--trainer", trainer)
    assert page["prompts_per_batch"] == B
    assert page["gpu_hours_per_update"]["median"] == row.cost.gpu_hours_per_step
    if trainer != "verl" or recipe == "scalerl":
        return
    engine = usual_engine(
        request.workload, request.hardware.gpu, engine_sizes(request.workload, request.hardware.gpu, gpus)
    )
    sized = f"actor_rollout_ref.rollout.tensor_model_parallel_size={engine} trainer.total_training_steps=1000"
    asked = {"model": model, "gpus": gpus, "n": n, "batch": B, "mini": B // updates, "cap": 4096, "rest": sized}
    (tmp_path / "run.sh").write_text(script(**asked), encoding="utf-8")
    check = run("check", "run.sh", "--gpu", gpu, *known, "--format", "json").json
    assert check["updates_per_batch"] == page["updates_per_batch"] == updates
    phases = {phase["phase"]: phase["seconds"]["median"] for phase in page["phases"] if phase["phase"] != "save"}
    assert check["phases"] == pytest.approx(phases)
    assert check["seconds_per_step"]["median"] == pytest.approx(sum(phases.values()))
    assert sum(check["memory"]["training_bytes_per_gpu"].values()) == pytest.approx(
        page["memory"]["training_bytes_per_gpu"]
    )
    assert check["cut_off"] == request.workload.responses.truncated_share
    assert check["dead_groups"] == pytest.approx(1 - row.signal_fraction)
    dollars = check["gpu_hours"]["median"] * request.hardware.gpu.dollars_per_hour
    assert check["dollars"] == pytest.approx(dollars)


def test_the_batch_of_a_paper_is_typed_as_the_paper_writes_it(run: Run) -> None:
    words = ("--recipe", "dapo", "--gpus", "8")
    page = " ".join(run("price", "-n", "16", "-B", "512", *words).out.split())
    assert "n = 16, B = 512 (8,192 rollouts), 16 updates of 32 prompts each, recipe dapo" in page
    price = run.json("price", "-n", "16", "-B", "512", *words)
    plan = run.json("propose", "--budget", "5000", "--champion", "n=16,B=512", *words)
    row = next(each for each in plan["candidates"] if each["rank"] == plan["champion"]["rank"])
    assert (row["rollouts_per_prompt"], row["prompts_per_batch"], plan["updates_per_batch"]) == (16, 32, 16)
    assert row["gpu_hours_per_step"] == pytest.approx(price["gpu_hours_per_update"]["median"])
    text = " ".join(run("propose", "--budget", "5000", "--champion", "n=16,B=512", *words).out.split())
    assert "B and steps are of one of 16 updates of a batch" in text
    refused = run("price", "-n", "16", "-B", "100", *words)
    assert (refused.code, "give 96 or 112" in refused.err) == (2, True)


def test_the_rows_of_a_plan_are_those_of_its_ranking_and_its_report(run: Run, tmp_path: Path) -> None:
    plan = run.json("propose", "--budget", "2000", "--gpus", "16", "--gpu", "h200")
    ranking = run.json("rank", plan["plan"])
    ranked = {row["rank"]: row for row in ranking["ranking"]}
    report = run("report", "report.html", plan["plan"])
    assert report.code == 0, report.err
    first = plan["candidates"][0]
    assert f"{first['update_steps']:,}" in (tmp_path / "report.html").read_text(encoding="utf-8")
    for row in plan["candidates"]:
        for name in ("rollouts_per_prompt", "prompts_per_batch", "update_steps", "learning_rate"):
            assert ranked[row["rank"]][name] == row[name]
        assert ranked[row["rank"]]["expected_score"] == pytest.approx(row["expected_score"]["median"])
        price = ("-n", f"{row['rollouts_per_prompt']}", "-B", f"{row['prompts_per_batch']}", "--gpu", "h200")
        if row["rank"] == plan["champion"]["rank"]:
            page = run.json("price", *price, "--gpus", f"{plan['hardware']['gpus_per_trial']}")
            assert page["gpu_hours_per_step"]["median"] == pytest.approx(row["gpu_hours_per_step"])


@pytest.mark.parametrize(
    ("trainer", "start"),
    [
        ("verl", "python3 -m verl.trainer.main_ppo"),
        ("openrlhf", "python3 -m openrlhf.cli.train_ppo_ray --actor.colocate_all"),
        ("trl", None),  # its launcher is printed
    ],
)
def test_what_a_plan_prints_for_a_trainer_is_checked_as_the_plan_has_it(
    run: Run, tmp_path: Path, trainer: str, start: str | None
) -> None:
    plan = run.json("propose", "--budget", "5000", "--model", "qwen3-8b", "--response-tokens", "4096")
    printed = run.json("launch", "plan-1", "--print", trainer)
    (tmp_path / "run.sh").write_text(" ".join((start or printed["launcher"], *printed["arguments"])))
    checked = run("check", "run.sh", "--format", "json").json
    row = next(row for row in plan["candidates"] if (row["rollouts_per_prompt"], row["prompts_per_batch"]) == (8, 64))
    sizes = ("rollouts_per_prompt", "prompts_per_batch")
    assert [checked[name] for name in sizes] == [row[name] for name in sizes]
    machine = ("model", "gpus", "response_tokens")
    assert [checked[name] for name in machine] == ["qwen3-8b", plan["hardware"]["gpus_per_trial"], 4096]
    whole = checked["epochs"] if trainer == "openrlhf" else 1  # that ends with its episodes, each of whole batches
    assert 0 <= checked["steps"] - row["update_steps"] < whole
    assert checked["mean_response_tokens"] == pytest.approx(plan["workload"]["mean_response_tokens"])
    flags = {flag["name"] for flag in checked["red_flags"]}
    assert flags <= {"cut off", "data"}  # the plan's own cut-off; the data are the user's to name


@pytest.mark.parametrize(("strategy", "waits"), [("megatron", False), ("fsdp", True)])
def test_training_waits_for_no_asynchronous_save_of_a_trainer_that_has_them(
    strategy: str, waits: bool, run: Run, tmp_path: Path
) -> None:
    key = "actor_rollout_ref.actor.checkpoint.async_save"
    rest = f"actor_rollout_ref.actor.strategy={strategy} {key}=True trainer.save_freq=1 trainer.total_training_steps=9"
    (tmp_path / "run.sh").write_text(script(rest=rest), encoding="utf-8")
    ran = run("check", "run.sh", "--mean-response-tokens", "2000", "--explain")
    assert ("saving" in flags_of(run, "--mean-response-tokens", "2000")) == waits
    text = " ".join(ran.out.split())
    assert ("written beside training" in text) != waits
    assert (f"{key} is for Megatron alone: no restart finds what is saved otherwise" in text) == waits


def test_what_generates_beside_the_training_is_printed_for_trainers_that_can_and_says_so(run: Run) -> None:
    run.json("propose", "--budget", "5000", "--gpus", "16", "--recipe", "scalerl")
    refused = run("launch", "plan-1", "--print", "trl")
    assert (refused.code, "recipe 'scalerl' generates while it trains" in refused.err) == (2, True)
    assert "engines have GPUs of their own" in run.json("launch", "plan-1", "--print", "verl")["note"]


SERVED = """\
{serve}accelerate launch --num_processes 6 grpo.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct --use_vllm true \\
    --vllm_mode {mode} --per_device_train_batch_size 8 --num_generations 8 --max_completion_length 2048
"""


@pytest.mark.parametrize(
    ("mode", "serve", "code"),
    [
        ("server", "trl vllm-serve --model Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 2 &\n", 2),
        ("server", "", 2),
        ("colocate", "", 0),
    ],
)
def test_a_script_whose_engine_has_gpus_of_its_own_is_not_printed_with_a_shared_one(
    mode: str, serve: str, code: int, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "run.sh").write_text(SERVED.format(mode=mode, serve=serve), encoding="utf-8")
    propose = ("propose", "--budget", "1000", "--from", "run.sh", "--gpu", "h100")
    assert run(*propose).code == 0
    printed = run("launch", "plan-1", "--print", "trl")
    assert (printed.code, "vLLM on GPUs of its own" in printed.err) == (code, code == 2)
    assert ("--vllm_mode colocate" in printed.out) == (code == 0)
