"""`rlplan adopt`: runs of other people's trainers become trials of a sweep, and their steps prices."""

import json
import math
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import rlplan
from planner.store import open_store
from planner.store.schema import Candidate, CostRecord, Plan, Point, Sweep, SweepStatus, Trial
from planner.view import TrialState
from tests.rlplan.adopted_runs import (
    FIVE,
    MODEL,
    SECONDS,
    SERIES,
    Trained,
    folders,
    rising,
    verl_folder,
)
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import rows

GIVEN = ("--gpu", "h100", "--validation-problems", "500", "--validation-samples", "4")


@pytest.fixture
def five(tmp_path: Path) -> list[str]:
    """Five folders of two trainers."""
    return [str(path) for path in folders(tmp_path / "runs", FIVE)]


def test_five_runs_of_two_trainers_are_ranked_without_training_anything(run: Run, five: list[str]) -> None:
    found = run.json("adopt", *five, *GIVEN)
    assert found["sweep"] == "sweep-1"
    assert [each["trainer"] for each in found["runs"]] == ["verl", "openrlhf"] * 2 + ["verl"]
    assert [each["trial"] for each in found["runs"]][:2] == ["n8-B64-s0", "n16-B64-s0"]
    ranked = [(row["rollouts_per_prompt"], row["prompts_per_batch"]) for row in run.json("rank")["ranking"]]
    assert ranked == [(32, 64), (64, 64), (16, 64), (8, 64), (16, 128)]
    chosen = run.json("recommend")["recommendation"]
    assert (chosen["rollouts_per_prompt"], chosen["prompts_per_batch"]) == (32, 64)
    assert chosen["expected_score"] == pytest.approx(0.8, abs=0.06)
    assert run("status").code == 0
    assert run("resume").code == 3  # nothing is left to do


def test_what_is_stored_is_what_the_runs_did(run: Run, five: list[str]) -> None:
    run.json("adopt", *five[:2], *GIVEN)
    trial, costs = rows("rlplan.db", Trial)[0], rows("rlplan.db", CostRecord)
    points = [each for each in rows("rlplan.db", Point) if each.trial_id == trial.id]
    hours = (10 + 60 * SECONDS) / 3600
    assert trial.state is TrialState.FINISHED
    assert trial.gpu_hours_spent == pytest.approx(hours)
    assert [point.optimizer_step for point in points if point.score is not None] == list(range(0, 61, 5))
    assert points[-1].gpu_hours == pytest.approx(hours)
    assert (points[-1].rollouts, points[-1].tokens) == (8 * 64 * 60, 200 * 8 * 64 * 60)
    assert points[-1].score_standard_error == pytest.approx(math.sqrt(0.55 * 0.45 / 2000), rel=0.02)
    assert points[-1].metrics is not None
    assert points[-1].metrics["seconds"]["generate"] == pytest.approx(0.75 * SECONDS)
    stretches = [("h100", n, 200.0, 6, five[run]) for run, n in enumerate((8, 16)) for _ in range(10)]
    assert [
        (cost.gpu, cost.rollouts_per_prompt, cost.mean_response_tokens, cost.steps, cost.source) for cost in costs
    ] == stretches
    assert costs[0].seconds["generate"] == pytest.approx(0.75 * SECONDS)
    assert costs[0].seconds["step"] == pytest.approx(SECONDS)
    assert costs[0].trial_id == trial.id


def test_a_dry_run_shows_what_was_read_and_what_is_lacking_and_stores_nothing(
    run: Run, five: list[str], tmp_path: Path
) -> None:
    Path(five[0], "run_grpo.sh").unlink()
    found = run.json("adopt", *five, "--dry-run")
    asked = ["--rollouts-per-prompt", "--prompts-per-batch", "--learning-rate", "--model", "--gpus"]
    assert found["runs"][0]["missing"] == asked
    assert [each["missing"] for each in found["runs"][1:]] == [[]] * 4
    assert found["runs"][1]["gpu_hours"] == pytest.approx(60 * SECONDS / 3600, rel=0.01)
    assert not (tmp_path / "rlplan.db").exists()
    assert len(run("adopt", *five, "--dry-run", "--format", "csv").out.splitlines()) == 6
    shown = run("adopt", *five, "--dry-run", width=150)
    assert "not read, so give --rollouts-per-prompt, --prompts-per-batch" in shown.out
    assert re.search(r"run-0 .* \?  +\?  +\?  +\?  +60  +\? ", shown.out)
    (offered,) = re.findall(r"^  rlplan (fit .*?)(?:  .*)?$", shown.out, re.MULTILINE)
    assert run(*offered.split()).code == 0
    refused = run("adopt", *five, *GIVEN)
    assert refused.code == 2
    assert "run-0 lacks --rollouts-per-prompt" in refused.err
    assert not (tmp_path / "rlplan.db").exists()


