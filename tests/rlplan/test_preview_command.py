import itertools
import re
from typing import Any

import pytest

from budgets.errors import InputError
from planner.view import Configuration
from rlplan.commands.preview import FEWEST_DRAWS, MOST_SECONDS, PATIENCE_SECONDS, Preview
from rlplan.commands.preview import (
    answer as preview,
)
from rlplan.commands.preview_worlds import PlayedWorld, UnpilotedWorld
from rlplan.requests.plan import PreviewRequest
from rlplan.wording.command_lines import Format
from rlplan.wording.screen import Invocation
from tests.rlplan.conftest import Run

QUICK = ("--draws", "2", "--policy", "full")
FIRST = Configuration(16, 4)


@pytest.fixture
def planned(run: Run) -> Run:
    assert run("propose", "--task", "sum-easy", "--budget", "0.5").code == 0
    return run


def test_one_world_says_of_no_share_that_it_is_better_or_level(planned: Run) -> None:
    asked = ("preview", "--policy", "full", "--pilot-fractions", "0,0.2,0.4", "--draws")
    assert "1 simulated sweep cannot tell the shares apart: give --draws 40." in planned(*asked, "1").text
    several = planned(*asked, "3").text
    assert re.search(r"cannot tell the shares apart|Best share|Pilots cost more", several)


def test_every_share_has_its_figures_and_no_pilots_at_all_are_a_share_like_any_other(planned: Run) -> None:
    document = planned.json("preview", *QUICK, "--pilot-fractions", "0.2,0")
    assert (document["plan"], document["policy"], document["draws"], document["seed"]) == ("plan-1", "full", 2, 0)
    none, some = document["fractions"]
    assert some["pilot_gpu_hours"] + some["final_gpu_hours"] == pytest.approx(0.5)
    assert 0 < some["gpu_hours_spent"]["mean"] <= some["pilot_gpu_hours"]
    assert some["pilot_wall_hours"]["mean"] >= some["gpu_hours_spent"]["mean"] / document["workers"] * (1 - 1e-9)
    assert (none["pilot_fraction"], none["gpu_hours_spent"]["mean"], none["pilot_wall_hours"]["mean"]) == (0, 0, 0)
    assert none["final_gpu_hours"] == 0.5
    without = document["without_pilots"]
    assert none["score"] == without["first_ranked"]["score"]
    assert none["gain_over_first_ranked"] == {"mean": 0.0, "standard_error": 0.0}
    others = [without[name]["score"]["mean"] for name in ("first_ranked", "random")]
    assert without["best"]["score"]["mean"] >= max(others)
    best = max(none, some, key=lambda share: share["score"]["mean"])
    assert document["best_pilot_fraction"] == best["pilot_fraction"]
    assert planned.json("preview", *QUICK, "--pilot-fractions", "0")["best_pilot_fraction"] == 0
    assert any("AllocBench, tiny models on sums" in line for line in document["assumptions"])
    rows = planned("preview", *QUICK, "--format", "csv").rows
    assert [row["pilot_fraction"] for row in rows] == ["0.0", "0.05", "0.1", "0.2"]


def test_the_seed_decides_everything(planned: Run) -> None:
    call = ("preview", "--draws", "1", "--policy", "full", "--pilot-fractions", "0.1", "--format", "json")
    first, again, other = (planned(*call, "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again
    assert first.json["fractions"] != other.json["fractions"]


def test_the_worlds_are_those_that_the_plan_ranks_by_with_one_value_of_each_further_axis(run: Run) -> None:
    axes = ("--recipes", "grpo,scalerl")
    plan = run.json("propose", "--budget", "5000", "--gpus-per-trial", "8", *axes)
    ran = run("preview", "plan-1", *QUICK, "--pilot-fractions", "0.1", "--format", "json")
    document = ran.json
    assert document["workers"] == plan["hardware"]["pilots_at_once"] > 1
    assert any("drawn from the prior by which the plan ranks" in each for each in document["assumptions"])
    assert any("ScaleRL, 8B and Scout" in each for each in document["assumptions"])
    assert any("one is simulated: grpo on qwen3-8b" in each for each in document["assumptions"])


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(("--budget", "2000"), marks=pytest.mark.soak),
        ("--task", "sum-easy", "--budget", "0.3", "--pilot-fraction", "0.1"),
    ],
)
def test_the_share_that_a_plan_has_is_among_those_that_cannot_be_told_from_the_best(
    run: Run, asked: tuple[str, ...]
) -> None:
    plan = run.json("propose", "--explore", *asked)
    share = f"{plan['pilots']['fraction']:g}"
    others = [each for each in ("0", "0.1", "0.4") if each != share]
    call = ("preview", "--draws", "3", "--pilot-fractions", ",".join((share, *others)), "--format", "json")
    document = run(*call).json
    assert float(share) in (document["best_pilot_fraction"], *document["as_good"])
    assert document["policy"] == "rlplan"  # the plan's own


