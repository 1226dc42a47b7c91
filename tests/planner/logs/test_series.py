"""Which series is the score, by the names of each trainer."""

from pathlib import Path

import pytest

from budgets.errors import ConfigError
from planner.logs.series import choose_score, ours_of, trainer_of
from planner.logs.trainers import load_trainer, read_trainer, sharding, trainer_names


@pytest.mark.parametrize(
    ("trainer", "score", "others"),
    [
        ("verl", "val-core/aime/acc/mean@32", ["val-core/aime/acc/best@32/mean", "critic/score/mean"]),
        ("verl", "val/test_score/countdown", ["critic/score/mean", "timing/update_actor"]),
        ("prime-rl", "eval/aime/all/solver/avg@8", ["eval/aime/all/solver/reward/std", "progress/total_rollouts"]),
        ("trl", "eval_rewards/accuracy/mean", ["eval_rewards/format/mean", "eval_reward", "completions/mean_length"]),
        ("openrlhf", "eval_math_pass1", ["eval_math_pass8", "eval_math_response_length_mean", "timing/ppo_train"]),
        ("openrlhf", "eval/eval_math_pass1", ["eval/eval_math_pass8", "train/rollout/reward_mean", "train/kl"]),
        ("trl", "eval/rewards/accuracy/mean", ["eval/rewards/format/mean", "eval/reward", "train/rewards/x/mean"]),
        ("skyrl", "eval/all/avg_score", ["eval/all/pass_at_8", "eval/gsm8k/avg_score", "reward/avg_raw_reward"]),
        ("nemo-rl", "validation/accuracy", ["validation/avg_length", "timing/train/generation", "train/reward"]),
        ("slime", "eval/aime", ["eval/step", "eval/aime/response_len/mean", "eval/aime-pass@1", "rollout/raw_reward"]),
        ("areal", "eval-rollout/reward", ["rollout/reward", "timeperf/rollout"]),
    ],
)
def test_the_validation_is_taken_for_the_score(trainer: str, score: str, others: list[str]) -> None:
    counts = dict.fromkeys([*others, score], 5)
    names = trainer_of(counts)
    assert names is not None
    assert names.name == trainer
    choice = choose_score(names, counts)
    assert choice is not None
    assert (choice.series, choice.kind) == ((score,), "validation")


def test_a_validation_of_the_base_model_alone_is_no_curve() -> None:
    counts = {"val-core/x/acc/mean@1": 1, "critic/score/mean": 50}
    names = trainer_of(counts)
    assert names is not None
    choice = choose_score(names, counts)
    assert choice is not None
    assert choice.series == ("critic/score/mean",)
    assert "but one validation" in choice.why
    assert choice.others == ("val-core/x/acc/mean@1",)
    assert trainer_of(["step", "score", "gpu_hours", "reward"]) is None


@pytest.mark.parametrize(
    ("trainer", "logged", "expected"),
    [
        ("nemo-rl", {"timing/train/exposed_generation": 12, "timing/train/generation": 40}, {"generate": 40}),
        ("nemo-rl", {"timing/train/exposed_generation": 12}, {"generate": 12}),
        (
            "verl",
            {"timing_s/update_weights": 3, "timing_s/reshard": 1, "timing_s/gen": 20},
            {"generate": 20, "sync": 3},
        ),
        ("verl", {"timing_s/gen": 8, "timing/gen": 8}, {"generate": 8}),
        ("verl", {"timing/update_actor": 8, "timing/update_critic": 4, "timing/adv": 1}, {"update": 13}),
        ("verl", {"timing_s/old_log_prob": 2, "timing_s/values": 3}, {"logprob": 5}),
        (
            "trl",
            {f"profiling/Time taken: GRPOTrainer.{name}": 6 for name in ("vLLM.generate", "_generate")},
            {"generate": 6},
        ),
        ("openrlhf", {"train/timing/generation": 4, "train/timing/ppo_train": 6}, {"generate": 4, "update": 6}),
        ("trl", {"train/step_time": 9}, {"step": 9}),
        ("skyrl", {"timing/save_checkpoints": 5, "timing/save_hf_model": 7}, {"save": 12}),
        ("areal", {"timeperf/train_step": 9, "timeperf/compute_advantage": 1}, {"update": 10}),
        ("areal", {"timeperf/save": 4, "timeperf/checkpoint_for_recover": 2}, {"save": 6}),
    ],
)
def test_other_names_of_a_phase_are_not_added_up_and_its_parts_are(
    trainer: str, logged: dict[str, float], expected: dict[str, float]
) -> None:
    assert ours_of(load_trainer(trainer), logged)[1] == expected


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
