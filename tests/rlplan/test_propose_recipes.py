import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from planner.store.schema import CostRecord
from rlplan.actions.calibrating import calibration_of
from tests.planner.proposals.requests import request
from tests.planner.store import samples
from tests.rlplan.conftest import Run


def plan(run: Run, *args: str) -> dict[str, Any]:
    ran = run("propose", "--budget", "5000", "--format", "json", *args)
    assert ran.code == 0, ran.err
    return dict(json.loads(ran.out))


def test_a_recipe_of_ones_own_is_priced_as_its_file_says(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('inherits = "grpo"\n[objective]\nkl = 0.0\n')
    own, shipped, cheaper = (plan(run, "--recipe", name) for name in ("my.toml", "grpo", "dr-grpo"))
    assert own["recipe"] == "my"
    priced = [entry["candidates"][0]["gpu_hours_per_step"] for entry in (own, shipped, cheaper)]
    assert priced[0] == pytest.approx(priced[2])
    assert priced[0] < priced[1]
    assumed = next(entry for entry in own["assumptions"] if entry["what"] == "recipe")
    assert (assumed["value"], assumed["source"]) == ("my (synchronous)", "--recipe")


def test_the_recipe_file_may_be_named_in_the_configuration(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('inherits = "scalerl"\nname = "ours"\n')
    (tmp_path / "rlplan.toml").write_text('[recipe]\nname = "my.toml"\n')
    assert plan(run)["recipe"] == "ours"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "recipe my.toml does not exist; shipped are cispo, dapo"),
        ("[objective]\nclip_hgh = 0.1\n", "my.toml: unknown key 'objective.clip_hgh': did you mean 'clip_high'"),
        ('[optimizer]\nlearning_rate_schedule = "cosine"\n', "depends on the run's length"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(
    run: Run, tmp_path: Path, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / "my.toml").write_text(text)
    ran = run("propose", "--budget", "5000", "--recipe", "my.toml")
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "rlplan.db").exists()


def measured(recipe: str) -> CostRecord:
    values = asdict(samples.cost_record()) | {"recipe": recipe, "seconds": {"generate": 30.0, "train": 10.0}}
    return CostRecord(**values)


def test_a_measured_step_counts_as_its_own_recipe_and_an_unknown_one_as_the_requested() -> None:
    def learned(recorded: str, requested: str) -> list[float]:
        asked = request(recipe=requested)
        learned_from = calibration_of([measured(recorded)], asked.workload, asked.hardware.gpu, asked.traits)
        return list(learned_from.coefficients.log_mean.values())

    assert learned("dapo", "grpo") == learned("dapo", "dapo") != learned("grpo", "grpo")
    assert learned("ours.toml", "dapo") == learned("dapo", "dapo")
    assert learned("ours.toml", "grpo") == learned("grpo", "grpo")


def test_help_reads_no_recipe() -> None:
    code = (
        "import sys\nfrom rlplan.cli import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        "print('planner.recipes' in sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False"
