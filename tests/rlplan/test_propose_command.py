import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from planner.store import open_store, sweeps
from rlplan.actions.calibration import calibration_of
from tests.planner.proposals.requests import request
from tests.planner.store import samples
from tests.rlplan.conftest import Run


def test_what_somebody_runs_is_a_row_of_its_own_and_more_rows_can_be_had(run: Run, tmp_path: Path) -> None:
    plan = run.json("propose", "--budget", "5000", "--baseline", "n=8, B=500")
    (usual,) = plan["baselines"]
    assert usual["asked"] == {"rollouts_per_prompt": 8, "prompts_per_batch": 500}
    row = plan["candidates"][usual["rank"] - 1]
    assert (row["rollouts_per_prompt"], row["prompts_per_batch"], row["baseline"]) == (8, 500, True)
    sentence = run(
        "propose", "--budget", "5000", "--baseline", "n=2, B=64", "--explore", "--top", "2", "--explain"
    ).text
    assert re.search(r"; row \d+ \(\*\), nearest to n = 2, B = 64, is ", sentence)
    assert "more rows: --top" in sentence
    (tmp_path / "rlplan.toml").write_text("[grid]\nmost_rollouts_per_prompt = 16\n")
    whole = run("propose", "--budget", "5000", "--top", "999", "--explore", "--explain").text
    assert "n = 16 is the largest of the grid ([grid])." in whole
    assert "more rows: --top" not in whole


def test_a_plan_without_pilots_names_what_runs_its_first_row(run: Run) -> None:
    out = run("propose", "--task", "sum-easy", "--budget", "0.02", "--explore", "--pilot-fraction", "0").out
    assert "\n  rlplan launch plan-1\n" in out
    assert (
        "rlplan launch plan-2 --print verl"
        in run("propose", "--budget", "500", "--explore", "--pilot-fraction", "0").out
    )
    assert run("launch", "plan-2", "--print", "verl").code == 0
    third = run.json("launch", "plan-2", "--print", "slime", "--row", "3")["row"]
    assert third["rank"] == 3
    named = f"n={third['rollouts_per_prompt']},B={third['prompts_per_batch']}"
    assert run.json("launch", "plan-2", "--print", "slime", "--allocation", named)["row"] == third
    assert "`rlplan launch plan-2`" in run("sweep", "plan-2").err


