"""NeMo-RL 0.6: run_grpo.py by start.py, in a Ray of the trial's own.

Its checkpoint_must_save_by is a time that is said at the start: start.py has it looked up when a save is asked for. A
recipe with a staleness bound is trained by its async_grpo_train (nemo_rl/algorithms/grpo.py:4074 at 7ea279abf): a
batch is of weights at most that many updates behind.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from budgets.errors import InputError
from budgets.memory import CHUNKED, WHOLE
from budgets.memory_plan import Means, MemoryPlan
from planner.recipes.schema import Recipe
from runner.ports.task import Prompt, Task, turns_of
from runner.ports.trial import Machine
from runner.trainers.base import Driver, Keys, Layout, ScriptForm
from runner.trainers.capabilities import CommonDeviations, Deviation, Loss
from runner.trainers.job import Job
from runner.trainers.keys import OMIT
from runner.trainers.options import PassOptions, SplitOptions


class NemoRlOptions(SplitOptions, PassOptions):
    """[trainer.options] of NeMo-RL."""

    checkout: str = Field(description="the folder of NeMo-RL's repository, whose examples/run_grpo.py is started")


class NemoRlJob(Job):
    """What NeMo-RL is to do."""

    def take_own(self) -> None:
        """Take what NeMo-RL alone needs."""
        systems = {messages_of(problem.prompt)[0] for problem in (*self.task.train, *self.task.validation)}
        if len(systems) > 1:
            raise InputError(
                "prompts with several system messages, or some, with --trainer nemo-rl: it has one for all"
            )
        (self.system,) = systems
        self.checkout = str(Path(self.options.checkout).expanduser())
        batches = self.warmup_batches  # the scheduler goes on once for a batch
        constant = {"name": "torch.optim.lr_scheduler.ConstantLR", "kwargs": {"factor": 1.0, "total_iters": 1}}
        self.scheduler: list[dict[str, Any]] = [constant, {"milestones": []}]
        if batches > 1:
            rise = {"start_factor": 1 / batches, "end_factor": 1.0, "total_iters": batches - 1}
            linear = {"name": "torch.optim.lr_scheduler.LinearLR", "kwargs": rise}
            self.scheduler = [linear, constant, {"milestones": [batches]}]


class NemoRlDriver(Driver[NemoRlJob]):
    """NeMo-RL's run_grpo.py."""

    name, title = "nemo-rl", "NeMo-RL"
    form = "tables"
    job_type, Options = NemoRlJob, NemoRlOptions
    own_ray = counts_batches = saves_on_request = True
    asynchronous = "by staleness"
    chat = "always"
    programs = ("start.py", "rlplan_environment.py")
    parts = ("inside", "runner/grpo/__init__.py", "runner/grpo/advantages.py")
    rows = ("input", "output")
    keys_file = "nemo.json"
    layout = Layout(
        pattern="checkpoints/step_{step}"  # renamed from tmp_step_N once it is whole
    )
    refuses: ClassVar[Mapping[str, str]] = {
        "machine.compile": "leave it out",
        "recipe.filters.curriculum": "it shuffles the prompts; set 'none'",
    }
    failures = (("input", r"validation errors? for |omegaconf\.errors|AssertionError: .*(must|should|requires|need)"),)
    # Its exemplar is made for 1.5 billion weights and 512 tokens.
    means = Means(shares="tensor", heads=(WHOLE, CHUNKED))
    loss = Loss(clips=("ppo", "none", "cispo"), aggregations=("sample", "token"))
    script = ScriptForm(decided=("defaults", "env.*", "data.*"), refers=True)

    def keys(self, job: NemoRlJob) -> Keys:
        """Return the keys that rlplan decides."""
        objective, optimizer, machine, share = job.objective, job.optimizer, job.machine, job.share
        apart = job.asynchronous
        return {
            "defaults": f"{job.checkout}/examples/configs/grpo_math_1B.yaml",
            "grpo": {
                "num_prompts_per_step": job.prompts_per_batch * job.updates,
                "num_generations_per_prompt": job.rollouts_per_prompt,
                "max_rollout_turns": 1,
                "max_num_steps": job.to_step,
                "max_num_epochs": 1_000_000,  # the loop ends by steps
                "seed": job.seed,
                "val_period": job.validate_every,
                "val_at_start": True,  # which it does at step 0 alone
                "val_at_end": False,
                "max_val_samples": job.validation_problems,
                "val_batch_size": job.validation_problems,  # by which it rounds down
                "val_num_generations_per_prompt": job.validation.samples,
                "normalize_rewards": job.advantage.scale == "group",
                "use_leave_one_out_baseline": False,  # its default is true
                "overlong_filtering": job.rewards.mask_truncated,
                "reward_shaping.enabled": job.overlong > 0,
                "reward_shaping.overlong_buffer_length": job.overlong,
                "reward_shaping.overlong_buffer_penalty": 1,
                "reward_shaping.max_response_length": job.max_response_tokens,
                "reward_scaling.enabled": False,
                "use_dynamic_sampling": job.refills,
                "dynamic_sampling_max_gen_batches": job.filters.most_refills,
                "batch_multiplier": 1,
                "async_grpo.enabled": apart,
                "async_grpo.max_trajectory_age_steps": job.schedule.staleness_bound or OMIT,
                "async_grpo.in_flight_weight_updates": apart or OMIT,
            },
            "policy": {
                "model_name": job.model,
                "tokenizer.name": job.tokenizer,
                "tokenizer.chat_template": job.chat_template or OMIT,
                "train_global_batch_size": job.rollouts_per_step,  # of one update
                "dtensor_cfg.lora_cfg.enabled": True if machine.lora_rank else OMIT,
                "dtensor_cfg.lora_cfg.dim": machine.lora_rank or OMIT,
                "dtensor_cfg.lora_cfg.alpha": machine.lora_alpha if machine.lora_rank else OMIT,
                "dtensor_cfg.lora_cfg.use_triton": job.plan.width == 1
                if machine.lora_rank
                else OMIT,  # it asserts that
                "train_micro_batch_size": job.passes,
                "max_total_sequence_length": job.max_tokens,
                "precision": machine.weights,
                "generation.max_new_tokens": job.max_response_tokens,
                "generation.temperature": job.temperature,
                "generation.top_p": job.top_p,
                "generation.top_k": None,
                "generation.vllm_cfg.async_engine": apart or OMIT,
                "generation.colocated.enabled": False if apart else OMIT,
                "generation.colocated.resources.num_nodes": share.engine_nodes if apart else OMIT,
                "generation.colocated.resources.gpus_per_node": share.engine_gpus_per_node if apart else OMIT,
                "optimizer.name": "torch.optim.AdamW",
                "optimizer.kwargs.lr": job.learning_rate,
                "optimizer.kwargs.betas": [optimizer.beta1, optimizer.beta2],
                "optimizer.kwargs.eps": optimizer.epsilon,
                "optimizer.kwargs.weight_decay": optimizer.weight_decay,
                "scheduler": job.scheduler,
                "max_grad_norm": optimizer.clip_norm or 1e9,
            },
            "data": {
                "shuffle": True,
                "default.prompt_file": None,  # its default adds a sentence to each prompt
                "default.system_prompt_file": None if job.system is None else job.folder + "/system.txt",
                "default.processor": "math_hf_data_processor",
                "default.env_name": "rlplan",  # as it is registered by start.py
                **dataset(job, "train"),
                **dataset(job, "validation"),
            },
            "loss_fn": {
                "ratio_clip_min": job.clip_low,
                "ratio_clip_max": job.clip_high,
                "ratio_clip_c": None,
                "use_cispo": objective.clip == "cispo",
                "sequence_level_importance_ratios": objective.ratio == "sequence",
                "token_level_loss": objective.aggregation == "token",
                "reference_policy_kl_penalty": objective.kl,
                "reference_policy_kl_type": "k3",
                "kl_input_clamp_value": None,
                "kl_output_clamp_value": None,
                "use_on_policy_kl_approximation": False,
                "use_kl_in_reward": False,
                "use_importance_sampling_correction": apart or objective.truncated_importance is not None,
                "truncated_importance_sampling_type": None if objective.truncated_importance is None else "tis",
                "truncated_importance_sampling_ratio": objective.truncated_importance,
                "truncated_importance_sampling_ratio_min": None,
                "force_on_policy_ratio": False,
                "disable_ppo_ratio": False,
            },
            "checkpointing": {
                "enabled": True,
                "checkpoint_dir": f"{job.folder}/checkpoints",
                "metric_name": None,  # by a metric it would remove the newest
                "keep_top_k": 2,
                "save_period": job.save_every,
                "save_optimizer": True,
                "checkpoint_must_save_by": None,
            },
            "cluster": {"num_nodes": machine.nodes, "gpus_per_node": job.gpus_per_node},
            "logger": {
                "log_dir": f"{job.folder}/attempt-{job.attempt.number}.logs",
                "wandb.name": job.trial,
                "mlflow.run_name": job.trial,
                "mlflow.experiment_name": job.sweep,
            },
            "env.rlplan.folder": job.folder,
        }

    def free(self, job: NemoRlJob) -> Keys:
        """Return keys that the user's own settings may change."""
        return {"logger": {"wandb_enabled": False, "wandb.project": "rlplan"}}

    def memory(self, job: NemoRlJob, plan: MemoryPlan) -> Keys:
        """Return the keys by which it fits its GPUs."""
        padded = math.ceil(plan.tokens / (64 * plan.width)) * 64 * plan.width
        return {
            "policy": {
                "dtensor_cfg.activation_checkpointing": True,
                "dtensor_cfg.tensor_parallel_size": plan.width,
                "dtensor_cfg.cpu_offload": plan.offload,
                # As its grpo-math-qwen3-30ba3b-megatron-tp4-32k.yaml
                "logprob_chunk_size": 2048 if plan.head < WHOLE else None,
                "sequence_packing.enabled": True,
                "sequence_packing.train_mb_tokens": padded,
                "sequence_packing.logprob_mb_tokens": padded,
                "generation.vllm_cfg.tensor_parallel_size": plan.engine_gpus,
                "generation.vllm_cfg.gpu_memory_utilization": plan.engine_share,
            }
        }

    def run(self, job: NemoRlJob) -> Keys:
        """Return what its program is told in run.json."""
        return {"checkout": job.checkout, "asynchronous": job.asynchronous or OMIT}

    def refusals(self, job: NemoRlJob) -> Iterator[str]:
        """Yield what of a job it cannot run, and what to do instead."""
        bound = job.schedule.staleness_bound
        if (job.validation_temperature, job.validation_top_p) != (job.temperature, job.top_p):
            yield (
                "[task] validation_temperature or validation_top_p with --trainer nemo-rl: it samples a "
                "validation as it does the training; leave both out"
            )
        if (problems := len(job.task.train)) < (prompts := job.prompts_per_batch * job.updates):
            yield (
                f"{problems} training problems with --trainer nemo-rl: a batch of {prompts} prompts is drawn without "
                "repeating any, so at least as many are needed"
            )
        if job.asynchronous and job.refills:
            yield (
                f"filters.zero_variance = 'refill' and schedule.staleness_bound = {bound} with --trainer nemo-rl: its "
                "asynchronous training has no dynamic sampling; set 'keep', or staleness_bound = 0"
            )
        if job.asynchronous and job.overlong > 0:
            yield (
                f"rewards.overlong_share = {job.rewards.overlong_share:g} and schedule.staleness_bound = {bound} with "
                "--trainer nemo-rl: its asynchronous training shapes no rewards; set 0, or staleness_bound = 0"
            )

    def aggregation(self, recipe: Recipe) -> str | None:
        """Return the one average that its loss for a recipe has; None where it has several."""
        objective = recipe.objective
        return "sample" if objective.ratio == "sequence" else "token" if objective.clip == "cispo" else None

    def otherwise(self, recipe: Recipe, machine: Machine) -> CommonDeviations:
        """Return what it does otherwise as several trainers do."""
        return CommonDeviations(
            dropping="but it keeps groups without a gradient",
            refilling=("but it fails when they do not suffice", "an error after so many"),
            head=machine.weights != "bfloat16",
            sampler=self.is_apart(recipe),  # start.py then has the ratio against it
            rising="by batch",
        )

    def deviations(self, recipe: Recipe, machine: Machine) -> Mapping[str, Deviation]:
        """Return what else it does otherwise, by the recipe's dotted keys."""
        objective = recipe.objective
        return {
            "objective.kl_weighted": Deviation(
                "but its KL term has the ratio's gradient", instead=True, when=objective.kl > 0
            ),
            "objective.entropy": Deviation("which its loss has no term for", instead=0.0),
            "objective.truncated_importance": Deviation(
                "which its ratio against the sampler has in it", when=bool(self.is_apart(recipe))
            ),
            "objective.truncated_importance_level": Deviation(
                f"but with this ratio it is the {objective.ratio}'s",
                instead=objective.ratio,
                when=objective.truncated_importance is not None,
            ),
        }

    def files(self, job: NemoRlJob) -> dict[str, str]:
        """Return every file, with that of the system message where there is one."""
        return super().files(job) | ({} if job.system is None else {"system.txt": job.system})

    def prompt(self, task: Task, prompt: Prompt) -> Any:
        """Return what the user says."""
        return messages_of(prompt)[1]


def messages_of(prompt: Prompt) -> tuple[str | None, str]:
    """Return the system message and the user's; NeMo-RL's data processor takes one, after a system message for all."""
    turns = turns_of(prompt)
    if [turn["role"] for turn in turns if turn["role"] != "system"] != ["user"]:
        raise InputError("prompts of several turns with --trainer nemo-rl: its data processor takes one message")
    return next((turn["content"] for turn in turns if turn["role"] == "system"), None), turns[-1]["content"]


def dataset(job: NemoRlJob, split: str) -> Keys:
    """Return the keys of a data file of a job."""
    keys = {"dataset_name": "ResponseDataset", "data_path": f"{job.folder}/{split}.jsonl", "split_validation_size": 0}
    return {f"{split}.{key}": value for key, value in {**keys, "input_key": "input", "output_key": "output"}.items()}


DRIVER = NemoRlDriver()