def test_a_run_that_is_given_twice_is_no_second_seed_and_names_tell_runs_apart(run: Run, tmp_path: Path) -> None:
    folders = [verl_folder(tmp_path / place / "run", one) for place, one in zip("ab", FIVE, strict=False)]
    ran = run("adopt", *map(str, folders), f"{folders[0]}/../run", *GIVEN, "--dry-run", width=200)
    assert ran.out.startswith("2 runs read.")
    assert "1 run given more than once, and read once" in ran.err
    assert all(str(folder) in ran.out for folder in folders)


def test_flags_say_what_cannot_be_read(run: Run, tmp_path: Path) -> None:
    folder = verl_folder(tmp_path / "one", FIVE[0])
    (folder / "run_grpo.sh").unlink()
    sizes = ("--rollouts-per-prompt", "8", "--prompts-per-batch", "64", "--learning-rate", "2e-6", "--gpus", "4")
    found = run.json("adopt", str(folder), *GIVEN, *sizes, "--model", "qwen2.5-7b", "--recipe", "dapo")
    one = found["runs"][0]
    assert (one["learning_rate"], one["recipe"], one["gpus"]) == (2e-6, "dapo", 4)
    assert one["gpu_hours"] == pytest.approx(4 * (10 + 60 * SECONDS) / 3600)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": "Qwen/Qwen2.5-7B"}, "different models: Qwen/Qwen2.5-0.5B-Instruct (a), Qwen/Qwen2.5-7B (b)"),
        ({"series": "val-core/lighteval/MATH/reward/mean@4"}, "different validation problems: gsm8k (a), math (b)"),
    ],
)
def test_what_does_not_compare_is_refused_by_name(run: Run, tmp_path: Path, change: dict[str, str], says: str) -> None:
    runs = [verl_folder(tmp_path / "a", FIVE[0]), verl_folder(tmp_path / "b", FIVE[1], **change)]
    ran = run("adopt", *map(str, runs), *GIVEN)
    assert ran.code == 2
    assert says in " ".join(ran.err.split())


def test_two_learning_rates_are_an_axis_and_a_rule_is_none(run: Run, tmp_path: Path) -> None:
    rates = [rising(16, 64, 0.6, rate=1e-6), rising(16, 64, 0.5, rate=3e-6), rising(32, 64, 0.7, rate=1e-6)]
    runs = [str(path) for path in folders(tmp_path / "runs", rates)]
    found = run.json("adopt", *runs, *GIVEN)
    assert [each["axes"] for each in found["runs"]] == [{"learning_rate": f} for f in (1.0, 3.0, 1.0)]
    assert [row["learning_rate"] for row in run.json("rank")["ranking"]] == [1e-6, 1e-6, 3e-6]


def test_runs_may_differ_in_recipe_seed_and_the_name_of_their_score(run: Run, tmp_path: Path) -> None:
    one, other = "val-core/openai/gsm8k/reward/mean@4", "val-core/gsm8k-platinum/reward/mean@4"
    trained_ = {"a": FIVE[1], "b": rising(16, 64, 0.7), "c": FIVE[1]}
    runs = [verl_folder(tmp_path / name, each, series=other if name == "b" else one) for name, each in trained_.items()]
    script = runs[1] / "run_grpo.sh"
    script.write_text(script.read_text().replace("main_ppo", "main_ppo algorithm.filter_groups.enable=True"))
    found = run.json("adopt", *map(str, runs), *GIVEN, "--score", one, "--score", other)
    assert [each["axes"] for each in found["runs"]] == [{"recipe": name} for name in ("grpo", "dapo", "grpo")]
    assert [each["trial"][-2:] for each in found["runs"]] == ["s0", "s0", "s1"]
    assert run.json("rank")["ranking"][0]["recipe"] == "dapo"


