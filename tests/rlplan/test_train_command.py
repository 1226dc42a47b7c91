import csv
import json
from pathlib import Path

from tests.rlplan.conftest import Run, Use
from tests.rlplan.train_backend import Scripted, curve_steps, metrics, steps

SMALL = ("train", "--task", "sum-easy", "--steps", "10", "--out", "here")


def test_a_run_leaves_its_configuration_metrics_curve_and_checkpoints(run: Run, use: Use, tmp_path: Path) -> None:
    backend = use(Scripted())
    ran = run(*SMALL, "--validate-every", "1024", "--seed", "5", "--checkpoint-every", "4")
    assert ran.code == 0, ran.err
    folder = tmp_path / "here"
    config = json.loads((folder / "config.json").read_text())
    assert config["rlplan"].startswith("0.")
    assert config["update_steps"] == 10
    assert (config["trial"]["seed"], config["trial"]["recipe"]["name"]) == (5, "easy")
    assert steps(folder) == list(range(11))
    assert metrics(folder)[3]["metrics"]["seconds"] == {"train": 0.25}
    assert curve_steps(folder) == [0, 2, 4, 6, 8, 10]
    assert backend.saved == [0, 4, 8, 10]
    assert backend.closed


def test_the_table_is_for_people(run: Run, use: Use) -> None:
    use(Scripted())
    ran = run("train", "--task", "sum-easy")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["step", "rollouts", "tokens", "time", "score"]
    assert len(lines) <= 18  # thinned
    assert lines[1].split()[:2] == ["0", "0"]
    assert "sum-easy: score 0.919 ± 0.010 after 100 updates, 51,200 rollouts, 50 s" in lines
    assert lines[-1] == "where this curve goes: rlplan fit runs/sum-easy-easy-n16-B32-seed0/curve.csv"
    assert max(map(len, lines)) <= 80


def test_json_is_one_document(run: Run, use: Use) -> None:
    use(Scripted(flags={3: ("truncation",), 5: ("truncation",)}))
    document = run(*SMALL, "--format", "json").json
    assert document["task"] == "sum-easy"
    assert document["recipe"] == "easy"
    assert (document["rollouts_per_prompt"], document["prompts_per_batch"], document["update_steps"]) == (16, 32, 10)
    assert document["folder"] == "here"
    assert [point["step"] for point in document["points"]] == list(range(11))
    assert document["final"] == document["points"][-1]
    assert set(document["final"]) == {
        *("step", "rollouts", "tokens", "seconds", "gpu_hours", "score", "score_standard_error", "further_scores")
    }
    assert document["final"]["further_scores"]["best@4"] == [document["final"]["score"], 0.02]
    assert document["growth"] is None
    assert document["flags"] == [{"flag": "truncation", "first_step": 3, "steps": 2}]


def test_csv_is_the_curve_which_fit_reads_without_flags(run: Run, use: Use, tmp_path: Path) -> None:
    use(Scripted())
    ran = run(*SMALL, "--format", "csv")
    assert ran.out == (tmp_path / "here/curve.csv").read_text()
    rows = list(csv.DictReader(ran.out.splitlines()))
    columns = ["step", "rollouts", "tokens", "seconds", "gpu_hours", "score", "score_standard_error"]
    columns += [f"{kind}@{k}{of}" for kind in ("best", "worst") for k in (2, 4) for of in ("", "_standard_error")]
    assert list(rows[0]) == columns
    assert [rows[-1][name] for name in ("best@4", "best@4_standard_error")] == [rows[-1]["score"], "0.02"]
    assert [rows[-1][name] for name in ("worst@2", "worst@2_standard_error")] == ["", ""]  # it was not measured
    fitted = run("fit", "here/curve.csv", "--format", "json")
    assert "guessed: x is 'gpu_hours', the score is 'score'" in fitted.json["curves"][0]["notes"]


def test_elsewhere_than_at_a_terminal_there_is_a_plain_line_for_each_validation(run: Run, use: Use) -> None:
    use(Scripted(flags={3: ("truncation",), 4: ("truncation",)}, metrics={4: {"reward_failures": 1.0}}))
    ran = run(*SMALL, "--validate-every", "2560")
    assert ran.err.splitlines() == [
        "sum-easy, recipe easy, n 16 × B 32, here",
        "step 0/10, 0 rollouts, score 0.400 ± 0.010",
        "step 3: truncation: more than 15% of the responses are cut: raise --response-tokens",
        "step 4: reward-failures: 1 reward could not be had (raised, hung or no number) and count as failed answers",
        "step 5/10, 2,560 rollouts, score 0.413 ± 0.010, pass rate 0.413, 1,024 rollouts/s",
        "step 10/10, 5,120 rollouts, score 0.442 ± 0.010, pass rate 0.442, 1,024 rollouts/s",
    ]


def test_a_trial_that_cannot_go_on_exits_with_5_and_keeps_its_metrics(run: Run, use: Use, tmp_path: Path) -> None:
    backend = use(Scripted(fails_at=4))
    ran = run(*SMALL)
    assert ran.code == 5
    assert ran.out == ""
    assert ran.err.splitlines()[-1] == (
        "rlplan: the trial failed after step 3 (nan): 3 updates in a row had a loss that is not finite. What it did is "
        "in here/metrics.jsonl"
    )
    assert steps(tmp_path / "here") == [0, 1, 2, 3]
    assert backend.closed


def test_what_the_backend_refuses_leaves_no_folder(run: Run, use: Use, tmp_path: Path) -> None:
    backend = use(Scripted())
    ran = run(*SMALL, "--model", "/nowhere")
    assert ran.code == 2
    assert "model '/nowhere' is no local checkpoint" in ran.err
    assert not (tmp_path / "here").exists()
    assert backend.closed


def test_loss_that_is_not_finite_is_null_in_the_metrics(run: Run, use: Use, tmp_path: Path) -> None:
    use(Scripted(metrics={2: {"loss": float("nan"), "grad_norm": float("inf")}}, flags={2: ("nan-loss",)}))
    ran = run(*SMALL)
    assert "step 2: nan-loss: loss or gradient is not finite" in ran.err
    text = (tmp_path / "here/metrics.jsonl").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert metrics(tmp_path / "here")[2]["metrics"]["loss"] is None
