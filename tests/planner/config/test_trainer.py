from contextlib import nullcontext
from pathlib import Path

import pytest
from pydantic import ValidationError

from budgets.errors import ConfigError, InputError
from planner.config.trainer import Patience, TrainerChoice, chosen_trainer

TABLE = {"name": "trl", "python": "/opt/trl/bin/python", "options": {"vllm": False}, "patience": {"stop_seconds": 5}}


@pytest.mark.parametrize(
    ("given", "configured", "name", "python", "options"),
    [
        ("trl", None, "trl", None, {}),
        (None, TABLE, "trl", "/opt/trl/bin/python", {"vllm": False}),
        ("trl", TABLE, "trl", "/opt/trl/bin/python", {"vllm": False}),
        ("standin", TABLE, "standin", None, {}),
    ],
)
def test_a_flag_wins_and_keeps_what_the_configuration_says_of_the_same_trainer(
    given: str | None, configured: dict[str, object] | None, name: str, python: str | None, options: dict[str, object]
) -> None:
    chosen = chosen_trainer(given, configured)
    assert chosen is not None
    assert (chosen.name, chosen.python, chosen.options) == (name, python, options)
    assert chosen.patience.stop_seconds == (5 if configured else 120)


@pytest.mark.parametrize("given", [(None, None), (None, {"name": "builtin"}), ("builtin", TABLE)])
def test_the_trainer_of_this_package_is_nobody_elses(given: tuple[str | None, dict[str, object] | None]) -> None:
    assert chosen_trainer(*given) is None


def test_a_file_describes_a_trainer_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    file = tmp_path / "mine" / "train.toml"
    file.write_text(
        'python = "env/bin/python"\ncommand = "python train.py"\n'
        '[metrics]\nformat = "csv"\n[patience]\nstop_seconds = 3\n'
    )
    monkeypatch.chdir(tmp_path)
    chosen = chosen_trainer("mine/train.toml", TABLE)
    assert chosen == TrainerChoice(
        name="command",
        python=str(tmp_path / "mine/env/bin/python"),
        patience=Patience(stop_seconds=3),
        options={"here": str(tmp_path / "mine"), "command": "python train.py", "metrics": {"format": "csv"}},
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "trll"', "'trll' is no trainer that rlplan can drive: did you mean 'trl'?"),
        ("[patience]\nstop_second = 3", "did you mean 'stop_seconds'"),
        ("python = 3", "python = 3 should be a valid string"),
        ("x = ", "is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"mine\.toml") as error:
        chosen_trainer(str(file), None)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"launcher": "sudo /usr/bin/docker run image"}, "what docker starts is no child of rlplan"),
        ({"environment": {"NCCL_DEBUG": "WARN", "WANDB_API_KEY": "k"}}, r'\[trainer\] secrets = \["WANDB_API_KEY"\]'),
        ({"environment": {"CUDA_VISIBLE_DEVICES": "0"}}, "rlplan sets that itself"),
    ],
)
def test_what_would_outlive_a_sweep_or_be_stored_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        TrainerChoice.model_validate({"name": "trl", **given})


@pytest.mark.parametrize(
    ("variable", "refused"),
    [
        *(
            (f"{name}=x", True)
            for name in ("GITHUB_PAT", "AWS_SECRET_ACCESS", "MYPASS", "PASSPHRASE", "AUTH", "PG_PASS")
        ),
        *((f"{name}=x", True) for name in ("OPENAI_APIKEY", "HF_TOKEN", "DB_PASSWORD_FILE", "API_SECRET")),
        *((f"{name}=x", True) for name in ("HF_TOKENS", "API_KEYS", "TOKENS", "APP_SECRETS", "AWSCREDENTIALS")),
        *(
            (f"{name}=x", False)
            for name in ("KEYBOARD", "VLLM_MAX_NUM_BATCHED_TOKENS", "MAX_NEW_TOKENS", "STOP_TOKENS")
        ),
        ("DB_URL=postgresql://anna:pw@host/d", True),
        ("DB_URL=postgresql://anna@host/d", False),
        *((f"{name}=x", False) for name in ("MAX_TOKENS", "TOKENIZERS_PARALLELISM", "PATH", "RAY_AUTH_MODE", "BYPASS")),
        *((f"{name}=x", False) for name in ("MONKEY", "COMPAT", "KEY_FILE", "AUTHOR")),
    ],
)
def test_what_looks_like_a_secret_is_no_variable(variable: str, refused: bool) -> None:
    name, value = variable.split("=")
    with pytest.raises(ValidationError, match="name it alone") if refused else nullcontext():
        TrainerChoice.model_validate({"name": "trl", "environment": {name: value}})


@pytest.mark.parametrize(
    ("launcher", "environment", "sees"),
    [
        ("apptainer exec image.sif", {}, False),
        ("srun --overlap /usr/bin/singularity exec image.sif", {}, False),
        ("apptainer exec --nv image.sif", {}, True),
        ("apptainer exec image.sif", {"APPTAINER_NV": "1"}, True),
        ("nice -n 5", {}, True),
    ],
)
def test_a_container_that_shows_no_gpu_is_refused_on_gpus(
    launcher: str, environment: dict[str, str], sees: bool
) -> None:
    chosen = TrainerChoice(name="trl", launcher=launcher, environment=environment)
    with nullcontext() if sees else pytest.raises(InputError, match="--nv"):
        chosen.require_gpus_inside()


def test_a_command_has_one_environment_and_another_trainer_keeps_it() -> None:
    options = {"command": "x", "environment": {"TOKENIZERS_PARALLELISM": "false"}}
    own = {
        "name": "command",
        "launcher": "apptainer exec i.sif",
        "environment": {"NCCL_IB_HCA": "mlx5"},
        "secrets": ["HF_TOKEN"],
    }
    chosen = TrainerChoice.model_validate({**own, "options": options})
    assert chosen.environment == {"TOKENIZERS_PARALLELISM": "false", "NCCL_IB_HCA": "mlx5"}
    assert chosen.options == {"command": "x"}
    other = chosen_trainer("trl", chosen.model_dump())
    assert other is not None
    assert (other.environment, other.secrets, other.launcher) == (chosen.environment, ["HF_TOKEN"], None)


def test_a_file_that_is_not_there_and_a_name_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        chosen_trainer(str(tmp_path / "none.toml"), None)
    with pytest.raises(ConfigError, match="--trainer: 'verlo' is no trainer"):
        chosen_trainer("verlo", None)
