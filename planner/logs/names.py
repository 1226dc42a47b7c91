"""What the trainers call what we know: one table from their names to ours.

A pattern is a name in which `*` stands for anything; of several in a row the first that a log has counts. `validation`
are series that may serve as the score, `values` one number each, `seconds` what each phase of a step took.
"""

from collections.abc import Mapping
from dataclasses import dataclass

STEP = "step"  # seconds of a whole step, where the trainer times it

Patterns = tuple[str, ...]


@dataclass(frozen=True)
class Sum:
    """A phase that a trainer times in parts; each part has names of its own."""

    parts: tuple[Patterns, ...]


@dataclass(frozen=True)
class Names:
    """The names of one trainer; `marks` are those by which its logs are known."""

    trainer: str
    marks: Patterns
    validation: Patterns
    values: Mapping[str, Patterns]
    seconds: Mapping[str, Patterns | Sum]
    outside: Patterns = ("validation", "save")  # phases that the time of a whole step does not hold


def _timed(name: str) -> Patterns:
    """Return verl's name of a time, and the one of its first versions."""
    return f"timing_s/{name}", f"timing/{name}"


VERL = Names(
    "verl",
    marks=("timing_s/*", "timing/update_actor", "critic/score/mean", "actor/pg_loss", "val-core/*", "val/test_score/*"),
    validation=(
        *("val-core/*/acc/mean@*", "val-core/*/reward/mean@*", "val-core/*/mean@*", "val/*/acc/mean@*"),
        *("val/*/reward/mean@*", "val/test_score/*", "val-core/*", "val-aux/*/reward/mean@*", "val-aux/*/score/mean@*"),
    ),
    values={
        "reward": ("critic/score/mean", "critic/rewards/mean"),
        "response_tokens": ("response_length/mean",),
        "prompt_tokens": ("prompt_length/mean",),
        "longest_response_tokens": ("response_length/max",),
        "loss": ("actor/pg_loss",),
        "grad_norm": ("actor/grad_norm",),
        "entropy": ("actor/entropy", "actor/entropy_loss"),
        "kl": ("actor/kl_loss", "critic/kl", "actor/reward_kl_penalty", "actor/ppo_kl"),
        "clipped_share": ("actor/pg_clipfrac",),
        "truncated_share": ("response_length/clip_ratio",),
        "learning_rate": ("actor/lr",),
    },
    seconds={
        "generate": _timed("gen"),
        "reward": _timed("reward"),
        "logprob": Sum((_timed("old_log_prob"), _timed("values"))),
        "reference": _timed("ref"),
        "update": Sum((_timed("update_actor"), _timed("update_critic"), _timed("adv"))),
        "sync": ("timing_s/update_weights", "timing_s/reshard"),  # older ones reshard within the time of gen
        "validation": _timed("testing"),
        "save": _timed("save_checkpoint"),
        STEP: _timed("step"),
    },
)

PRIME_RL = Names(
    "prime-rl",
    marks=("train/*/all/*", "train/*/effective/*", "eval/*/all/*", "progress/total_rollouts", "time/wait_for_batch"),
    validation=(
        "eval/*/all/*/avg@*",
        "eval/*/effective/*/avg@*",
        "eval/*/avg@*",
        "eval/*/pass@1",
        "eval/*/reward/mean",
    ),
    values={
        "reward": ("train/agg/all/*/reward/mean", "train/*/all/*/reward/mean", "train/agg/effective/*/reward/mean"),
        "response_tokens": ("train/agg/all/*/num_output_tokens/mean", "train/agg/effective/*/num_output_tokens/mean"),
        "rollouts": ("progress/rollouts",),
        "rollouts_so_far": ("progress/total_rollouts",),
        "output_tokens": ("progress/output_tokens",),
        "loss": ("loss/mean",),
        "grad_norm": ("optim/grad_norm",),
        "entropy": ("entropy/all/mean", "entropy/mean"),
        "kl": ("mismatch_kl/all/mean", "mismatch_kl/mean"),
        "clipped_share": ("is_masked/all/mean", "is_masked/mean"),
        "learning_rate": ("optim/lr",),
        "truncated_share": ("train/agg/all/*/is_truncated/mean",),
    },
    seconds={
        "generate": ("time/generate_completions",),
        "update": ("time/forward_backward",),
        "sync": ("time/broadcast_weights",),
        "save": ("time/save_ckpt",),
        STEP: ("time/step",),
    },
    outside=(),
)