def test_a_champions_plan_is_played_with_the_whole_money_and_its_challengers(planned: Run) -> None:
    document = planned.json("preview", "--draws", "4", "--pilot-fractions", "0,0.05")
    assert document["policy"] == "champion"
    alone, beside = document["fractions"]
    assert document["without_pilots"]["first_ranked"]["prompts_per_batch"] == 64  # the champion, not the first row
    assert alone["score"] == document["without_pilots"]["first_ranked"]["score"]
    assert beside["gpu_hours_spent"]["mean"] <= 0.1 * 0.5 + 1e-9  # an alarm raises the cap to a tenth
    assert beside["score"]["mean"] >= alone["score"]["mean"] - 0.05


def test_a_plan_that_explores_has_no_champion_to_play(run: Run) -> None:
    assert run("propose", "--task", "sum-easy", "--budget", "0.5", "--explore").code == 0
    assert "--policy champion: plan-1 explores the grid" in run("preview", "--policy", "champion").err


@pytest.mark.parametrize(
    ("piloted", "says"),
    [
        ((0.30, 0.31, 0.29), "Pilots cost more than they gain: at best, with 20 % of the budget"),
        ((0.9, 0.2, 0.6), "3 simulated sweeps cannot tell the shares apart: give --draws 40"),
        ((0.9, 0.2, 0.6) * 14, "No measurable difference between 20 % of the budget for pilots and none"),
        ((0.8, 0.79, 0.81), "Best share for pilots: 20 % of the budget. They take"),
    ],
)
def test_what_is_said_first_is_whether_pilots_pay(
    piloted: tuple[float, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    of({0.0: [(0.5, 0.9)] * len(piloted), 0.2: [(score, 0.9) for score in piloted]}).emit(Format.TABLE, Invocation(()))
    assert says in " ".join(capsys.readouterr().out.split())


def test_without_a_number_as_many_worlds_are_drawn_as_time_allows(
    planned: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned("propose", "--task", "sum-easy", "--budget", "0.4").code == 0
    asked: dict[str, Any] = {"policy": "random", "pilot_fractions": "0.2"}
    calls = itertools.count()
    preview(PreviewRequest(**asked, draws=4), lambda: float(next(calls)))
    turns = next(calls) / 4  # of a world, each of which looks at the clock

    def drawn(seconds: float) -> int:
        """Return how many worlds are drawn that take so long each."""
        clock = itertools.count(0.0, seconds / turns)
        return preview(PreviewRequest(**asked), lambda: next(clock)).draws

    assert drawn(PATIENCE_SECONDS / 2.5) == FEWEST_DRAWS
    assert drawn(PATIENCE_SECONDS / 5.5) == FEWEST_DRAWS + 3
    assert drawn(MOST_SECONDS / 2.5) == 2  # the third is not played to its end
    clock = itertools.count(0.0, MOST_SECONDS / 2.5 / turns)
    preview(PreviewRequest(**asked), lambda: next(clock)).emit(Format.TABLE, Invocation(()))
    assert "2 simulated sweeps a row (cut after 18 s: --draws 40" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(InputError, match=f"one drawn world takes more than {MOST_SECONDS:g} s"):
        drawn(2 * MOST_SECONDS)


def test_the_first_world_of_a_champions_plan_is_bounded_too(planned: Run) -> None:
    assert planned("propose", "--task", "sum-easy", "--budget", "0.4").code == 0
    clock = itertools.count(0.0, MOST_SECONDS)
    with pytest.raises(InputError, match="one drawn world takes more than"):
        preview(PreviewRequest(policy="champion", pilot_fractions="0.2"), lambda: next(clock))


def of(outcomes: dict[float, list[tuple[float, float]]]) -> Preview:
    """Make a preview from pairs of the chosen one's score and the best."""
    made = {
        fraction: tuple(PlayedWorld(score, best, 10.0, 2.0) for score, best in each)
        for fraction, each in outcomes.items()
    }
    without = tuple(UnpilotedWorld(0.5, 0.4, 0.9) for _ in next(iter(outcomes.values())))
    return Preview("plan-1", "rlplan", 0, 100.0, 2, 4, 4, {f: 100 * f for f in made}, made, without, FIRST, ())


def test_fractions_are_compared_world_by_world() -> None:
    apart = of({0.1: [(0.50, 1), (0.20, 1), (0.80, 1)], 0.2: [(0.52, 1), (0.22, 1), (0.82, 1)]})
    assert (apart.best_fraction, apart.as_good) == (0.2, ())
    alike = of({0.1: [(0.50, 1), (0.26, 1), (0.80, 1)], 0.2: [(0.52, 1), (0.22, 1), (0.85, 1)]})
    assert (alike.best_fraction, alike.as_good) == (0.2, (0.1,))