def test_a_run_without_a_validation_has_a_price_and_no_trial(run: Run, tmp_path: Path) -> None:
    blind = Trained(16, 64, 1e-6, tuple((step, SECONDS, None) for step in range(1, 30)))
    folder = str(verl_folder(tmp_path / "blind", blind))
    found = run.json("adopt", folder, *GIVEN)
    assert (found["sweep"], found["runs"][0]["trial"], found["prices"]) == (None, None, 1)
    with open_store("rlplan.db", read_only=True) as store:
        stored = [(record.rollouts_per_prompt, record.steps) for record in store.cost_records(model="qwen2.5-0.5b")]
        assert {n for n, _ in stored} == {16}
        assert sum(steps or 0 for _, steps in stored) == 29
    found = run.json("adopt", folder, *GIVEN, "--score", "critic/score/mean")
    assert found["sweep"] == "sweep-1"
    with open_store("rlplan.db", read_only=True) as store:  # adopted once more, it counts once
        assert sum(record.steps or 0 for record in store.cost_records()) == 29


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        ((*GIVEN, "--budget", "5"), 4, "a budget of 5 GPU-hours does not hold the 7.508 of the adopted runs"),
        ((), 2, "no log says which GPU it ran on: give --gpu"),
        ((*GIVEN, "--trainer", "nobodys"), 2, "nobodys"),
    ],
)
def test_what_cannot_be_adopted_leaves_no_database(
    run: Run, five: list[str], tmp_path: Path, flags: tuple[str, ...], code: int, says: str
) -> None:
    ran = run("adopt", *five, *flags)
    assert (ran.code, says in ran.err) == (code, True), ran.err
    assert not (tmp_path / "rlplan.db").exists()


def test_a_sweep_with_something_to_train_can_go_on(run: Run, five: list[str], tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[trainer]\nname = "standin"\n')
    run.json("adopt", *five, *GIVEN, "--budget", "60", "--target", "40", "--trainer", "standin")
    (sweep,), (plan,), candidates = (rows("rlplan.db", each) for each in (Sweep, Plan, Candidate))
    assert sweep.status is SweepStatus.INTERRUPTED
    assert (plan.pilot_gpu_hours, plan.final_gpu_hours) == (pytest.approx(20), pytest.approx(40))
    assert sum(each.pilot_steps > 0 for each in candidates) == 5
    assert len(candidates) > 20
    prices = [each.gpu_hours_per_step for each in candidates]
    assert max(prices[5:]) < 100 * max(prices[:5])  # open cells are priced by what the runs took


def test_percentages_and_scores_of_no_share_are_told_apart(run: Run, tmp_path: Path) -> None:
    high = Trained(8, 64, 1e-6, tuple((s, SECONDS, 10.0 + s if s % 5 == 0 else None) for s in range(61)))
    folder = str(verl_folder(tmp_path / "a", high))
    ran = run("adopt", folder, *GIVEN)
    assert ran.code == 2
    assert "scores from 10 to 70" in ran.err
    assert run.json("adopt", folder, *GIVEN, "--percent")["runs"][0]["last_score"] == pytest.approx(0.7)


def test_from_python(run: Run, five: list[str]) -> None:
    read = rlplan.adopt(five, gpu="h100", validation_problems=500, db="own.db", dry_run=True)
    assert not isinstance(read, rlplan.Sweep)
    assert len(read["runs"]) == len(five)
    assert not Path("own.db").exists()
    sweep = rlplan.adopt(five, gpu="h100", validation_problems=500, db="own.db")
    assert isinstance(sweep, rlplan.Sweep)
    assert sweep.answer is not None
    assert sweep.answer.rollouts_per_prompt == 32
    shutil.rmtree("own-sweeps")


def test_what_runs_taught_of_prices_is_shown_counts_and_can_be_taken_back(run: Run, five: list[str]) -> None:
    before = run.json("price", "--model", "qwen2.5-0.5b", "--gpu", "h100", "--gpus", "1")
    found = run.json("adopt", *five[:2], *GIVEN)
    assert found["times_price"] > 0
    shown = run("adopt", *five[:2], *GIVEN, width=150)
    assert f"Their steps took {found['times_price']:.2g} times what they were priced at." in shown.out
    priced = ("price", "--model", "qwen2.5-0.5b", "--gpu", "h100", "--gpus", "1")
    source = {each["what"]: each["source"] for each in run.json(*priced)["assumptions"]}["cost of a step"]
    assert source == "calibrated by 60 steps of run-0, 1 h100; 60 steps of run-1, 1 h100"

    assert run.json("price", "--forget", five[0]) == {"run": five[0], "records": 10}
    assert rlplan.forget_prices("run-1") == 10
    assert run.json(*priced) == before
    assert run.json("rank")["ranking"]  # the curves stay
    again = run("price", "--forget", "run-1")
    assert again.code == 3
    assert "nothing was measured of 'run-1', or of any other run" in again.err


def test_adopted_runs_teach_the_base_pass_rate_unless_it_is_stated(run: Run, five: list[str], tmp_path: Path) -> None:
    (tmp_path / "rates.txt").write_text("0.6\n0.8\n" * 2000)
    (tmp_path / "easy.toml").write_text('[workload]\ndifficulty = "easy"\n')
    run.json("adopt", *five[:2], *GIVEN, "--db", "old.db")
    asked = ("--model", "qwen2.5-0.5b", "--gpu", "h100", "--gpus", "8")

    def assumed(*flags: str) -> Any:
        plan = run.json("propose", "--budget", "500", *asked, *flags)
        (source,) = (each["source"] for each in plan["assumptions"] if each["what"] == "base pass rate")
        return plan["workload"]["mean_pass_rate"], source

    adopted = "adopted: the scores before training of run-0, run-1"
    assert assumed("--db", "old.db") == (pytest.approx(0.3), adopted)
    assert assumed("--learn-from", "old.db") == (pytest.approx(0.3), f"{adopted} in old.db")
    assert assumed("--db", "old.db", "--learn-from", "none")[0] == pytest.approx(0.45)
    assert assumed("--db", "old.db", "--model", "qwen3-8b")[0] == pytest.approx(0.45)  # another's
    assert assumed("--db", "old.db", "--pass-rates-file", "rates.txt")[0] == pytest.approx(0.7)
    assert assumed("--db", "old.db", "--difficulty", "hard")[0] == pytest.approx(0.03125)
    assert assumed("--db", "old.db", "--config", "easy.toml")[0] == pytest.approx(0.45)
    shown = run("propose", "--budget", "500", *asked, "--db", "old.db").out
    assert "Base pass rate 0.3, from adopted runs." in " ".join(shown.split())
    checked = run("check", f"{five[0]}/run_grpo.sh", "--gpu", "h100", "--db", "old.db", "--explain")
    assert "a pass rate of" not in checked.out


def test_runs_of_wandb_say_their_sizes_by_their_configuration(run: Run, tmp_path: Path) -> None:
    for name, one in {"a": FIVE[0], "b": FIVE[2]}.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "history.csv").write_text(history(one))
        rollout = {"n": one.n} if name == "a" else {}
        parts: dict[str, Any] = {
            "actor_rollout_ref": {
                "rollout": rollout,
                "model": {"path": MODEL},
                "actor": {"optim": {"lr": one.learning_rate}},
            },
            "data": {"train_batch_size": one.B},
            "trainer": {"nnodes": 2, "n_gpus_per_node": 8},
        }
        wrapped = {key: {"desc": None, "value": value} for key, value in parts.items()}
        (folder / "config.yaml").write_text(json.dumps({"wandb_version": 1, **wrapped}))
        args = ["actor_rollout_ref.rollout.n=32"] if name == "b" else []
        (folder / "wandb-metadata.json").write_text(json.dumps({"args": args, "gpu_count": 8}))
        (folder / "wandb-summary.json").write_text(json.dumps({"learning_rate": 3.0, "seed": 7}))
    runs = run.json("adopt", "a", "b", *GIVEN)["runs"]
    assert [(one["rollouts_per_prompt"], one["prompts_per_batch"], one["gpus"]) for one in runs] == [
        (8, 64, 16),
        (32, 64, 16),
    ]
    assert [one["learning_rate"] for one in runs] == [FIVE[0].learning_rate, FIVE[2].learning_rate]


