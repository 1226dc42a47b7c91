"""TRL 1.16's GRPOTrainer by train.py, which waits at the gate; tests/trl holds its losses against ours, one by one."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from pydantic import Field

from budgets.errors import InputError
from budgets.memory import FUSED
from budgets.memory_plan import Means, MemoryPlan
from planner.recipes.schema import Recipe
from planner.tables import Positive
from runner.ports.task import Task
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.base import Keys, Layout, Rehearsed, ScriptForm
from runner.trainers.capabilities import CommonDeviations, Deviation, Loss
from runner.trainers.driver import Attempt
from runner.trainers.job import Job
from runner.trainers.keys import OMIT
from runner.trainers.launch import meeting_port
from runner.trainers.options import PassOptions, absolute_reference
from runner.trainers.trainer_process import MARK
from runner.training.components import prompt_pass_rates

_AVERAGES = {"cispo": "token", "soft": "sample", "gamma": "token"}
_LOSSES = {"cispo": "cispo", "soft": "sapo", "gamma": "vespo"}
_AVERAGED = {"sample": "grpo", "token": "dapo", "constant": "dr_grpo", "sum": "luspo"}


class TrlOptions(PassOptions):
    """[trainer.options] of TRL."""

    hold: bool = Field(True, description="wait at a segment's end with the model in memory; false: save and end")
    accelerate: str | None = Field(None, description="accelerate's configuration file; else FSDP2 on several GPUs")
    vllm_memory: Positive | None = Field(None, description="share of a GPU that vLLM takes; else by what is there")
    environment: str | None = Field(
        None, description="TRL's environment_factory, as package.module:Class or path/to/file.py:Class"
    )
    tools: list[str] | None = Field(None, description="functions that the model may call, named likewise")


class TrlJob(Job):
    """What TRL is to do."""

    def take_own(self) -> None:
        """Take what TRL alone needs."""
        options, checkpoint = self.options, self.attempt.checkpoint
        accelerate = None if options.accelerate is None else Path(options.accelerate).expanduser().absolute()
        if accelerate is not None and not accelerate.is_file():
            raise InputError(f"[trainer.options] accelerate = '{options.accelerate}': there is no file {accelerate}")
        self.accelerate = accelerate and str(accelerate)
        saved = checkpoint and json.loads((checkpoint / MARK).read_text(encoding="utf-8"))
        self.saved_length = saved and saved["response_tokens"]
        self.environment = options.environment and absolute_reference("environment", options.environment)
        self.tools = [absolute_reference("tools", tool) for tool in options.tools or ()]
        self.on_gpu = self.machine.device != "cpu"
        self.by_vllm = self.machine.engine == "vllm"
        self.tooled = bool(options.environment or options.tools)


class TrlDriver(Rehearsed[TrlJob]):
    """TRL's GRPOTrainer by train.py."""

    name, title = "trl", "TRL"
    form = "tables"
    gated, trains_on = True, False
    job_type, Options = TrlJob, TrlOptions
    rehearses = ("train.py", "--rehearse")
    everywhere = True
    clip_lowest = 1e9
    programs = ("start.py", "train.py")
    parts = (
        "inside",
        "runner/trainers/trl/__init__.py",
        "runner/trainers/trl/callback.py",
        "runner/trainers/trl/rollouts.py",
    )
    layout = Layout("checkpoint-{step}", mark="complete.json")  # which callback.py writes
    refuses: ClassVar[Mapping[str, str]] = {
        "machine.compile": "set torch_compile in [trainer.options.settings] instead"
    }
    means = Means(shares=None, heads=(FUSED,), sleeps=False)
    loss = Loss(
        clips=("ppo", "none", "cispo", "soft", "gamma"),
        aggregations=("sample", "token", "constant", "sum"),
        by_response=("ppo", "none", "cispo", "soft", "gamma"),
    )
    script = ScriptForm(
        listed="arguments.txt",
        decided=(
            *("deepspeed", "fsdp*", "use_vllm", "vllm_mode", "vllm_server_*", "vllm_group_port", "local_rank"),
            *("do_*", "eval_*", "hub_*", "push_to_hub", "load_best*", "metric_for*", "save_*"),
        ),
        options={"vllm_gpu_memory_utilization": "vllm_memory"},
    )

    def keys(self, job: TrlJob) -> Keys:
        """Return the keys that rlplan decides."""
        objective, optimizer, machine = job.objective, job.optimizer, job.machine
        by_ratio, cispo, soft = objective.clip not in _LOSSES, objective.clip == "cispo", objective.clip == "soft"
        return {
            "output_dir": ".",
            "seed": job.seed,
            "max_steps": 1_000_000,  # nothing depends on it, since the rate is constant
            "num_generations": job.rollouts_per_prompt,
            "per_device_train_batch_size": job.passes,
            "gradient_accumulation_steps": job.rollouts_per_step // machine.gpus // job.passes,
            "steps_per_generation": job.rollouts_per_step // machine.gpus // job.passes * job.updates,
            "max_completion_length": job.max_response_tokens,
            "temperature": job.temperature,
            "top_p": job.top_p,
            "reward_weights": [1.0, 0.0],
            "shuffle_dataset": False,
            "ignore_data_skip": True,  # the order begins where the checkpoint stands
            "disable_dropout": True,
            "use_cpu": not job.on_gpu,
            "bf16": machine.weights == "bfloat16",
            "cast_lm_head_to_fp32": job.precision.fp32_head and machine.weights == "bfloat16",
            "logging_steps": 1,
            "logging_nan_inf_filter": False,
            "save_strategy": "no",
            "eval_strategy": "no",
            "run_name": job.trial,
            "disable_tqdm": True,
            "loss_type": _AVERAGED[objective.aggregation] if by_ratio else _LOSSES[objective.clip],
            "epsilon": job.clip_low if by_ratio else 0.0 if cispo else OMIT,
            "epsilon_high": job.clip_high if by_ratio else 1 + job.clip_high if cispo else OMIT,  # which caps the ratio
            "sapo_temperature_pos": objective.soft_positive if soft else OMIT,
            "sapo_temperature_neg": objective.soft_negative if soft else OMIT,
            "scale_rewards": job.advantage.scale,
            "importance_sampling_level": objective.ratio,
            "beta": objective.kl,
            "use_bias_correction_kl": objective.kl_weighted,
            "entropy_coef": objective.entropy,
            "mask_truncated_completions": job.rewards.mask_truncated,
            "vllm_importance_sampling_correction": objective.truncated_importance is not None,
            "vllm_importance_sampling_mode": f"{objective.truncated_importance_level}_truncate",
            "vllm_importance_sampling_clip_max": objective.truncated_importance or 1.0,
            "num_iterations": 1,
            "learning_rate": job.learning_rate,
            "lr_scheduler_type": "constant",  # the warm-up is train.py's, as of the builtin trainer
            "optim": "adamw_torch_fused",
            "adam_beta1": optimizer.beta1,
            "adam_beta2": optimizer.beta2,
            "adam_epsilon": optimizer.epsilon,
            "weight_decay": optimizer.weight_decay,
            "max_grad_norm": optimizer.clip_norm or 0.0,
            "use_vllm": True if job.by_vllm else OMIT,
            "vllm_mode": "colocate" if job.by_vllm else OMIT,
        }

    def free(self, job: TrlJob) -> Keys:
        """Return keys that the user's own settings may change."""
        return {"activation_checkpointing": job.on_gpu, "dataloader_pin_memory": job.on_gpu, "report_to": "none"}

    def memory(self, job: TrlJob, plan: MemoryPlan) -> Keys:
        """Return the keys by which it fits its GPUs."""
        return {
            "vllm_gpu_memory_utilization": job.options.vllm_memory or plan.engine_share if job.by_vllm else OMIT,
            "vllm_tensor_parallel_size": plan.engine_gpus if job.by_vllm else OMIT,
            "vllm_enable_sleep_mode": True if job.by_vllm else OMIT,
            "vllm_max_model_length": job.max_tokens if job.by_vllm else OMIT,
        }

    def run(self, job: TrlJob) -> Keys:
        """Return what its program is told in run.json."""
        machine = job.machine
        return {
            "attempt": job.attempt.number,
            "checkpoint": job.checkpoint,
            "response_tokens": job.saved_length,
            "hold": job.options.hold,
            "threads": int(job.config.driven_by.environment.get("OMP_NUM_THREADS", machine.threads)),
            "launch": {
                "processes": machine.gpus,
                "machines": len(job.attempt.hosts),
                "head": job.attempt.hosts[0],
                "port": meeting_port(job.attempt),
                "accelerate": job.accelerate,
                "mixed_precision": "bf16" if machine.weights == "bfloat16" else "no",
                "fsdp_offload": job.plan.offload if machine.gpus > 1 else None,
            },
            "tokenizer": "tokenizer" if job.embedded else job.model,
            "chat": job.has_chat,
            "environment": job.environment,
            "tools": job.tools,
            "chat_template": job.chat_template,
            "train_problems": len(job.task.train),
            "pass_rates": prompt_pass_rates(job.config, job.task),
            "seed": job.seed,
            "prompts_per_batch": job.prompts_per_batch,
            "rollouts_per_step": job.rollouts_per_step,
            "warmup_steps": job.warmup_steps,
            "validation": {
                **job.validation.model_dump(),
                "temperature": job.validation_temperature,
                "top_p": job.validation_top_p,
                "rows": job.rollouts_per_step // machine.gpus,
            },
            "lora": {"r": machine.lora_rank, "lora_alpha": machine.lora_alpha} if machine.lora_rank else None,
            "settings": job.keys,
        }

    def environment(self, job: TrlJob) -> Keys:
        """Return the variables of its processes."""
        return {"TRL_EXPERIMENTAL_SILENCE": "1"}

    def judges(self, job: TrlJob) -> int:
        """Return how many processes of a machine score responses at the same time."""
        return job.gpus_per_node

    def refusals(self, job: TrlJob) -> Iterator[str]:
        """Yield what of a job it cannot run, and what to do instead."""
        machine, options = job.machine, job.options
        if job.by_vllm and not job.on_gpu:
            yield "machine.engine = 'vllm' on a CPU with --trainer trl: TRL has vLLM on GPUs only; use torch"
        # trl.experimental.async_grpo of 1.16: no eval_dataset, a queue of rollouts, rollout_state.json
        if "max_staleness" in options.settings:
            yield (
                "max_staleness with --trainer trl: TRL's AsyncGRPOTrainer scores no validations, fills a "
                "batch as rollouts come and not with n of B prompts, and resumes without the rollouts under "
                "way. Leave it out, or use --trainer prime-rl"
            )
        if job.tooled and not job.has_chat:
            yield (
                f"[trainer.options] environment or tools with {job.model}, which has no chat template: TRL calls tools "
                "in chats. Take a model that has one"
            )
        if job.tooled and not job.config.task.prompt_length:
            yield (
                "[trainer.options] environment or tools need [task] prompt_length: the most tokens of a "
                "prompt with the tools' descriptions and with what `reset` adds"
            )
        # Its loop ends in each process by itself, and these would wait for each other.
        together = not job.by_vllm or options.settings.get("vllm_tensor_parallel_size", 1) > 1
        if job.tooled and job.on_gpu and machine.gpus > 1 and together:
            yield (
                f"[trainer.options] environment or tools on {machine.gpus} GPUs that generate together: "
                "rollouts have different numbers of turns. Use machine.engine = 'vllm' without "
                "vllm_tensor_parallel_size, or one GPU"
            )

    def aggregation(self, recipe: Recipe) -> str | None:
        """Return the one average that its loss for a recipe has; None where it has several."""
        return _AVERAGES.get(recipe.objective.clip)

    def otherwise(self, recipe: Recipe, machine: Machine) -> CommonDeviations:
        """Return what it does otherwise as several trainers do."""
        return CommonDeviations(
            stale="but its GRPOTrainer generates, then trains",
            sampler=machine.engine != "vllm",
            epsilon=1e-4,  # which it adds to the deviation of a group
        )

    def deviations(self, recipe: Recipe, machine: Machine) -> Mapping[str, Deviation]:
        """Return what else it does otherwise, by the recipe's dotted keys."""
        return {
            "objective.against": Deviation(
                "which without staleness is the trainer itself",
                instead="trainer",
                when=machine.engine != "vllm" and recipe.schedule.staleness_bound > 0,
            ),
            "objective.clip_low": Deviation("but its cispo has no lower clip", when=recipe.objective.clip == "cispo"),
            "advantage.scale": Deviation(
                "where it divides by the deviation of rewards, not of advantages",
                instead="group",
                when=recipe.advantage.scale == "batch",
            ),
            "filters.zero_variance": Deviation(  # refilling would generate others
                "but it keeps every group", instead="keep", near=recipe.filters.zero_variance == "drop"
            ),
        }

    def job(self, config: TrialConfig, task: Task, attempt: Attempt) -> TrlJob:
        """Return an attempt with its keys; with tools a prompt may be as long as the user says."""
        longest = config.task.prompt_length
        if longest is not None and config.driven_by.options.keys() & {"environment", "tools"}:
            task = replace(task, max_prompt_tokens=longest)
        return super().job(config, task, attempt)

    def plan(self, job: TrlJob, settings: Keys) -> Any:
        """Return how a job fits its GPUs; on a CPU nothing is planned."""
        machine = job.machine
        if machine.device == "cpu":
            return SimpleNamespace(tokens=machine.micro_batch_tokens, offload=None, engine_gpus=1)
        alone = job.options.accelerate is None
        means = replace(self.means, offloads=machine.gpus > 1 and alone)  # a single GPU cannot offload its optimizer
        return self.fitted(job, settings, means, 1 if job.tooled else None, required=alone)


DRIVER = TrlDriver()
