from pathlib import Path

import pytest

from planner.replay.recorded import Recorded
from tests.planner.replay.tables import grid
from tests.rlplan.conftest import Run

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


def test_further_axes_are_part_of_the_choice(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "runs.csv", grid(cells=8, seeds=1, points=20), recipe=True)
    ran = run("replay", path, *ARGUMENTS, "--policy", "full", "--format", "json")
    assert ran.json["chosen"]["recipe"] in {"plain", "other"}
    shown = run("replay", path, *ARGUMENTS, "--policy", "full").out
    assert "told apart by n, B, recipe" in " ".join(shown.split())


def test_repeats_have_a_mean_with_its_error(run: Run, table: str) -> None:
    call = ("replay", table, *ARGUMENTS, "--policy", "random", "--repeat", "4", "--workers", "8")
    repeats = run.json(*call)["repeats"]
    assert repeats["seeds"] == [0, 1, 2, 3]
    assert repeats["mean_regret"] == pytest.approx(sum(repeats["regrets"]) / 4)
    assert repeats["regret_standard_error"] > 0
    rows = run(*call, "--format", "csv").rows
    assert [float(row["regret"]) for row in rows] == repeats["regrets"]
    assert f"Mean regret {repeats['mean_regret']:.4f}" in run(*call).out


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
    assert ran.out == "" if target == "500" else ran.json["best_at_target"] == 0.5


def test_the_whole_money_is_played_for_a_champion_that_is_named(run: Run, table: str) -> None:
    champions = {(n, B) for n, B, _ in grid(cells=8, seeds=2, points=20).configurations}
    n, B = max(champions)
    document = run.json("replay", table, "--total", "100", "--champion", f"n={n},B={B}")
    assert document["champion"] == {"rollouts_per_prompt": n, "prompts_per_batch": B}
    assert document["regret"] == pytest.approx(document["best_known"] - document["reached"])
    assert 0 <= document["challenger_gpu_hours"] <= 12
    assert document["switched"] == (document["chosen"] != document["champion"])
    assert "The champion alone ends at" in run("replay", table, "--total", "100").out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--total", "100", "--budget", "3"), "--budget"),
        (("--total", "100", "--champion", "n=3,B=5"), "none of the"),
        (("--total", "1e6"), "longest run"),
        ((), "--total"),
    ],
)
def test_a_whole_replay_that_cannot_be_played_says_what_to_give(
    run: Run, table: str, flags: tuple[str, ...], words: str
) -> None:
    ran = run("replay", table, *flags)
    assert ran.code == 2
    assert words in ran.err
