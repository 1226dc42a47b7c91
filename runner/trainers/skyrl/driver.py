"""SkyRL 0.4.0: its trainer, of which start.py derives the experiment.

A recipe with a staleness bound is trained by its FullyAsyncRayPPOTrainer (fully_async_trainer.py), whose
max_staleness_steps counts updates as the bound does; by start.py its batches are made of the oldest prompts, so that
no slow one is further behind.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from budgets.memory_plan import Means, MemoryPlan
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine
from runner.trainers.base import Keys, Layout, Rehearsed, ScriptForm
from runner.trainers.capabilities import CommonDeviations, Deviation, Loss
from runner.trainers.job import Job
from runner.trainers.keys import OMIT, python_path
from runner.trainers.options import HorizonOptions, without_vllm

_REDUCTIONS = {
    "token": "token_mean",
    "sample": "sequence_mean",
    "prompt": "prompt_mean",
    "constant": "seq_mean_token_sum_norm",
}


class SkyrlJob(Job):
    """What SkyRL is to do."""

    def take_own(self) -> None:
        """Take what SkyRL alone needs."""
        self.level = (
            self.objective.truncated_importance_level if self.objective.truncated_importance is not None else None
        )
        self.clips = self.objective.clip not in ("cispo", "soft")
        self.cispo = self.objective.clip == "cispo"
        self.soft = self.objective.clip == "soft"
        self.plain_loss = "gspo" if self.objective.ratio == "sequence" else "sapo" if self.soft else "regular"


class SkyrlDriver(Rehearsed[SkyrlJob]):
    """SkyRL's trainer, whose experiment start.py derives."""

    name, title = "skyrl", "SkyRL"
    form = "json"
    job_type, Options = SkyrlJob, HorizonOptions
    rehearses = ("start.py", "--rehearse")
    own_ray = counts_batches = saves_on_request = True
    asynchronous = "by staleness"
    horizon = True
    chat = "own"
    parts = (
        "inside",
        "runner/trainers/skyrl/__init__.py",
        "runner/trainers/skyrl/hooks.py",
    )
    writes_tracker = True
    turns = True
    layout = Layout(
        pattern="checkpoints/global_step_{step}",
        tracker="checkpoints/latest_ckpt_global_step.txt",  # SkyRL writes it when a checkpoint is whole
        holds=("trainer_state.pt", "data.pt"),
        ahead="fully_async_state.pt",  # which prompts have been trained; written after the tracker
    )
    refuses: ClassVar[Mapping[str, str]] = {
        "machine.compile": "rlplan does not have SkyRL compile the model: set false"
    }
    failures = (("checkpoint", r"FileNotFoundError: (?:Checkpoint path|Trainer state file) not found"),)
    # As its examples and its default have.
    means = Means(engine_share=0.8)
    loss = Loss(clips=("ppo", "none", "cispo", "soft"), aggregations=("token", "sample", "prompt", "constant"))
    script = ScriptForm(
        known=("*.*",),
        decided=("data.*", "environment.*", "generator.num_inference_engines"),
        refers=True,
        options={
            "generator.inference_engine.tensor_parallel_size": "tensor_parallel",
            "generator.inference_engine_tensor_parallel_size": "tensor_parallel",
            "generator.inference_engine.gpu_memory_utilization": "vllm_memory",
            "generator.gpu_memory_utilization": "vllm_memory",
        },
    )

    def keys(self, job: SkyrlJob) -> Keys:
        """Return the keys that rlplan decides."""
        objective, optimizer, schedule, filters = job.objective, job.optimizer, job.schedule, job.filters
        advantage, machine, share, apart = job.advantage, job.machine, job.share, job.asynchronous
        return {
            "data": {
                "train_data": [f"{job.folder}/train.jsonl"],
                "val_data": [f"{job.folder}/validation.jsonl"],
                "dataloader.num_workers": 0,  # what others have read ahead is in no checkpoint
            },
            "environment.env_class": "rlplan",
            "trainer": {
                "placement.colocate_all": not share.apart,
                "placement.policy_num_nodes": share.nodes,
                "placement.policy_num_gpus_per_node": share.gpus_per_node,
                "placement.ref_num_nodes": share.nodes,
                "placement.ref_num_gpus_per_node": share.gpus_per_node,
                "strategy": "fsdp",
                "policy.model.path": job.model_folder,
                "policy.model.lora.rank": machine.lora_rank or OMIT,
                "policy.model.lora.alpha": machine.lora_alpha if machine.lora_rank else OMIT,
                # Its own is one for all trials
                "policy.model.lora.lora_sync_path": job.folder + "/lora" if machine.lora_rank else OMIT,
                "policy.optimizer_config.lr": job.learning_rate,
                "policy.optimizer_config.scheduler": "constant_with_warmup",
                "policy.optimizer_config.num_warmup_steps": job.warmup_steps,  # counted in updates
                "policy.optimizer_config.adam_betas": [optimizer.beta1, optimizer.beta2],
                "policy.optimizer_config.weight_decay": optimizer.weight_decay,
                "policy.optimizer_config.max_grad_norm": optimizer.clip_norm or 1e9,
                "ref.model.path": job.model_folder,
                "seed": job.seed,
                "epochs": 1,  # of a file as long as the horizon
                "max_training_steps": job.to_step,
                "train_batch_size": job.prompts_per_batch * job.updates,
                "policy_mini_batch_size": job.prompts_per_batch,  # of one update, in prompts
                "update_epochs_per_batch": 1,
                "max_prompt_length": job.max_prompt_tokens,
                "eval_batch_size": job.validation.problems,
                "eval_interval": job.validate_every,
                "eval_before_train": not job.resumes,  # else it would score its checkpoint again
                "dump_eval_results": True,
                "resume_mode": "from_path" if job.resumes else "none",
                "resume_path": job.checkpoint,
                "ckpt_path": f"{job.folder}/checkpoints",
                # start.py decides; by the second the last is always saved
                "ckpt_interval": 1 if apart else job.horizon["batches"] + 1,
                "fully_async.enabled": apart,
                "fully_async.max_staleness_steps": schedule.staleness_bound or OMIT,
                "fully_async.num_parallel_generation_workers": job.prompts_per_batch * (schedule.staleness_bound + 1)
                if apart
                else OMIT,
                "fully_async.sample_full_batch": job.refills if apart else OMIT,
                "max_ckpts_to_keep": 2,
                "export_path": f"{job.folder}/exports",
                "log_path": f"{job.folder}/logs",
                "run_name": job.trial,
                "algorithm.advantage_estimator": "grpo",
                "algorithm.grpo_norm_by_std": advantage.scale == "group",
                "algorithm.advantage_batch_normalize": advantage.scale == "batch",
                "algorithm.loss_reduction": _REDUCTIONS[objective.aggregation],
                "algorithm.max_seq_len": job.max_response_tokens if objective.aggregation == "constant" else None,
                "algorithm.use_kl_in_reward": False,
                "algorithm.use_kl_loss": objective.kl > 0,  # its default is a term of 0.001
                "algorithm.kl_loss_coef": objective.kl,
                "algorithm.kl_estimator_type": "k3",
                "algorithm.use_entropy_loss": objective.entropy > 0,
                "algorithm.entropy_loss_coef": objective.entropy,
                "algorithm.zero_variance_filter": filters.zero_variance == "drop" or (job.refills and apart),
                "algorithm.dynamic_sampling.type": "filter" if job.refills and not apart else None,
                # At the end of a limit of its own it would give up
                "algorithm.dynamic_sampling.max_sample_batches": 1_000_000,
                "algorithm.off_policy_correction.tis_ratio_type": job.level,
                f"algorithm.off_policy_correction.{job.level}_tis_ratio_clip_high": objective.truncated_importance
                if job.level
                else OMIT,
                # start.py has the second
                "algorithm.policy_loss_type": "cispo" if job.cispo else job.plain_loss + ("_rollout" if apart else ""),
                "algorithm.eps_clip_low": job.clip_low if job.clips else OMIT,
                "algorithm.eps_clip_high": job.clip_high if job.clips else OMIT,
                "algorithm.cispo.cispo_anchor": "rollout" if job.cispo and objective.against == "sampler" else OMIT,
                # 1: a ratio without a lower clip begins at 0
                "algorithm.cispo.cispo_eps_clip_low": job.clip_low if job.cispo else OMIT,
                "algorithm.cispo.cispo_eps_clip_high": job.clip_high if job.cispo else OMIT,
                "algorithm.sapo.tau_pos": objective.soft_positive if job.soft else OMIT,
                "algorithm.sapo.tau_neg": objective.soft_negative if job.soft else OMIT,
            },
            "generator": {
                "n_samples_per_prompt": job.rollouts_per_prompt,
                # Groups without signal are left out only where a response has one reward; all are scored at the end.
                "batched": filters.zero_variance != "keep" and not apart,
                "sampling_params.max_generate_length": job.max_response_tokens,
                "sampling_params.temperature": job.temperature,
                "sampling_params.top_p": job.top_p,
                "eval_n_samples_per_prompt": job.validation.samples,
                "eval_sampling_params.max_generate_length": job.max_response_tokens,
                "eval_sampling_params.temperature": job.validation_temperature,  # its own is 0
                "eval_sampling_params.top_p": job.validation_top_p,
                "inference_engine.num_engines": share.engines,
                "inference_engine.tensor_parallel_size": share.engine_gpus,
                "inference_engine.gpu_memory_utilization": job.options.vllm_memory or job.plan.engine_share,
                "inference_engine.enable_ray_prometheus_stats": False,
                "apply_overlong_filtering": job.rewards.mask_truncated,
            },
        }

    def free(self, job: SkyrlJob) -> Keys:
        """Return keys that the user's own settings may change."""
        return {
            "trainer": {
                "micro_train_batch_size_per_gpu": job.passes,
                "micro_forward_batch_size_per_gpu": job.passes,
                "logger": "console",
                "project_name": "rlplan",
                "print_example_interval": -1,
                "enable_ray_gpu_monitor": False,  # it reports to Weights & Biases
            }
        }

    def memory(self, job: SkyrlJob, plan: MemoryPlan) -> Keys:
        """Return the keys by which it fits its GPUs."""
        return {
            "trainer": {  # of FSDP2; logits are in chunks, and states asleep, by its own defaults
                "gradient_checkpointing": True,
                "policy.fsdp_config.cpu_offload": plan.offload,
                "policy.sequence_parallel_size": plan.width,
                "ref.sequence_parallel_size": plan.width,
            }
        }

    def environment(self, job: SkyrlJob) -> Keys:
        """Return the variables of its processes."""
        return {"PYTHONPATH": python_path(job.folder + "/parts"), "HF_DATASETS_CACHE": f"{job.folder}/datasets"}

    def refusals(self, job: SkyrlJob) -> Iterator[str]:
        """Yield what of a job it cannot run, and what to do instead."""
        yield from without_vllm(self.title, job, job.options.tensor_parallel)

    def otherwise(self, recipe: Recipe, machine: Machine) -> CommonDeviations:
        """Return what it does otherwise as several trainers do."""
        apart = self.is_apart(recipe)
        return CommonDeviations(
            dropping="but its asynchronous trainer keeps groups without a gradient" if apart else None,
            refilling=("but it refills until the batch is whole", "no bound"),
            head=False,
            # Of its losses, that one can have another anchor
            sampler=apart or recipe.objective.clip == "cispo",
            epsilon=1e-6,
            rising="late",
        )

    def deviations(self, recipe: Recipe, machine: Machine) -> Mapping[str, Deviation]:
        """Return what else it does otherwise, by the recipe's dotted keys."""
        objective, apart = recipe.objective, self.is_apart(recipe)
        return {
            "objective.kl_weighted": Deviation("which it has not", instead=False, when=objective.kl > 0),
            "objective.kl": Deviation(
                f"which it averages within each response first, not as '{objective.aggregation}'",
                instead="a mean over responses",
                when=objective.kl > 0 and objective.aggregation != "sample",
                ours=False,
            ),
            "objective.entropy": Deviation(
                "which it averages within each pass first",
                instead="a mean over passes",
                when=bool(objective.entropy),
                ours=False,
            ),
            "objective.truncated_importance": Deviation(
                "which its ratio against the sampler has in it", when=bool(apart)
            ),
            "optimizer.epsilon": Deviation("which it cannot set", instead=1e-8),
            "rewards.overlong_share": Deviation(
                "but a reward of it does not see how many tokens there were", instead=0.0
            ),
            "advantage.scale": Deviation(
                "where it centres and divides over tokens, padding included",
                instead="the deviation over tokens",
                when=recipe.advantage.scale == "batch",
                ours=False,
            ),
            "filters.zero_variance": Deviation(
                "but such groups count among those that it averages over",
                instead="left out of the loss alone",
                when=not apart and recipe.filters.zero_variance == "drop" and (objective.aggregation != "token"),
                ours=False,
            ),
        }


DRIVER = SkyrlDriver()
