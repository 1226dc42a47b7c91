"""A trainer is a file: what one holds, and what is said of one that is wrong."""

from pathlib import Path

import pytest

from budgets.errors import ConfigError
from planner.logs.series import ours_of
from planner.logs.trainers import load_trainer, read_trainer, sharding, trainer_names

OWN = """
marks = ["mine/*"]
validation = "mine/eval"
[metrics]
reward = ["mine/reward", "mine/score"]
[seconds]
save.sum = ["mine/weights", ["mine/state", "mine/optimizer"]]
"""


def test_a_trainers_file_is_all_that_its_log_needs(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    mine = read_trainer(tmp_path / "mine.toml")
    logged = {"mine/score": 0.5, "mine/weights": 2.0, "mine/state": 3.0, "mine/optimizer": 9.0}
    assert ours_of(mine, logged) == ({"reward": 0.5}, {"save": 5.0})
    assert [load_trainer(name).name for name in trainer_names()] == trainer_names()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("marks = [", "mine.toml is not TOML"),
        ('marks = ["a"]', "mine.toml lacks validation"),
        (OWN + '[metric]\nreward = "a"', "unknown key 'metric': did you mean 'metrics'"),
        (OWN + '[keys]\nlearning_rat = "a"', "unknown key 'keys.learning_rat': did you mean 'learning_rate'"),
        (OWN + "[keys]\nmodel = 3", r"mine.toml: keys.model = 3 should be a name"),
        ("keys = 3\n" + OWN, r"mine.toml: keys = 3 should be a table"),
    ],
)
def test_what_is_wrong_in_a_trainers_file_is_named_with_the_file(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_trainer(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("trainer", "backend", "expected"),
    [
        ("nemo-rl", "", "always"),  # DTensor, as its own settings and rlplan's have it
        ("nemo-rl", "megatron", "never"),
        ("easyr1", "", "always"),  # as verl, whose fork it is
        ("slime", "", "never"),
        ("openrlhf", "", "always"),  # rlplan starts it with ZeRO-3
        ("openrlhf", "zero2", "never"),
        ("trl", "", "needed"),
        ("nobody's", "", "needed"),
    ],
)
def test_weights_are_shared_out_as_what_trains_does_and_else_as_the_trainer_s_file_has_it(
    trainer: str, backend: str, expected: str
) -> None:
    assert sharding(trainer, backend) == expected