def test_the_stored_plan_holds_the_resolved_configuration_and_its_sources(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rlplan.toml").write_text("[hardware]\ngpus = 32\n")
    run("propose", "--budget", "5000", "--gpu", "h200")
    with sqlite3.connect(tmp_path / "rlplan.db") as database:
        config = json.loads(database.execute("select config from plans").fetchone()[0])
    database.close()
    chosen = config["hardware"].pop("gpus_per_trial")
    assert chosen in (8, 16, 32)
    assert config["hardware"] == {"gpu": "h200", "gpus": 32, "gpus_per_node": None, "count_busy_only": False}
    assert config["sources"]["hardware.gpu"] == "--gpu"
    assert config["sources"]["hardware.gpus"] == "rlplan.toml"


def test_a_file_names_the_task_and_the_budget(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[workload]\ntask = "sum-hard"\n[budget]\ngpu_hours = 0.05\n')
    plan = run.json("propose", "--config", "own.toml")
    assert (plan["difficulty"], plan["budget_gpu_hours"], plan["hardware"]["gpu"]) == ("hard", 0.05, "cpu")


def test_a_local_config_json_is_a_model(run: Run, tmp_path: Path) -> None:
    shape = {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8}
    shape |= {"intermediate_size": 8192, "vocab_size": 128256, "max_position_embeddings": 131072}
    shape |= {"tie_word_embeddings": True}
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(shape))
    plan = run.json("propose", "--budget", "5000", "--model", "./my-model")
    assert plan["workload"]["model"] == "my-model"
    assert plan["workload"]["parameters"] == pytest.approx(1.236e9, rel=0.001)


@pytest.mark.parametrize("further", [["--gpus", "24"], ["--model", "qwen2.5-14b", "--recipe", "scalerl"]])
def test_the_offer_of_a_refusal_works_as_it_is_typed(run: Run, further: list[str]) -> None:
    refused = run("propose", "--budget", "10", "--gpus-per-trial", "24" if "24" in further else "64", *further)
    offer = re.search(r"or ([\d,]+) with --gpus-per-trial (\d+)", refused.err)
    assert offer is not None
    budget, gpus = offer[1].replace(",", ""), offer[2]
    assert gpus in ("1", "2", "4", "8", "16", "32")
    assert run("propose", "--budget", budget, "--gpus-per-trial", gpus, *further).code == 0


def test_measured_steps_say_how_long_responses_are_unless_that_is_given(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_store(tmp_path / "rlplan.db") as store:
        lengths = (500.0, 600.0, 1400.0, 1450.0, 1500.0, 1550.0)
        of = {"source": "/runs/verl.log", "steps": 40}
        growing = [samples.cost_record(**of, mean_response_tokens=tokens) for tokens in lengths]
        samples.put(store, sweeps.add_cost_records, growing)

    def assumed(*flags: str) -> dict[str, Any]:
        plan = run.json("propose", "--budget", "5000", "--db", "~/rlplan.db", *flags)
        told = {each["what"]: (each["value"], each["source"]) for each in plan["assumptions"]}
        return told | {"mean": plan["workload"]["mean_response_tokens"]}

    measured, given = assumed(), assumed("--mean-response-tokens", "2400")
    assert measured["mean"] == pytest.approx(1500, rel=0.03)  # as they ended
    assert measured["responses"][1].startswith("measured within × ")
    assert measured["responses"][1].endswith("(90 %): 240 steps of verl.log, 8 h100")
    assert measured["cost of a step"][1] == "calibrated by 240 steps of verl.log, 8 h100"
    assert (given["mean"], given["responses"][1]) == (2400, "--mean-response-tokens")
    assert given["cost of a step"][1] == "calibrated by 240 steps of verl.log, 8 h100"
    price = run.json("price", "--db", "sqlite:///rlplan.db")
    told = {each["what"]: each["source"] for each in price["assumptions"]}
    assert told["cost of a step"] == "calibrated by 240 steps of verl.log, 8 h100"
    assert told["responses"] == measured["responses"][1]
    quick = ("--draws", "1", "--policy", "full", "--pilot-fractions", "0.1")
    assert run("preview", *quick, "--db", "sqlite:///rlplan.db").code == 0


def test_steps_of_a_named_sweep_or_database_count_instead_of_all_steps(run: Run, tmp_path: Path) -> None:
    for database, tokens in (("rlplan.db", (900.0, 1500.0)), ("old.db", (3000.0,))):
        with open_store(tmp_path / database) as store:
            for number, mean in enumerate(tokens, start=1):
                trial = samples.started_trial(store)
                record = samples.cost_record(trial_id=trial, steps=10 * number, mean_response_tokens=mean)
                samples.put(store, sweeps.add_cost_records, [record])

    def assumed(*names: str) -> tuple[float, str]:
        plan = run.json("propose", "--budget", "5000", *(part for name in names for part in ("--learn-from", name)))
        (source,) = (each["source"] for each in plan["assumptions"] if each["what"] == "cost of a step")
        return plan["workload"]["mean_response_tokens"], source.removeprefix("calibrated by ")

    two = "20 steps of sweep-2, 8 h100"
    assert assumed() == (pytest.approx((900 * 1500) ** 0.5), f"{two}; 10 steps of sweep-1, 8 h100")
    assert assumed("sweep-2") == (pytest.approx(1500), two)
    assert assumed("old.db") == (pytest.approx(3000), "10 steps of sweep-1, 8 h100 in old.db")
    both = assumed("sweep-2", "old.db")
    assert both == (pytest.approx((1500 * 3000) ** 0.5), f"{two}; 10 steps of sweep-1, 8 h100 in old.db")
    mean, source = assumed("none")
    assert mean not in (900, 1500, 3000)
    assert source.startswith("not measured yet")
    # Also where there is no database yet.
    fresh = run.json("propose", "--budget", "5000", "--db", "new.db", "--learn-from", "old.db")
    assert fresh["workload"]["mean_response_tokens"] == pytest.approx(3000)


def test_a_recipe_of_ones_own_is_priced_as_its_file_says(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('inherits = "easy"\n[objective]\nkl = 0.0\n')
    own, shipped, cheaper = (
        run.json("propose", "--budget", "5000", "--recipe", name) for name in ("my.toml", "easy", "dr-grpo")
    )
    assert own["recipe"] == "my"
    priced = [entry["candidates"][0]["gpu_hours_per_step"] for entry in (own, shipped, cheaper)]
    assert priced[0] == pytest.approx(priced[2])
    assert priced[0] < priced[1]
    assumed = next(entry for entry in own["assumptions"] if entry["what"] == "recipe")
    assert (assumed["value"], assumed["source"]) == ("my (synchronous)", "--recipe")
    (tmp_path / "rlplan.toml").write_text('[recipe]\nname = "my.toml"\n')
    assert run.json("propose", "--budget", "5000")["recipe"] == "my"


def test_a_measured_step_counts_as_its_own_recipe_and_an_unknown_one_as_the_requested() -> None:
    def learned(recorded: str, requested: str) -> list[float]:
        asked = request(recipe=requested)
        record = samples.cost_record(recipe=recorded, seconds={"generate": 30.0, "train": 10.0})
        calibration = calibration_of([record], asked.workload, asked.hardware.gpu, asked.traits)
        return list(calibration.coefficients.log_mean.values())

    assert learned("dapo", "grpo") == learned("dapo", "dapo") != learned("grpo", "grpo")
    assert learned("ours.toml", "dapo") == learned("dapo", "dapo")
    assert learned("ours.toml", "grpo") == learned("grpo", "grpo")


def test_the_flag_of_pilots_takes_what_its_key_takes(run: Run, tmp_path: Path) -> None:
    asked = ("propose", "--task", "sum-easy", "--budget", "0.03")
    (tmp_path / "rlplan.toml").write_text('[pilot]\nfraction = "auto"\n')
    by_key = run.json(*asked)
    (tmp_path / "rlplan.toml").write_text("[pilot]\nfraction = 0.4\n")
    by_flag = run.json(*asked, "--pilot-fraction", "auto")
    assert by_flag["pilot_gpu_hours"] == by_key["pilot_gpu_hours"] < run.json(*asked)["pilot_gpu_hours"]
    assert run("sweep", *asked[1:], "--pilot-fraction", "auto", "--dry-run").code == 0
    refused = run(*asked, "--pilot-fraction", "best")
    assert (refused.code, refused.err) == (
        2,
        "rlplan: --pilot-fraction 'best' is not a number: write it as a plain number, such as 0.25, or auto\n",
    )
