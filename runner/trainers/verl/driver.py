"""Verl 0.9.1's V1 trainer, in a Ray of the trial's own.

Two of its runs in one share a queue of prompts, and the first to end kills the other. A recipe with a staleness bound
is trained by its separate_async (trainer_separate_async.py): it asks for that many batches ahead, and
rlplan_saving.py has each batch be the oldest, so that none is further behind.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from budgets.memory import FUSED, WHOLE
from budgets.memory_plan import Means, MemoryPlan
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.base import Keys, Layout, Rehearsed, ScriptForm
from runner.trainers.capabilities import CommonDeviations, Deviation, Loss
from runner.trainers.driver import Attempt
from runner.trainers.keys import OMIT
from runner.trainers.verl.job import VerlJob, VerlLog, VerlOptions
from runner.training.components import open_stream

_LOSSES = {"ppo": "vanilla", "none": "vanilla", "cispo": "cispo", "soft": "sapo"}
_AVERAGES = {
    "sample": "seq-mean-token-mean",
    "token": "token-mean",
    "constant": "seq-mean-token-sum-norm",
    "sum": "seq-mean-token-sum",
}

_ROWS = 1 << 16  # of the prompts in the order of a trial, after which it begins anew


class VerlDriver(Rehearsed[VerlJob]):
    """verl's V1 trainer."""

    name = title = "verl"
    form = "hydra"
    job_type, Options = VerlJob, VerlOptions
    rehearses = ("start.py", "check")
    own_ray = counts_batches = saves_on_request = writes_tracker = turns = True
    asynchronous = "by staleness"
    equal_shares = False
    programs = ("start.py", "reward.py", "rlplan_verl.py", "rlplan_saving.py")  # the last two verl imports
    keys_file = "overrides.json"
    layout = Layout(
        pattern="checkpoints/global_step_{step}",
        tracker="checkpoints/latest_checkpointed_iteration.txt",
        ahead="transfer_queue",  # the prompts under way, which a resumed run asks again, and what they gave
        holds=("actor", "data.pt"),  # the last is written after all processes have saved
    )
    refuses: ClassVar[Mapping[str, str]] = {"machine.compile": "it compiles by itself: leave it out"}
    failures = (
        ("input", r"Could not override '[^']*'|is not in struct|Error merging override|ConfigAttributeError"),
        ("input", r"Total available GPUs \d+ is less than total desired GPUs \d+"),
        ("input", r"real_train_batch_size \(\d+\) must be divisible|Invalid loss_agg_mode|Unsupported loss mode"),
        ("out-of-memory", r"running low on memory|ray\.exceptions\.OutOfMemoryError|OutOfMemoryError"),
        ("hang", r"[Ww]atchdog caught collective operation timeout"),
    )
    means = Means(heads=(WHOLE, FUSED), sleeps=None)
    loss = Loss(
        clips=("ppo", "none", "cispo", "soft"), aggregations=("sample", "token", "constant", "sum"), entropy_alike=True
    )
    script = ScriptForm(
        known=("*.*",),
        decided=("hydra.*", "ray_kwargs.*", "ray_init.*", "*.megatron.*"),
        refers=True,
        options={
            "actor_rollout_ref.rollout.name": "rollout",
            "actor_rollout_ref.rollout.tensor_model_parallel_size": "tensor_parallel",
            "actor_rollout_ref.rollout.gpu_memory_utilization": "rollout_memory",
            "actor_rollout_ref.actor.strategy": "strategy",
        },
    )

    def keys(self, job: VerlJob) -> Keys:
        """Return the keys that rlplan decides."""
        objective, optimizer, schedule, machine = job.objective, job.optimizer, job.schedule, job.machine
        share, options, apart = job.share, job.options, job.asynchronous
        return {
            "actor_rollout_ref": {
                "hybrid_engine": False if apart else OMIT,  # else engines stay on the GPUs that train too
                "model.path": job.model,
                "model.tokenizer_path": job.tokenizer,
                "model.custom_chat_template": job.chat_template or OMIT,
                "model.lora_rank": machine.lora_rank or OMIT,
                "model.lora_alpha": machine.lora_alpha if machine.lora_rank else OMIT,
                "actor.ppo_mini_batch_size": job.prompts_per_batch,  # of one update, in prompts
                "actor.ppo_epochs": 1,
                "actor.use_dynamic_bsz": True,
                "actor.shuffle": False,
                "actor.data_loader_seed": job.seed,
                "actor.strategy": options.strategy,
                "actor.fsdp_config.dtype": machine.weights,
                "actor.fsdp_config.model_dtype": "fp32",
                "actor.fsdp_config.seed": job.seed,
                "actor.checkpoint.async_save": False,  # which would write no tracker
                "actor.policy_loss.loss_mode": "gspo" if objective.ratio == "sequence" else _LOSSES[objective.clip],
                "actor.loss_agg_mode": _AVERAGES[objective.aggregation],
                "actor.loss_scale_factor": job.max_response_tokens if objective.aggregation == "constant" else None,
                "actor.clip_ratio_low": job.clip_low,
                "actor.clip_ratio_high": job.clip_high,
                "actor.clip_ratio_c": 1e9,  # its default is a second bound, at a ratio of 3
                "actor.tau_pos": objective.soft_positive,
                "actor.tau_neg": objective.soft_negative,
                "actor.use_kl_loss": objective.kl > 0,
                "actor.kl_loss_coef": objective.kl,
                "actor.kl_loss_type": "low_var_kl",
                "actor.entropy_coeff": objective.entropy,
                "actor.calculate_entropy": True,
                "actor.optim.optimizer": "AdamW",
                "actor.optim.lr": job.learning_rate,
                "actor.optim.lr_scheduler_type": "cosine",  # its `constant` begins with a rate of 0
                "actor.optim.min_lr_ratio": 1.0,
                "actor.optim.zero_indexed_step": False,
                "actor.optim.lr_warmup_steps": job.warmup_batches,
                "actor.optim.lr_warmup_steps_ratio": 0.0,
                "actor.optim.betas": [optimizer.beta1, optimizer.beta2],
                "actor.optim.weight_decay": optimizer.weight_decay,
                "actor.optim.clip_grad": optimizer.clip_norm or 1e9,
                "actor.optim.override_optimizer_config": {"eps": optimizer.epsilon},
                "rollout.name": options.rollout,
                "rollout.n": job.rollouts_per_prompt,
                "rollout.temperature": job.temperature,
                "rollout.top_p": job.top_p,
                "rollout.top_k": -1,
                "rollout.load_format": "safetensors" if machine.lora_rank else OMIT,  # ppo_lora.rst: adapters alone
                "rollout.seed": job.draws,
                "rollout.dtype": machine.weights,
                "rollout.tensor_model_parallel_size": job.plan.engine_gpus,
                "rollout.gpu_memory_utilization": options.rollout_memory or job.plan.engine_share,
                "rollout.calculate_log_probs": True,
                "rollout.nnodes": share.engine_nodes if apart else OMIT,
                "rollout.n_gpus_per_node": share.engine_gpus_per_node if apart else OMIT,
                "rollout.checkpoint_engine.backend": "nccl" if apart else OMIT,  # which needs cupy
                "rollout.val_kwargs.n": job.validation.samples,
                "rollout.val_kwargs.temperature": job.validation_temperature,
                "rollout.val_kwargs.do_sample": job.validation_temperature > 0,
                "rollout.val_kwargs.top_p": job.validation_top_p,
                "rollout.val_kwargs.top_k": -1,
            },
            "algorithm": {
                "adv_estimator": "rlplan",  # its default is gae, with a critic
                "use_kl_in_reward": False,
                "rollout_correction.bypass_mode": objective.against == "sampler",
                "rollout_correction.rollout_is": objective.truncated_importance_level if job.corrects else None,
                "rollout_correction.rollout_is_threshold": objective.truncated_importance or 2.0,
                "filter_groups.enable": job.refills,
                "filter_groups.metric": "acc",
            },
            "critic.enable": False,
            "reward": {"reward_manager.name": "dapo", "custom_reward_function.path": f"{job.folder}/reward.py"},
            "+reward.reward_kwargs": {
                "max_resp_len": job.max_response_tokens,
                "overlong_buffer_cfg.enable": True,
                "overlong_buffer_cfg.len": job.overlong,
                "overlong_buffer_cfg.penalty_factor": 1.0,
                "overlong_buffer_cfg.log": False,
            }
            if job.overlong
            else {},
            "data": {
                "train_files": f"{job.folder}/train.parquet",
                "val_files": f"{job.folder}/validation.parquet",
                "max_prompt_length": job.max_prompt_tokens,
                "max_response_length": job.max_response_tokens,
                "train_batch_size": job.prompts_per_batch * job.updates,
                "shuffle": False,  # they lie in the plan's order
                "validation_shuffle": False,
                "seed": job.seed,
            },
            "trainer": {
                "use_v1": True,
                "v1.trainer_mode": "separate_async" if apart else "sync",
                "v1.separate_async.parameter_sync_step": 1 if apart else OMIT,  # updates between hand-overs of weights
                "v1.separate_async.num_warmup_batches": schedule.staleness_bound or OMIT,
                "v1.sampler.max_off_policy_threshold": schedule.staleness_bound + 1
                if apart
                else OMIT,  # 1: none behind
                "nnodes": share.nodes,
                "n_gpus_per_node": share.gpus_per_node,
                "total_training_steps": job.to_step,
                "total_epochs": 1_000_000,  # the loop ends by updates
                "test_freq": job.validate_every,
                "save_freq": job.save_every,
                "val_before_train": not job.scored,
                "validation_data_dir": f"{job.folder}/validation-{job.attempt.number}",
                "checkpoint_callback_class": "rlplan_saving.SaveNow",
                "default_local_dir": f"{job.folder}/checkpoints",
                "resume_mode": "resume_path" if job.resumes else "disable",
                "resume_from_path": job.checkpoint,
                "experiment_name": job.trial,
            },
            "hydra": {"run.dir": ".", "output_subdir": None},
        }

    def free(self, job: VerlJob) -> Keys:
        """Return keys that the user's own settings may change."""
        ahead = job.schedule.staleness_bound + 1
        return {
            "actor_rollout_ref.rollout.agent.num_workers": job.helpers,
            "transfer_queue": {
                "backend.SimpleStorage.num_data_storage_units": 2,
                "backend.SimpleStorage.total_storage_size": max(100_000, 2 * ahead * job.rollouts_per_step),
            },
            "reward.num_workers": job.helpers,
            "data.dataloader_num_workers": job.helpers // job.machine.nodes,
            "trainer": {"max_actor_ckpt_to_keep": 2, "logger": ["console", "file"], "project_name": "rlplan"},
        }

    def memory(self, job: VerlJob, plan: MemoryPlan) -> Keys:
        """Return the keys by which it fits its GPUs."""
        offload = plan.sleep and not plan.offload  # by hand, where its engines take their memory in turn
        return {
            "actor_rollout_ref": {  # a token length is of one of the GPUs that share a batch
                "model.enable_gradient_checkpointing": True,
                "model.use_fused_kernels": plan.head == FUSED,
                "actor.ppo_max_token_len_per_gpu": math.ceil(plan.tokens / plan.width),
                "actor.ulysses_sequence_parallel_size": plan.width,
                "actor.fsdp_config.param_offload": offload,
                "actor.fsdp_config.optimizer_offload": offload,
                "actor.fsdp_config.offload_policy": plan.offload,
                "ref.fsdp_config.param_offload": offload,
            }
        }

    def environment(self, job: VerlJob) -> Keys:
        """Return the variables of its processes."""
        return {
            "PYTHONPATH": job.folder,  # of every process of that Ray: verl imports rlplan_verl from it
            "VERL_USE_EXTERNAL_MODULES": "rlplan_verl",
            "VERL_LOGGING_LEVEL": "WARNING" if job.asynchronous else OMIT,  # at INFO a line of its raises a TypeError
            "VERL_FILE_LOGGER_PATH": f"{job.folder}/{job.attempt.metrics.name}",  # of one attempt: it truncates
            "HYDRA_FULL_ERROR": "1",
        }

    def judges(self, job: VerlJob) -> int:
        """Return how many processes of a machine score responses at the same time."""
        return int(job.keys["reward.num_workers"]) // job.machine.nodes

    def refusals(self, job: VerlJob) -> Iterator[str]:
        """Yield what of a job it cannot run, and what to do instead."""
        machine, options = job.machine, job.options
        if machine.lora_rank and options.rollout != "vllm":
            yield f"[cost] lora_rank with rollout = '{options.rollout}': verl serves adapters with vLLM alone"
        if machine.device == "cpu":
            yield "verl generates with servers that need GPUs: make a plan for GPUs, or use --trainer trl"
        gpus, width = job.engine_gpus_per_node, options.tensor_parallel
        if gpus % (width or 1) > 0:
            yield f"[trainer.options] tensor_parallel = {width} on {gpus} GPUs of a node: it must divide them"
        if job.asynchronous and machine.lora_rank:  # engine_workers.py, update_weights
            yield (
                f"[cost] lora_rank and schedule.staleness_bound = {job.schedule.staleness_bound} with --trainer verl: "
                "its engines of their own are sent no adapters. Leave lora_rank out, or set staleness_bound = 0"
            )

    def aggregation(self, recipe: Recipe) -> str | None:
        """Return the one average that its loss for a recipe has; None where it has several."""
        return "sample" if recipe.objective.clip == "soft" else None

    def otherwise(self, recipe: Recipe, machine: Machine) -> CommonDeviations:
        """Return what it does otherwise as several trainers do."""
        return CommonDeviations(
            truncated="but it trains on every response",
            dropping="but it keeps groups without a gradient",
            refilling=("but it samples others for as long as it takes", "no bound"),
            head=machine.weights != "bfloat16",
            rising="by batch",
        )

    def deviations(self, recipe: Recipe, machine: Machine) -> Mapping[str, Deviation]:
        """Return what else it does otherwise, by the recipe's dotted keys."""
        return {"objective.kl_weighted": Deviation("which it has not", instead=False)}

    def settings(self, job: VerlJob) -> Keys:
        """Return the user's keys, with the logger that rlplan reads beside the user's own."""
        logger = job.options.settings.get("trainer.logger", "console")
        loggers = [*([logger] if isinstance(logger, str) else logger), "file"]
        return {**job.options.settings, "trainer.logger": loggers}

    def plan(self, job: VerlJob, settings: Keys) -> MemoryPlan:
        """Return how a job fits its GPUs; FSDP2 alone can keep the optimizer in the host's memory."""
        means = replace(self.means, offloads=job.options.strategy == "fsdp2")
        return self.fitted(job, settings, means, job.options.tensor_parallel)

    def files(self, job: VerlJob) -> dict[str, str]:
        """Return every file, with the advantages and the order of the prompts."""
        rows = open_stream(job.config, job.task).take(max(_ROWS, len(job.task.train)))
        files = {"advantage.json": json.dumps(job.advantage.model_dump()), "order.json": json.dumps(rows)}
        return super().files(job) | files

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[VerlLog]:
        """Return the file of its file logger, and beside it the answers of its validations."""
        return [VerlLog(config, attempt)]


DRIVER = VerlDriver()