@pytest.mark.parametrize(
    ("columns", "trainer"),
    [
        (("rollouts_per_prompt", "prompts_per_batch"), True),
        (("n", "B"), False),
        (("config.actor_rollout_ref.rollout.n", "config.data.train_batch_size"), False),
        (("config/num_generations", "generation_batch_size"), False),
        (("actor_rollout_ref.rollout.n", "train_batch_size"), True),
    ],
)
def test_tables_say_their_sizes_by_columns(
    run: Run, tmp_path: Path, columns: tuple[str, str], *, trainer: bool
) -> None:
    for name, one in {"a": FIVE[0], "b": FIVE[2]}.items():
        sizes = (one.n, one.n * one.B if "generation_batch_size" in columns else one.B)
        (tmp_path / f"{name}.csv").write_text(history(one, dict(zip(columns, sizes, strict=True)), trainer=trainer))
    flags = ("--model", "qwen2.5-0.5b", "--gpus", "8", "--learning-rate", "1e-6", "--seconds-per-step", "90")
    runs = run.json("adopt", "a.csv", "b.csv", *GIVEN, *flags)["runs"]
    assert [(one["rollouts_per_prompt"], one["prompts_per_batch"]) for one in runs] == [(8, 64), (32, 64)]


def history(of: Trained, columns: Mapping[str, int] | None = None, *, trainer: bool = True) -> str:
    """Return the table of a run as a tracker exports it, with what else each row says."""
    series = (SERIES, "timing_s/step") if trainer else ("score", "took")
    lines = [",".join(["_step", *series, *(columns or {})])]
    for step, took, score in of.steps:
        scored = "" if score is None else repr(score)
        lines.append(",".join([str(step), scored, repr(took), *map(str, (columns or {}).values())]))
    return "\n".join([*lines, ""])