TRL = Names(
    "trl",
    marks=("completions/*", "rewards/*/mean", "frac_reward_zero_std", "eval_rewards/*/mean", "train/completions/*"),
    validation=("eval_rewards/*acc*/mean", "eval_reward", "eval_rewards/*/mean"),
    values={
        "reward": ("reward", "rewards/*/mean"),
        "response_tokens": ("completions/mean_length", "completion_length"),
        "longest_response_tokens": ("completions/max_length",),
        "tokens_so_far": ("num_tokens",),
        "loss": ("loss",),
        "grad_norm": ("grad_norm",),
        "entropy": ("entropy",),
        "kl": ("kl",),
        "clipped_share": ("clip_ratio/region_mean", "clip_ratio"),
        "clipped_low_share": ("clip_ratio/low_mean",),
        "clipped_high_share": ("clip_ratio/high_mean", "cispo_clip_ratio"),
        "zero_variance_share": ("frac_reward_zero_std",),
        "truncated_share": ("completions/clipped_ratio",),
        "reward_deviation": ("reward_std",),
        "learning_rate": ("learning_rate",),
    },
    seconds={
        "generate": ("profiling/Time taken: *.generate", "profiling/Time taken: *._generate"),
        "reward": ("profiling/Time taken: *._calculate_rewards",),
        "validation": ("eval_runtime",),
        STEP: ("step_time",),
    },
)

OPENRLHF = Names(
    "openrlhf",
    marks=("rollout/reward_mean", "timing/ppo_train", "eval_*_pass1", "act*_lr", "ppo_clip_ratio"),
    validation=("eval_*_pass1", "eval_*_pass*", "eval_*_reward"),
    values={
        "reward": ("rollout/reward_mean", "reward"),
        "response_tokens": ("rollout/response_length_mean", "response_length"),
        "rollouts": ("rollout/num_samples",),
        "loss": ("policy_loss", "act_loss"),
        "grad_norm": ("actor_grad_norm", "grad_norm"),
        "entropy": ("entropy_loss", "ent_loss"),
        "kl": ("kl", "ppo_kl"),
        "clipped_share": ("ppo_clip_ratio",),
        "truncated_share": ("rollout/truncated_rate",),
        "reward_deviation": ("rollout/reward_std",),
        "learning_rate": ("actor_lr", "act_lr"),
    },
    seconds={
        "generate": ("timing/generation",),
        "logprob": ("timing/make_experience",),  # of the policy and of the reference, and the reward model
        "update": ("timing/ppo_train",),
        "sync": ("timing/broadcast",),
        "validation": ("evaluation_seconds",),
        STEP: ("timing/step_total",),
    },
)

SKYRL = Names(
    "skyrl",
    marks=(
        "eval/all/avg_score",
        "reward/avg_raw_reward",
        "timing/fwd_logprobs_values_reward",
        "generate/avg_num_tokens",
    ),
    validation=("eval/all/avg_score", "eval/*/avg_score"),
    values={
        "reward": ("reward/avg_raw_reward",),
        "response_tokens": ("generate/avg_num_tokens",),
        "longest_response_tokens": ("generate/max_num_tokens",),
        "loss": ("policy/final_loss", "policy/policy_loss"),
        "grad_norm": ("policy/grad_norm", "policy/raw_grad_norm"),
        "entropy": ("policy/policy_entropy",),
        "kl": ("policy/policy_kl",),
        "clipped_share": ("policy/ppo_clip_ratio", "policy/*clip_ratio"),
        "learning_rate": ("policy/policy_lr", "policy/lr"),
    },
    seconds={
        "generate": ("timing/generate",),
        "logprob": ("timing/fwd_logprobs_values_reward",),
        "update": ("timing/train_critic_and_policy",),
        "sync": ("timing/sync_weights",),
        "validation": ("timing/eval",),
        "save": Sum((("timing/save_checkpoints",), ("timing/save_hf_model",))),
        STEP: ("timing/step",),
    },
    outside=("validation",),
)

