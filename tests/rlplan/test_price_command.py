import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import rlplan
from planner.store import open_store, sweeps
from tests.planner.store import samples
from tests.rlplan.conftest import Run


def priced(run: Run, *flags: str) -> dict[str, Any]:
    ran = run("price", *flags, "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    document: dict[str, Any] = json.loads(ran.out)
    return document


def test_json_is_one_document_with_the_fields_of_the_contract(run: Run) -> None:
    price = priced(run, "-n", "16", "-B", "128", "--model", "qwen3-8b", "--gpu", "h100", "--gpus", "64")

    wanted = ["seconds_per_step", "gpu_hours_per_step", "phases", "memory", "layout", "changes", "assumptions"]
    assert set(wanted) <= set(price)
    for whole in (price["seconds_per_step"], price["gpu_hours_per_step"], *(p["seconds"] for p in price["phases"])):
        assert 0 < whole["low"] < whole["median"] < whole["high"]
    seconds, hours = price["seconds_per_step"]["median"], price["gpu_hours_per_step"]["median"]
    assert hours == pytest.approx(seconds * 64 / 3600)
    assert sum(phase["seconds"]["median"] for phase in price["phases"]) == pytest.approx(seconds)
    assert all(phase["limit"] for phase in price["phases"])
    assert all(set(each) == {"what", "value", "source"} for each in price["assumptions"])


def test_changes_are_sorted_by_what_they_save_and_are_the_price_of_what_they_name(run: Run) -> None:
    base = priced(run, "-n", "16", "-B", "128", "--gpus", "64")
    halved = priced(run, "-n", "16", "-B", "128", "--gpus", "32")

    saved = [change["gpu_seconds_per_rollout_saved"] for change in base["changes"]]
    named = {change["what"]: change for change in base["changes"]}

    assert saved == sorted(saved, reverse=True)
    assert named["32 GPUs"]["seconds_per_step"] == pytest.approx(halved["seconds_per_step"]["median"])
    layouts = {"128 GPUs", "32 GPUs", "asynchronous", "n = 32", "B = 256"}
    assert layouts | {"fp8 rollouts", "LoRA, rank 32"} == set(named)


def test_a_change_that_does_not_fit_says_why(run: Run) -> None:
    price = priced(run, "-n", "16", "-B", "16", "--model", "qwen3-4b", "--gpu", "h100", "--gpus", "2")

    refused = [change for change in price["changes"] if change["what"] == "1 GPU"]

    assert refused[0]["seconds_per_step"] is None
    assert "does not fit 1 h100" in refused[0]["refused"]


def test_a_plan_and_a_price_say_one_number_for_one_thing(run: Run) -> None:
    plan = json.loads(run("propose", "--budget", "5000", "--format", "json").out)
    first = plan["candidates"][0]
    n, B = first["rollouts_per_prompt"], first["prompts_per_batch"]

    price = priced(run, "-n", str(n), "-B", str(B), "--gpus", str(plan["hardware"]["gpus_per_trial"]))

    assert price["gpu_hours_per_step"]["median"] == pytest.approx(first["gpu_hours_per_step"])


def test_measured_steps_of_the_database_count_and_none_is_made_for_a_price(run: Run, tmp_path: Path) -> None:
    before = priced(run)
    assert not (tmp_path / "rlplan.db").exists()
    record = samples.cost_record()
    with open_store(str(tmp_path / "rlplan.db")) as store:
        samples.put(store, sweeps.add_cost_records, [record] * 20)

    after = priced(run, "--model", record.model, "--gpu", record.gpu)

    assert any("calibrated by 20 measured steps, 8 h100" in each["source"] for each in after["assumptions"])
    assert before["seconds_per_step"] != after["seconds_per_step"]


def test_csv_has_a_row_a_phase_and_the_table_fits_a_terminal(run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(run("price", "--format", "csv").out)))
    drawn = run("price").out

    assert rows[0]["phase"] == "generate"
    assert max(map(len, drawn.splitlines())) <= 80
    assert "What one change would do" in drawn


def test_an_unknown_length_is_asked_for_with_what_it_is_worth(run: Run) -> None:
    told = {each["what"]: each["source"] for each in priced(run)["assumptions"]}
    given = {each["what"]: each["source"] for each in priced(run, "--mean-response-tokens", "2400")["assumptions"]}

    assert "give --mean-response-tokens" in told["responses"]
    assert given["responses"] == "--mean-response-tokens"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("-n", "0"), "n = 0"),
        (("--mean-response-tokens", "9000"), "9000"),
        (("--model", "qwen3-9b"), "qwen3-8b"),
        (("--gpus", "1", "--model", "llama-3.1-70b"), "does not fit"),
    ],
)
def test_what_cannot_be_priced_is_refused_in_a_line(run: Run, flags: tuple[str, ...], named: str) -> None:
    ran = run("price", *flags)

    assert ran.code == 2
    assert named in ran.err
    assert ran.err.count("\n") == 1


def test_a_trainer_that_was_measured_has_a_narrower_interval_than_one_that_was_not(run: Run) -> None:
    known, unknown = (priced(run, "--trainer", name)["seconds_per_step"] for name in ("nemo-rl", "openrlhf"))

    assert known["high"] / known["low"] < unknown["high"] / unknown["low"]


def test_python_answers_what_the_command_does(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert rlplan.price(8, 64, gpus=32) == priced(run, "-n", "8", "-B", "64", "--gpus", "32")
