import math
import re
import tomllib
from pathlib import Path

import pytest

from budgets.errors import ConfigError, UnknownNameError
from planner.config import Config, Layer, file_layer, flag_layer, resolve, task_layers, template
from planner.config.trainer import Patience


def test_a_flag_wins_over_the_file_and_the_file_over_the_default() -> None:
    file = Layer("rlplan.toml", {"hardware": {"gpu": "h200", "gpus": 8}})
    flags = flag_layer({"hardware.gpus": ("--gpus", 16), "workload.model": ("--model", None)})
    resolved = resolve([file, *flags])
    assert (resolved.config.hardware.gpu, resolved.config.hardware.gpus) == ("h200", 16)
    assert resolved.source("hardware.gpu") == "rlplan.toml"
    assert resolved.source("hardware.gpus") == "--gpus"
    assert resolved.source("workload.model") == "default"


def test_measured_pass_rates_of_a_task_give_way_to_a_later_rate() -> None:
    task = task_layers("sum-easy", cores=1)
    assert resolve(task).config.workload.pass_rates_file is not None
    resolved = resolve([*task, *flag_layer({"workload.pass_rate": ("--pass-rate", 0.2)})])
    assert (resolved.config.workload.pass_rate, resolved.config.workload.pass_rates_file) == (0.2, None)
    assert resolved.source("workload.pass_rates_file") == "default"


def test_a_later_file_of_pass_rates_wins_over_an_earlier_rate() -> None:
    layers = [Layer("rlplan.toml", {"workload": {"pass_rate": 0.3, "difficulty": "easy"}})]
    flags = flag_layer({"workload.pass_rates_file": ("--pass-rates-file", "rates.txt")})
    workload = resolve([*layers, *flags]).config.workload
    assert (workload.pass_rate, workload.pass_rates_file, workload.difficulty) == (None, "rates.txt", "easy")


def test_an_unknown_task_gets_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown task 'sum-esy': did you mean 'sum-easy'"):
        task_layers("sum-esy", cores=2)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"workload": {"modle": "x"}}, "rlplan.toml: unknown key 'workload.modle': did you mean 'model'"),
        ({"wrkload": {"model": "x"}}, "rlplan.toml: unknown key 'wrkload': did you mean 'workload'"),
        ({"workload": {"response_tokens": "8192"}}, "workload.response_tokens = '8192' should be a valid integer"),
        *(
            ({"budget": {"gpu_hours": hours}}, f"budget.gpu_hours = {hours!r} should be")
            for hours in (0.0, -1.0, math.nan, math.inf, 1e12)
        ),
        ({"pilot": {"fraction": 1.0}}, "pilot.fraction = 1.0 should be less than 1"),
        (
            {"grid": {"fewest_rollouts_per_prompt": 64, "most_rollouts_per_prompt": 8}},
            "rlplan.toml: grid bounds for rollouts per prompt: 64 to 8",
        ),
        ({"hardware": {"gpus": 0}}, "hardware.gpus = 0 should be greater than or equal to 1"),
        ({"hardware": 3}, r"hardware = 3 should be a table, such as \[hardware\]"),
        ({"budget": {"gpu_hours": float("nan")}}, "budget.gpu_hours = nan should be a finite number"),
        ({"pilot": {"fraction": 1.5}}, "pilot.fraction = 1.5 should be less than 1"),
    ],
)
def test_a_mistake_names_its_source_the_value_and_the_fix(tables: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve([Layer("rlplan.toml", tables)])


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve([Layer("a.toml", {"grid": {"lowest": 1}}), Layer("--gpus", {"hardware": {"gpus": -1}})])
    assert "a.toml: unknown key 'grid.lowest'" in str(caught.value)
    assert "--gpus: hardware.gpus = -1" in str(caught.value)


def test_file_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"does not exist; `rlplan init` writes one"):
        file_layer(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
        file_layer(tmp_path)
    broken = tmp_path / "broken.toml"
    broken.write_text("[workload\n")
    with pytest.raises(ConfigError, match=r"broken.toml is not TOML: .*line 1"):
        file_layer(broken)
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not TOML"):
        file_layer(broken)


EXAMPLE = re.compile(r"^## (\w+ = .+)$", re.MULTILINE)
OWN = "## A GPU or a model of your own"


def uncommented() -> str:
    """The file with a comment sign less on every line."""
    return re.sub(r"^#", "", template(), flags=re.MULTILINE)


def test_the_file_changes_nothing_and_without_its_comment_signs_holds_every_default() -> None:
    tables = tomllib.loads(uncommented())
    assert resolve([Layer("rlplan.toml", tomllib.loads(template()))]).config == Config()
    assert resolve([Layer("rlplan.toml", tables)]).config == Config()
    for section, default in Config().model_dump(exclude_none=True, exclude={"gpus", "models"}).items():
        assert tables[section] == default, section


def test_every_key_is_shown_and_each_example_is_valid_by_itself() -> None:
    own, marker, _ = template().partition(OWN)
    assert marker
    shown = tomllib.loads(EXAMPLE.sub(r"\1", re.sub(r"^# ", "", own, flags=re.MULTILINE)))
    defaults = tomllib.loads(uncommented())
    for section, field in Config.model_fields.items():
        if section not in ("gpus", "models"):
            assert set(shown[section]) == set(field.annotation.model_fields), section
            for key in set(shown[section]) - set(defaults[section]):
                resolve([Layer("rlplan.toml", {section: {key: shown[section][key]}})])
    assert set(shown["trainer"]["patience"]) == set(Patience.model_fields)
