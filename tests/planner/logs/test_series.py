"""Which series is the score, by the names of each trainer."""

import pytest

from planner.logs.series import choose_score, ours_of, trainer_of
from planner.logs.trainers import load_trainer


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
