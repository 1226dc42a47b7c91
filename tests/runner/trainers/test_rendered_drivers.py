"""What the drivers of all named trainers do: what each tells its trainer, with which keys.

None of these trainers is needed: tests/trainers_* and tests/trl ask their own parsers, loggers and losses.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.ports.trial import Machine, TrialConfig, ValidationPlan
from runner.trainers.catalogue import driver_of
from runner.trainers.driver import Attempt
from tests.runner.trainers.standins import GPUS, attempt, launched

NAMED = ("trl", "verl", "prime-rl", "openrlhf", "skyrl", "nemo-rl", "slime")
TWO_NODES = Machine(gpus=4, nodes=2, device="cuda", engine="vllm")
Made = Callable[..., TrialConfig]
ACTOR, TRAINER = "actor_rollout_ref.actor", "trainer.algorithm"


def rendered(config: TrialConfig, begun: Attempt) -> dict[str, Any]:
    """Return all that a trainer is told, by its own names."""
    files, name = launched(config, begun).files, config.trainer.name if config.trainer else ""
    if name in ("prime-rl", "nemo-rl"):
        return leaves(json.loads(files["rl.json" if name == "prime-rl" else "nemo.json"]))
    if name == "verl":
        return dict(word.split("=", 1) for word in json.loads(files["overrides.json"]))
    run = json.loads(files["run.json"])
    if name == "trl":
        return {**run["settings"], **run["launch"]}
    if name == "skyrl":
        return {key: json.loads(value) for key, value in (word.split("=", 1) for word in run["words"])}
    given: dict[str, Any] = {}
    for word in run["words"]:
        if word.startswith("--"):
            given[word] = []
        else:
            given[next(reversed(given))].append(word)
    return given


def leaves(tables: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tables.items():
        found |= leaves(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return found


@pytest.mark.parametrize(
    ("trainer", "recipe", "changes", "keys"),
    [
        ("trl", "grpo", {}, {"loss_type": "dapo", "beta": 0.0, "scale_rewards": "group", "epsilon": 0.2}),
        ("trl", "easy", {}, {"beta": 1e-3, "entropy_coef": 1e-3, "use_bias_correction_kl": False}),
        ("trl", "dr-grpo", {}, {"loss_type": "dr_grpo", "scale_rewards": "none"}),
        ("trl", "gspo", {}, {"importance_sampling_level": "sequence", "epsilon": 3e-4, "steps_per_generation": 4}),
        ("trl", "cispo", {}, {"loss_type": "cispo", "epsilon_high": 5.0, "adam_beta2": 0.95}),
        ("trl", "minimax", {}, {"loss_type": "cispo", "num_generations": 4}),  # nearly, as that is asked for
        (
            "trl",
            "plain",
            {"prompts_per_batch": 6, "machine": Machine(gpus=2, micro_batch_tokens=90)},
            {"per_device_train_batch_size": 6, "gradient_accumulation_steps": 2},  # 14 tokens a rollout: 6 divides 12
        ),
        ("trl", "plain", {"machine": TWO_NODES}, {"processes": 4, "machines": 2, "head": "10.0.0.1"}),
        (
            "verl",
            "hard",
            {"machine": TWO_NODES},
            {
                "data.train_batch_size": "8",
                f"{ACTOR}.ppo_mini_batch_size": "8",  # prompts: one update for each batch
                "actor_rollout_ref.rollout.n": "4",
                "algorithm.adv_estimator": "rlplan",  # not its default, gae
                "trainer.total_training_steps": "6",
                "trainer.test_freq": "3",
                f"{ACTOR}.optim.lr_warmup_steps": "10",
                f"{ACTOR}.optim.lr_warmup_steps_ratio": "0.0",
                "algorithm.rollout_correction.rollout_is": "token",
                "trainer.nnodes": "2",
                "trainer.n_gpus_per_node": "2",
            },
        ),
        (
            "verl",
            "dapo",
            {"options": {"save_steps": 40}},
            {
                "data.train_batch_size": "128",  # sixteen updates of a batch
                f"{ACTOR}.ppo_mini_batch_size": "8",
                "trainer.total_training_steps": "1",  # the whole batch that has the segment's last update
                "trainer.save_freq": "2",
                f"{ACTOR}.optim.lr_warmup_steps": "20",  # batches, by which its rate moves
                "algorithm.filter_groups.metric": "acc",  # as reward.py beside it returns it
            },
        ),
        (
            "verl",
            "plain",
            {"options": {"settings": {"reward.num_workers": 4, "actor_rollout_ref.rollout.engine_kwargs.x": 8}}},
            {"reward.num_workers": "4", "actor_rollout_ref.rollout.engine_kwargs.x": "8"},
        ),
        (
            "verl",
            "scalerl",
            {"machine": TWO_NODES},
            {
                "trainer.v1.trainer_mode": "separate_async",
                "trainer.v1.separate_async.parameter_sync_step": "1",
                "trainer.v1.separate_async.num_warmup_batches": "8",
                "trainer.v1.sampler.max_off_policy_threshold": "9",  # versions, of which one is the newest
                "trainer.nnodes": "1",
                "actor_rollout_ref.rollout.nnodes": "1",
                "actor_rollout_ref.rollout.n_gpus_per_node": "2",
                "actor_rollout_ref.rollout.gpu_memory_utilization": "0.8",
                "algorithm.rollout_correction.bypass_mode": "true",  # ratios are against the sampler
                "data.train_batch_size": "8",
                "trainer.total_training_steps": "6",
            },
        ),
        (
            "prime-rl",
            "hard",
            {},
            {
                "orchestrator.batch_size": 32,  # in rollouts
                "orchestrator.group_size": 4,
                "max_steps": 6,
                "deployment.num_train_gpus": 2,
                "deployment.num_infer_gpus": 2,
                "orchestrator.max_off_policy_steps": 1,
                "orchestrator.train.filter_zero_advantages": False,
                "orchestrator.train.sampling.max_completion_tokens": 8,
                "orchestrator.eval.interval": 3,
                "orchestrator.eval.group_size": 2,
                "trainer.scheduler.type": "linear",
                "trainer.scheduler.warmup_steps": 9,  # after the first, which has a tenth of the rate
                "trainer.scheduler.min_lr": 1e-5,
                "trainer.scheduler.decay_steps": 0,
                "trainer.optim.lr": 1e-4,
                "trainer.loss.dppo_mask_low": 0.2,
                "orchestrator.renderer.name": "default",  # a local model is in none of its tables
            },
        ),
        ("prime-rl", "plain", {"warmup_steps": 0}, {"trainer.scheduler.type": "constant"}),
        ("prime-rl", "dapo", {}, {"trainer.scheduler.warmup_steps": 19}),  # of the updates that it makes, one a batch
        (
            "openrlhf",
            "plain",
            {},
            {
                "--algo.advantage.estimator": ["dr_grpo"],  # its own is gae, with a critic
                "--algo.kl.init_coef": ["0.0"],  # its own puts a KL term into the reward
                "--eval.temperature": ["1.0"],  # its own is 0.6
                "--ckpt.best_metric_key": ["none"],  # its own keeps one more checkpoint, by the score
                "--train.batch_size": ["32"],
                "--train.num_episodes": ["1"],
                "--actor.lr_scheduler": ["cosine_warmup_with_min_lr"],
                "--actor.min_lr_ratio": ["1.0"],  # so that it is constant
            },
        ),
        ("openrlhf", "hard", {}, {"--algo.advantage.is_correction_threshold": ["0.0", "2.0"]}),
        ("openrlhf", "easy", {}, {"--algo.kl.use_loss": [], "--algo.kl.estimator": ["k3"]}),
        ("openrlhf", "gspo", {}, {"--actor.policy_loss_type": ["gspo"], "--rollout.batch_size": ["32"]}),
        ("openrlhf", "dapo", {}, {"--algo.dynamic_filtering_enable": [], "--actor.eps_clip_low_high": ["0.2", "0.28"]}),
        (
            "openrlhf",
            "magistral",
            {"machine": TWO_NODES},
            {
                "--train.async_enable": [],
                "--train.async_queue_size": ["8"],
                "--actor.num_nodes": ["1"],  # of two; vLLM has the other
                "--vllm.num_engines": ["2"],
                "--vllm.gpu_memory_utilization": ["0.8"],
                "--algo.advantage.is_correction_level": ["token"],  # else vLLM is asked for no probabilities
                "--rollout.batch_size": ["8"],
            },
        ),
        (
            "openrlhf",
            "plain",
            {"options": {"vllm_gpus": 2}, "machine": GPUS.model_copy(update={"gpus": 10})},
            {"--actor.num_gpus_per_node": ["8"], "--vllm.num_engines": ["2"]},
        ),
        (
            "skyrl",
            "plain",
            {},
            {
                "trainer.policy_mini_batch_size": 8,
                "trainer.train_batch_size": 8,  # one update for a batch
                f"{TRAINER}.use_kl_loss": False,  # its own is a term of 0.001
                "trainer.policy.optimizer_config.weight_decay": 0.0,  # its own is 0.01
                "generator.eval_sampling_params.temperature": 1.0,  # its own is 0
                "generator.batched": False,  # else it scores no response before the last one is generated
                "data.dataloader.num_workers": 0,
                "trainer.logger": "console",  # its own wants an account
                "trainer.ckpt_interval": 2001,  # it saves at a segment's end anyway
            },
        ),
        (
            "skyrl",
            "magistral",
            {},
            {
                "trainer.fully_async.enabled": True,
                "trainer.fully_async.max_staleness_steps": 8,
                "trainer.fully_async.num_parallel_generation_workers": 72,  # prompts of nine batches
                "trainer.placement.colocate_all": False,
                "trainer.placement.policy_num_gpus_per_node": 2,
                "generator.inference_engine.num_engines": 2,
                "generator.inference_engine.gpu_memory_utilization": 0.8,
                "generator.batched": False,
                "trainer.ckpt_interval": 1,
                f"{TRAINER}.policy_loss_type": "regular_rollout",  # as start.py registers it
                f"{TRAINER}.loss_reduction": "prompt_mean",
            },
        ),
        ("skyrl", "easy", {}, {f"{TRAINER}.kl_loss_coef": 1e-3, f"{TRAINER}.loss_reduction": "token_mean"}),
        ("skyrl", "dr-grpo", {}, {f"{TRAINER}.grpo_norm_by_std": False, f"{TRAINER}.max_seq_len": 6}),
        ("skyrl", "hard", {}, {f"{TRAINER}.off_policy_correction.tis_ratio_type": "token"}),
        ("skyrl", "gspo", {}, {f"{TRAINER}.eps_clip_low": 3e-4, "trainer.train_batch_size": 32}),
        ("skyrl", "cispo", {}, {f"{TRAINER}.cispo.cispo_eps_clip_low": 1.0, f"{TRAINER}.cispo.cispo_eps_clip_high": 4}),
        ("skyrl", "scalerl", {}, {f"{TRAINER}.cispo.cispo_anchor": "rollout", f"{TRAINER}.policy_loss_type": "cispo"}),
        ("skyrl", "dapo", {}, {f"{TRAINER}.dynamic_sampling.type": "filter", f"{TRAINER}.eps_clip_high": 0.28}),
        ("skyrl", "minimax", {}, {f"{TRAINER}.loss_reduction": "prompt_mean", "generator.batched": True}),
        ("skyrl", "plain", {"options": {"settings": {"generator.max_turns": 4}}}, {"generator.max_turns": 4}),
        (
            "nemo-rl",
            "gspo",
            {"prompts_per_batch": 3, "validation": ValidationPlan(samples=2, every_rollouts=48)},
            {
                "grpo.num_generations_per_prompt": 4,
                "grpo.num_prompts_per_step": 12,  # four updates of a batch
                "policy.train_global_batch_size": 12,  # of each
                "grpo.max_num_steps": 2,
                "grpo.val_period": 1,
                "grpo.use_leave_one_out_baseline": False,  # its default is true
                "loss_fn.sequence_level_importance_ratios": True,
                "loss_fn.token_level_loss": False,
                "checkpointing.metric_name": None,  # by which it would remove the newest
                "checkpointing.keep_top_k": 2,
                "data.default.prompt_file": None,  # which would add a sentence
                "cluster.num_nodes": 1,
                "cluster.gpus_per_node": 4,
            },
        ),
        (
            "nemo-rl",
            "magistral",
            {"machine": TWO_NODES},
            {
                "grpo.async_grpo.max_trajectory_age_steps": 8,
                "policy.generation.colocated.resources.num_nodes": 1,  # of two; the other trains
                "policy.generation.colocated.resources.gpus_per_node": 2,
                "policy.generation.vllm_cfg.async_engine": True,
                "loss_fn.use_importance_sampling_correction": True,  # which it asserts
            },
        ),
        (
            "slime",
            "scalerl",
            {"options": {"train_gpus": 3}, "prompts_per_batch": 6},
            {"--rollout-num-gpus": ["1"], "--actor-num-gpus-per-node": ["3"], "--use-rollout-logprobs": []},
        ),
        (
            "slime",
            "hard",
            {},
            {"--lr-warmup-iters": ["9"], "--lr-warmup-init": ["1e-05"]},  # a tenth of the rate, not its default 0
        ),
        (
            "slime",
            "gspo",
            {"options": {"settings": {"sglang-mem-fraction-static": 0.6, "--max-tokens-per-gpu": 99}}},
            {
                "--rotary-base": ["1000000"],
                "--n-samples-per-prompt": ["4"],
                "--rollout-batch-size": ["32"],  # four updates of a batch
                "--global-batch-size": ["32"],
                "--num-rollout": ["2"],
                "--advantage-estimator": ["gspo"],
                "--lr-decay-style": ["constant"],
                "--lr-warmup-iters": ["0"],
                "--lr-decay-iters": ["1000000"],  # else a segment's length, which a warm-up may not pass
                "--max-tokens-per-gpu": ["99"],
                "--sglang-mem-fraction-static": ["0.6"],
            },
        ),
    ],
)
def test_a_recipe_n_and_b_are_told_in_its_words(
    trainer: str, recipe: str, changes: dict[str, Any], keys: dict[str, Any], made: Made, tmp_path: Path
) -> None:
    config = made(trainer, recipe, **changes)
    driver_of(config).check(config)
    given = rendered(config, attempt(tmp_path))
    assert {name: given[name] for name in keys} == keys


ENDS = {  # what says where a segment ends; nothing else may depend on that
    "trl": set(),  # the gate
    "verl": {"trainer.total_training_steps"},
    "prime-rl": {"max_steps"},
    "openrlhf": set(),  # our own program
    "skyrl": {"trainer.max_training_steps"},
    "nemo-rl": {"grpo.max_num_steps"},
    "slime": {"--num-rollout"},
}


@pytest.mark.parametrize("trainer", NAMED)
def test_nothing_that_it_computes_depends_on_where_a_segment_ends(trainer: str, made: Made, tmp_path: Path) -> None:
    config = made(trainer, warmup_steps=7)
    short, long = (rendered(config, attempt(tmp_path, to_step=steps)) for steps in (4, 400))
    assert {name for name in {**short, **long} if short.get(name) != long.get(name)} == ENDS[trainer]


@pytest.mark.parametrize(
    ("trainer", "keys", "files"),
    [
        ("verl", {"trainer.resume_mode": "resume_path", "trainer.val_before_train": "true"}, {}),
        ("prime-rl", {"resume.step": 6, "clean": False}, {}),
        ("openrlhf", {"--ckpt.load_enable": []}, {"checkpoints/_actor/latest": "saved"}),
        (
            "skyrl",
            {"trainer.resume_mode": "from_path", "trainer.eval_before_train": False},
            {"checkpoints/latest_ckpt_global_step.txt": "6"},
        ),
    ],
)
def test_it_goes_on_from_the_checkpoint_that_was_chosen_and_not_from_the_latest(
    trainer: str, keys: dict[str, Any], files: dict[str, str], made: Made, tmp_path: Path
) -> None:
    config = made(trainer)
    again = attempt(tmp_path, number=2, from_step=6, to_step=12, checkpoint=tmp_path / "saved")
    given, fresh = rendered(config, again), rendered(config, attempt(tmp_path))
    assert {name: given[name] for name in keys} == keys
    assert not any(fresh.get(name) == value for name, value in keys.items() if name != "trainer.val_before_train")
    laid = launched(config, again).files
    assert {name: laid[name] for name in files} == files


@pytest.mark.parametrize("trainer", ["openrlhf", "skyrl", "slime"])
def test_where_it_counts_batches_several_updates_are_one_of_its_steps(trainer: str, made: Made, tmp_path: Path) -> None:
    run = json.loads(launched(made(trainer, "gspo"), attempt(tmp_path, from_step=4, to_step=10)).files["run.json"])
    assert run["from_step"] == 1
    if trainer == "openrlhf":
        assert run["to_step"] == 3


@pytest.mark.parametrize(
    ("trainer", "settings", "keys"),
    [
        ("trl", {"report_to": "wandb"}, {"report_to": "wandb", "run_name": "n4-B8-s0"}),
        (
            "verl",
            {"trainer.logger": ["console", "wandb"]},
            {"trainer.logger": "[console,wandb,file]", "trainer.experiment_name": "n4-B8-s0"},
        ),
        (
            "prime-rl",
            {"trainer.monitors.wandb.project": "maths"},
            {"trainer.monitors.wandb.name": "n4-B8-s0", "trainer.monitors.wandb.group": "sweep-3"},
        ),
        (
            "openrlhf",
            {"logger.wandb.key": "from-environment"},
            {"--logger.wandb.run_name": ["n4-B8-s0"], "--logger.wandb.group": ["sweep-3"]},
        ),
        (
            "skyrl",
            {"trainer.logger": "wandb", "trainer.project_name": "maths"},
            {"trainer.logger": "wandb", "trainer.run_name": "n4-B8-s0", "trainer.project_name": "maths"},
        ),
        (
            "nemo-rl",
            {"logger.wandb_enabled": True},
            {"logger.wandb_enabled": True, "logger.wandb.name": "n4-B8-s0", "logger.mlflow.experiment_name": "sweep-3"},
        ),
        ("slime", {"use-wandb": True}, {"--use-wandb": [], "--wandb-group": ["sweep-3-n4-B8-s0"]}),
    ],
)
def test_a_tracker_is_the_users_and_names_the_trial_and_its_sweep(
    trainer: str, settings: dict[str, Any], keys: dict[str, Any], made: Made, tmp_path: Path
) -> None:
    config = made(trainer)
    assert config.trainer is not None
    options = {**config.trainer.options, "settings": settings}
    own = {"options": options, "environment": {"HF_HUB_OFFLINE": "0", "OMP_NUM_THREADS": "8"}}
    config = config.model_copy(update={"trainer": config.trainer.model_copy(update=own)})
    begun = attempt(tmp_path / "sweep-3" / "n4-B8-s0" / "trainer")
    assert {name: rendered(config, begun)[name] for name in keys} == keys
    environment = launched(config, begun).environment
    named = {name: environment[name] for name in ("WANDB_RUN_GROUP", "HF_HUB_OFFLINE", "OMP_NUM_THREADS")}
    assert named == {"WANDB_RUN_GROUP": "sweep-3", "HF_HUB_OFFLINE": "0", "OMP_NUM_THREADS": "8"}
