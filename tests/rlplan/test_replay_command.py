import csv
import io
import json
from pathlib import Path

import pytest

from planner.experience.plain import document
from planner.replaying.recorded import Recorded
from planner.sweeping.policies import POLICIES
from rlplan.actions.learning import learnt_from
from tests.planner.replaying.tables import grid
from tests.rlplan.conftest import Run

KEYS = {
    *("policy", "chosen", "gpu_hours_spent", "score_at_target", "best_at_target", "regret", "trace", "decisions"),
}
ARGUMENTS = ("--budget", "100", "--target", "100")


def write(path: Path, recorded: Recorded, recipe: bool = False) -> str:
    header = "run,rollouts_per_prompt,prompts_per_batch,seed,gpu_hours,score,step" + (",recipe" if recipe else "")
    rows = [
        f"{run.name},{n},{B},{run.seed},{x},{y},{step}" + (f",{'plain' if n < 16 else 'other'}" if recipe else "")
        for run in recorded.runs
        for n, B, _ in [run.configuration]
        for step, (x, y) in enumerate(zip(run.gpu_hours, run.scores, strict=True))
    ]
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def table(tmp_path: Path) -> str:
    return write(tmp_path / "runs.csv", grid(cells=8, seeds=2, points=20))


@pytest.mark.parametrize("policy", POLICIES)
def test_json_is_one_document_with_the_fields_of_the_contract(run: Run, table: str, policy: str) -> None:
    ran = run("replay", table, *ARGUMENTS, "--policy", policy, "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert set(document) == KEYS
    assert document["policy"] == policy
    assert set(document["chosen"]) == {"rollouts_per_prompt", "prompts_per_batch"}
    assert 0 < document["gpu_hours_spent"] <= 100
    assert document["regret"] == pytest.approx(document["best_at_target"] - document["score_at_target"])
    assert document["decisions"] > 0
    assert document["trace"][-1]["chosen"] == document["chosen"]
    assert all(set(mark) == {"gpu_hours", "chosen", "regret"} for mark in document["trace"])


def test_the_default_policy_is_ours_and_the_seed_decides_everything(run: Run, table: str) -> None:
    first, again = (run("replay", table, *ARGUMENTS, "--seed", "5", "--format", "json").out for _ in range(2))
    assert first == again
    assert json.loads(first)["policy"] == "rlplan"


def test_further_axes_are_part_of_the_choice(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "runs.csv", grid(cells=8, seeds=1, points=20), recipe=True)
    ran = run("replay", path, *ARGUMENTS, "--policy", "full", "--format", "json")
    assert json.loads(ran.out)["chosen"]["recipe"] in {"plain", "other"}
    shown = run("replay", path, *ARGUMENTS, "--policy", "full").out
    assert "told apart by n, B, recipe" in " ".join(shown.split())


def test_repeats_have_a_mean_with_its_error(run: Run, table: str) -> None:
    call = ("replay", table, *ARGUMENTS, "--policy", "random", "--repeat", "4", "--workers", "8")
    document = json.loads(run(*call, "--format", "json").out)
    assert set(document) == KEYS | {"repeats"}
    repeats = document["repeats"]
    assert repeats["seeds"] == [0, 1, 2, 3]
    assert repeats["mean_regret"] == pytest.approx(sum(repeats["regrets"]) / 4)
    assert repeats["regret_standard_error"] > 0
    rows = list(csv.DictReader(io.StringIO(run(*call, "--format", "csv").out)))
    assert [float(row["regret"]) for row in rows] == repeats["regrets"]
    assert f"Mean regret {repeats['mean_regret']:.4f}" in run(*call).out


def test_a_budget_may_be_a_share_of_the_full_grid(run: Run, table: str) -> None:
    ran = run("replay", table, "--budget", "10%", "--target", "100", "--policy", "full", "--format", "json")
    assert json.loads(ran.out)["gpu_hours_spent"] == pytest.approx(80, abs=0.5)


def test_the_table_says_what_was_chosen_and_fits_the_screen(run: Run, table: str) -> None:
    ran = run("replay", table, *ARGUMENTS, "--policy", "asha")
    said = " ".join(ran.out.split())
    assert "16 runs of 8 configurations; all of them once to 100 GPU-hours would take 800" in said
    assert "Chosen: n=" in said
    assert "would have chosen" in said
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("90", "1 of 2 runs end before the target of 90 GPU-hours"),
        ("110", "2 of 2 runs end before the target of 110 GPU-hours"),
        ("500", "--target 500: the longest run of 'short.csv' ends at 100 GPU-hours, and no run says what comes after"),
        ("500", "give at most 100; all runs reach 80"),
    ],
)
def test_a_target_beyond_some_runs_is_told_and_beyond_all_refused(
    run: Run, tmp_path: Path, target: str, says: str
) -> None:
    header = "run,rollouts_per_prompt,prompts_per_batch,seed,gpu_hours,score\n"
    rows = "a,8,4,0,50,0.2\na,8,4,0,100,0.3\nb,16,4,0,40,0.4\nb,16,4,0,80,0.5\n"
    (tmp_path / "short.csv").write_text(header + rows)
    ran = run("replay", "short.csv", "--budget", "150", "--target", target, "--policy", "full", "--format", "json")
    assert says in ran.err
    assert ran.code == (2 if target == "500" else 0)
    assert ran.out == "" if target == "500" else json.loads(ran.out)["best_at_target"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("none.csv", *ARGUMENTS), 2, "no file 'none.csv'"),
        (("runs.csv", "--budget", "0", "--target", "100"), 2, "--budget 0: give GPU-hours above 0"),
        (("runs.csv", "--budget", "x", "--target", "100"), 2, "--budget 'x' is not a number"),
        (("runs.csv", "--budget", "5", "--target", "-1"), 2, "--target -1: give GPU-hours above 0"),
        (("runs.csv", *ARGUMENTS, "--policy", "best"), 2, "unknown policy 'best'"),
        (("runs.csv", *ARGUMENTS, "--workers", "0"), 2, "--workers 0: it must be at least 1"),
        (("runs.csv", *ARGUMENTS, "--repeat", "0"), 2, "--repeat 0: it must be at least 1"),
        (("runs.csv", "--target", "100"), 2, "Missing option '--budget'"),
        (("runs.csv", "--budget", "0.01", "--target", "100"), 4, "0.01 GPU-hours pay for no score of any trial"),
    ],
)
@pytest.mark.usefixtures("table")
def test_what_cannot_be_done_is_explained(run: Run, arguments: tuple[str, ...], code: int, says: str) -> None:
    ran = run("replay", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert says in ran.err


def test_a_malformed_table_names_the_line(run: Run, table: str) -> None:
    path = Path(table)
    path.write_text(path.read_text().replace("c0-s0,2,2,0,5.0,", "c0-s0,2,2,0,-5.0,", 1))
    ran = run("replay", table, *ARGUMENTS)
    assert ran.code == 2
    assert "run 'c0-s0': gpu_hours is below 0 (line 3)" in ran.err


@pytest.fixture
def earlier(tmp_path: Path) -> str:
    return write(tmp_path / "earlier.csv", grid(cells=8, seeds=2, points=20, seed=1))


def test_an_earlier_table_is_learnt_from_and_its_weight_is_said(run: Run, table: str, earlier: str) -> None:
    call = ("replay", table, *ARGUMENTS, "--learn-from", earlier)
    ran = run(*call, "--format", "json")
    document = json.loads(ran.out)
    assert set(document) == KEYS | {"sources"}
    assert [each["source"] for each in document["sources"]] == ["none", earlier]
    assert sum(each["weight"] for each in document["sources"]) == pytest.approx(1.0)
    assert run(*call, "--format", "json").out == ran.out
    shown = " ".join(run(*call).out.split())
    assert "(8 configurations)" in shown
    assert "no source" in shown


def test_none_is_as_if_nothing_was_given(run: Run, table: str) -> None:
    call = ("replay", table, *ARGUMENTS, "--format", "json")
    assert run(*call, "--learn-from", "none").out == run(*call).out


def test_two_sources_are_weighed_alone_and_together(run: Run, tmp_path: Path, table: str, earlier: str) -> None:
    other = write(tmp_path / "other.csv", grid(cells=8, seeds=1, points=20, seed=2))
    ran = run("replay", table, *ARGUMENTS, "--learn-from", earlier, "--learn-from", other, "--format", "json")
    assert [each["source"] for each in json.loads(ran.out)["sources"]] == ["none", earlier, other, "all together"]


def test_a_file_of_experience_is_worth_the_table_it_was_made_of(
    run: Run, tmp_path: Path, table: str, earlier: str
) -> None:
    (experience,) = learnt_from([earlier])
    file = tmp_path / "earlier.json"
    file.write_text(document([experience]), encoding="utf-8")
    ran, again = (
        run("replay", table, *ARGUMENTS, "--learn-from", each, "--format", "json").out for each in (earlier, str(file))
    )
    assert ran.replace(earlier, str(file)) == again


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("missing.csv",), "there is no such file; give a table of recorded runs"),
        (("broken.json",), "is no JSON"),
        (("other.json",), "holds no experience"),
        (("picture.json",), "is not UTF-8 text"),
        (("notes.csv",), "has no column run"),
        (("none", "earlier.csv"), "leave out the one or the other"),
        (("runs.csv",), "is the table that is replayed"),
        (("earlier.csv", "earlier.csv"), "is given twice"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(
    run: Run, tmp_path: Path, table: str, earlier: str, given: tuple[str, ...], said: str
) -> None:
    (tmp_path / "broken.json").write_text('{"rlplan_experience": 1,', encoding="utf-8")
    (tmp_path / "other.json").write_text('{"runs": []}', encoding="utf-8")
    (tmp_path / "picture.json").write_bytes(b'{"\xff\xfe')
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    flags = [word for name in given for word in ("--learn-from", name if name == "none" else str(tmp_path / name))]
    ran = run("replay", table, *ARGUMENTS, *flags)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())


def test_policies_that_believe_nothing_learn_nothing(run: Run, table: str, earlier: str) -> None:
    ran = run("replay", table, *ARGUMENTS, "--policy", "asha", "--learn-from", earlier)
    assert ran.code == 2
    assert "asha decides by scores alone" in " ".join(ran.err.split())