NEMO_RL = Names(
    "nemo-rl",
    marks=("timing/train/*", "validation/accuracy", "train/mean_gen_tokens_per_sample", "performance/*"),
    validation=("validation/accuracy", "validation/*/accuracy", "validation/reward"),
    values={
        "reward": ("train/reward", "train/total_reward/mean"),
        "response_tokens": ("train/mean_gen_tokens_per_sample",),
        "prompt_tokens": ("train/mean_prompt_length",),
        "loss": ("train/loss",),
        "grad_norm": ("train/grad_norm",),
        "entropy": ("train/approx_entropy",),
        "kl": ("train/kl_penalty", "train/gen_kl_error"),
        "clipped_share": ("train/probs_ratio_clamped_share",),
        "learning_rate": ("train/lr",),
    },
    seconds={
        "generate": ("timing/train/generation", "timing/train/exposed_generation"),  # asynchronous ones time the wait
        "reward": ("timing/train/reward_calculation",),
        "logprob": ("timing/train/policy_and_reference_logprobs",),
        "update": ("timing/train/policy_training",),
        "sync": ("timing/train/prepare_for_generation/total",),
        "validation": ("timing/validation/total_validation_time",),
        "save": ("timing/train/checkpointing",),
        STEP: ("timing/train/total_step_time",),
    },
    outside=(),
)

SLIME = Names(
    "slime",
    marks=("rollout/raw_reward", "rollout/response_len/*", "perf/actor_train_time", "perf/rollout_time", "eval/step"),
    validation=("eval/*",),
    values={
        "reward": ("rollout/raw_reward",),
        "response_tokens": ("rollout/response_len/mean", "rollout/response_lengths"),
        "longest_response_tokens": ("rollout/response_len/max",),
        "loss": ("train/pg_loss", "train/loss"),
        "grad_norm": ("train/grad_norm",),
        "entropy": ("train/entropy_loss",),
        "kl": ("train/kl_loss", "train/ppo_kl"),
        "clipped_share": ("train/pg_clipfrac",),
        "truncated_share": ("rollout/truncated_ratio", "rollout/truncated"),
        "learning_rate": ("train/lr-pg_0",),
    },
    seconds={
        "generate": ("perf/rollout_time",),
        "logprob": ("perf/log_probs_time",),
        "reference": ("perf/ref_log_probs_time",),
        "update": ("perf/actor_train_time",),
        "sync": ("perf/update_weights_time",),
        "save": ("perf/save_model_time",),
        STEP: ("perf/step_time",),
    },
)

AREAL = Names(
    "areal",
    marks=("timeperf/*", "ppo_actor/*", "eval-rollout/*"),
    validation=("eval-rollout/reward", "eval-rollout/*reward*"),
    values={
        "reward": ("rollout/reward", "ppo_actor/task_reward/avg"),
        "response_tokens": ("ppo_actor/response_len/avg", "ppo_actor/seq_len/avg"),
        "prompt_tokens": ("ppo_actor/prompt_len/avg",),
        "grad_norm": ("ppo_actor/update/grad_norm", "ppo_actor/grad_norm"),
        "entropy": ("ppo_actor/update/entropy/avg", "ppo_actor/entropy/avg"),
        "kl": ("ppo_actor/kl_rewards/avg", "ppo_actor/update/approx_kl/avg"),
        "clipped_share": ("ppo_actor/update/clip_ratio/avg", "ppo_actor/update/actor_clip/avg"),
        "learning_rate": ("ppo_actor/update/lr", "ppo_actor/lr"),
    },
    seconds={
        "generate": ("timeperf/rollout",),
        "logprob": ("timeperf/recompute_logp",),
        "reference": ("timeperf/ref_logp",),
        "update": Sum((("timeperf/train_step",), ("timeperf/compute_advantage",))),
        "sync": ("timeperf/update_weights",),
        "validation": ("timeperf/eval",),
        "save": Sum((("timeperf/save",), ("timeperf/checkpoint_for_recover",))),
    },
)

TRAINERS = {each.trainer: each for each in (VERL, PRIME_RL, TRL, OPENRLHF, SKYRL, NEMO_RL, SLIME, AREAL)}
