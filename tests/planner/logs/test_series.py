"""Which series is the score, by the names of each trainer."""

import pytest

from planner.logs.series import choose_score, trainer_of


@pytest.mark.parametrize(
    ("trainer", "score", "others"),
    [
        ("verl", "val-core/aime/acc/mean@32", ["val-core/aime/acc/best@32/mean", "critic/score/mean"]),
        ("verl", "val/test_score/countdown", ["critic/score/mean", "timing/update_actor"]),
        ("prime-rl", "eval/aime/all/solver/avg@8", ["eval/aime/all/solver/reward/std", "progress/total_rollouts"]),
        ("trl", "eval_rewards/accuracy/mean", ["eval_rewards/format/mean", "eval_reward", "completions/mean_length"]),
        ("openrlhf", "eval_math_pass1", ["eval_math_pass8", "eval_math_response_length_mean", "timing/ppo_train"]),
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
    assert names.trainer == trainer
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


def test_names_of_nobody() -> None:
    assert trainer_of(["step", "score", "gpu_hours", "reward"]) is None
