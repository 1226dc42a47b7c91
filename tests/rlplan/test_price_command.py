import csv
import json
from pathlib import Path
from typing import Any

import pytest

import rlplan
from tests.rlplan.conftest import Run


def test_changes_are_sorted_by_what_they_save_and_are_the_price_of_what_they_name(run: Run) -> None:
    base = run.json("price", "-n", "16", "-B", "128", "--gpus", "64")
    halved = run.json("price", "-n", "16", "-B", "128", "--gpus", "32")

    saved = [change["gpu_seconds_per_rollout_saved"] for change in base["changes"]]
    named = {change["what"]: change for change in base["changes"]}

    assert saved == sorted(saved, reverse=True)
    assert named["32 GPUs"]["seconds_per_step"] == pytest.approx(halved["seconds_per_step"]["median"])
    layouts = {"128 GPUs", "32 GPUs", "asynchronous", "n = 32", "B = 256"}
    assert layouts | {"fp8 rollouts", "LoRA, rank 32"} == set(named)


def test_a_plan_and_a_price_say_one_number_for_one_thing(run: Run) -> None:
    plan = run.json("propose", "--budget", "5000")
    first = plan["candidates"][0]
    n, B = first["rollouts_per_prompt"], first["prompts_per_batch"]

    price = run.json("price", "-n", str(n), "-B", str(B), "--gpus", str(plan["hardware"]["gpus_per_trial"]))

    assert price["gpu_hours_per_step"]["median"] == pytest.approx(first["gpu_hours_per_step"])


def test_python_answers_what_the_command_does(run: Run) -> None:
    assert rlplan.price(8, 64, gpus=32).to_dict() == run.json("price", "-n", "8", "-B", "64", "--gpus", "32")


RUN = {
    "row_id": "a",
    "framework": "verl",
    "model_shape": "qwen3-8b",
    "gpu_kind": "h100",
    "gpu_count": "16",
    "rollouts_per_prompt": "16",
    "prompts_per_batch": "64",
    "mean_prompt_tokens": "128",
    "mean_response_tokens": "1100",
    "max_response_tokens": "4096",
    "seconds_per_step": "90",
}


def table(path: Path, *rows: dict[str, str]) -> str:
    file = path / "runs.csv"
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, columns)
        writer.writeheader()
        writer.writerows(rows)
    return file.name


def test_tokens_of_a_service_are_priced_beside_gpu_hours(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rlplan.toml").write_text("[cost]\nper_million = {prefill = 0.1, sample = 0.4, train = 1}\n")
    flags = ("-n", "4", "-B", "10", "--mean-response-tokens", "900", "--prompt-tokens", "100", "--recipe", "dr-grpo")

    document = run.json("price", *flags)

    assert document["tokens"] == pytest.approx({"prefill": 4000, "sample": 36_000, "train": 40_000})
    assert document["dollars_by_tokens"] == pytest.approx(0.1 * 0.004 + 0.4 * 0.036 + 0.04)
    assert "By tokens: $0.0548 a step" in run("price", *flags).out


def test_a_plan_says_the_dollars_of_tokens_that_a_price_says(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rlplan.toml").write_text("[cost]\nper_million = {sample = 0.4}\n")
    plan = run.json("propose", "--budget", "5000")
    first = next(row for row in plan["candidates"] if row["rank"] == plan["champion"]["rank"])
    size = ("-n", str(first["rollouts_per_prompt"]), "-B", str(first["prompts_per_batch"]))

    assert first["dollars_by_tokens"] == pytest.approx(run.json("price", *size)["dollars_by_tokens"])
    shown = next(
        line
        for line in run("propose", "--budget", "5000", "--explain").out.splitlines()
        if line.strip().startswith("tokens")
    )
    assert f"${first['dollars_by_tokens']:.3g} a step of row {first['rank']}" in shown


def test_a_log_tells_how_long_responses_are(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    rows = [
        {"step": step, "data": {"response_length/mean": 900.0 + step, "critic/score/mean": 0.5}} for step in (1, 2, 3)
    ]
    log.write_text("\n".join(map(json.dumps, rows)))
    said = run.json("price", "--from-log", str(log))
    given = run.json("price", "--mean-response-tokens", "902")
    assert said["gpu_hours_per_step"] == given["gpu_hours_per_step"]
    twice = run("propose", "--budget", "5000", "--from-log", str(log), "--mean-response-tokens", "900")
    assert (twice.code, "leave one out" in twice.err) == (2, True)
    log.write_text('{"step": 1, "loss": 0.5}\n')
    assert "no response lengths" in run("price", "--from-log", str(log)).err


def test_a_log_tells_the_base_pass_rate_unless_it_is_stated(run: Run, tmp_path: Path) -> None:
    rows = [{"step": 0, "data": {"val-core/x/acc/mean@4": 0.2}}]
    rows += [{"step": s, "data": {"response_length/mean": 900.0, "val-core/x/acc/mean@4": 0.4}} for s in (1, 2)]
    (tmp_path / "run.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "mine.toml").write_text("[workload]\npass_rate = 0.6\n")

    def assumed(*flags: str) -> Any:
        plan = run.json("propose", "--budget", "5000", "--from-log", "run.jsonl", *flags)
        (source,) = (each["source"] for each in plan["assumptions"] if each["what"] == "base pass rate")
        return plan["workload"]["mean_pass_rate"], source

    assert assumed() == (pytest.approx(0.2), "step 0 of --from-log run.jsonl")
    assert assumed("--config", "mine.toml")[0] == pytest.approx(0.6)
    assert assumed("--difficulty", "hard")[0] == pytest.approx(0.03125)


def test_each_run_of_a_table_is_priced_beside_what_was_measured_on_one_screen(run: Run, tmp_path: Path) -> None:
    rows = [RUN | {"row_id": f"r{number}"} for number in range(40)]
    others = RUN | {"row_id": "unmeasured", "seconds_per_step": ""}, RUN | {"row_id": "odd", "gpu_kind": "tpu-v5"}
    file = table(tmp_path, *rows, *others)
    document = run.json("price", file)
    row, *_, unmeasured, unpriced = document["rows"]
    assert row["ratio"] == pytest.approx(row["predicted_seconds"]["median"] / 90)
    assert (unmeasured["predicted_seconds"], unmeasured["ratio"]) == (row["predicted_seconds"], None)
    assert (unpriced["predicted_seconds"], "unknown GPU 'tpu-v5'" in unpriced["notes"][0]) == (None, True)
    assert document["summary"]["rows"] == 40
    assert document["summary"]["typical_miss"] == pytest.approx(max(row["ratio"], 1 / row["ratio"]))
    assert [row["row_id"] for row in run("price", file, "--format", "csv").rows][-2:] == ["unmeasured", "odd"]
    short, whole = (run("price", file, *more).out for more in ((), ("--explain",)))
    assert short.startswith("40 of 42 rows can be compared")
    assert len(short.splitlines()) <= 24
    assert max(map(len, short.partition("\nNext")[0].splitlines())) <= 80
    assert ("more rows: --explain" in short, "1 row without a price" in short) == (True, True)
    assert ("r39" in whole, "unknown GPU 'tpu-v5'" in whole) == (True, True)
