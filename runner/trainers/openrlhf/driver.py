"""OpenRLHF 0.11.2: train_ppo_ray by start.py, which says where a segment ends and marks checkpoints.

A recipe with a staleness bound is trained by its asynchronous trainer (ppo_trainer_async.py), whose queue has that
many batches: one is begun when that which lies as many before it has been taken out, after the update by the one
before that.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from budgets.memory import WHOLE
from budgets.memory_plan import Means, MemoryPlan
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine
from runner.trainers.base import Keys, Layout, Rehearsed, ScriptForm
from runner.trainers.capabilities import CommonDeviations, Deviation, Loss
from runner.trainers.job import Job
from runner.trainers.keys import OMIT, python_path
from runner.trainers.options import HorizonOptions, without_vllm

_ESTIMATORS = {"group": "group_norm", "none": "dr_grpo", "batch": "reinforce_baseline"}
_AVERAGES = {"token": "token-mean", "sample": "seq-mean-token-mean"}


class OpenrlhfJob(Job):
    """What OpenRLHF is to do."""

    def take_own(self) -> None:
        """Take what OpenRLHF alone needs."""
        self.corrects = self.asynchronous or self.objective.truncated_importance is not None


class OpenrlhfDriver(Rehearsed[OpenrlhfJob]):
    """OpenRLHF's train_ppo_ray."""

    name, title = "openrlhf", "OpenRLHF"
    form = "flags"
    job_type, Options = OpenrlhfJob, HorizonOptions
    rehearses = ("start.py", "--rehearse")
    own_ray = counts_batches = saves_on_request = True
    asynchronous = "by staleness"
    horizon = True
    clip_lowest = 1e9
    programs = ("start.py", "agent.py")
    parts = ("inside",)
    layout = Layout(
        pattern="checkpoints/_actor/global_step{step}",  # tags of DeepSpeed
        mark="complete.json",
        chosen="checkpoints/_actor/latest",  # which DeepSpeed loads
    )
    refuses: ClassVar[Mapping[str, str]] = {
        "machine.compile": "rlplan does not have OpenRLHF compile the model: set false",
        # ppo_actor.py, broadcast_to_vllm
        "machine.lora_rank": "it hands vLLM the names of adapters, which that does not load: "
        "leave [cost] lora_rank out",
    }
    failures = (("checkpoint", r"No checkpoint found at"),)
    # As its examples/scripts/train_ppo_ray_hybrid_engine.sh.
    means = Means(heads=(WHOLE,), engine_share=0.5)
    loss = Loss(clips=("ppo", "none"), aggregations=("token", "sample"))
    script = ScriptForm(
        known=("*.*",),
        decided=("data.*", "reward.*", "ckpt.*", "*.model_name_or_path"),
        options={"vllm.tensor_parallel_size": "tensor_parallel", "vllm.gpu_memory_utilization": "vllm_memory"},
    )

    def keys(self, job: OpenrlhfJob) -> Keys:
        """Return the keys that rlplan decides."""
        objective, optimizer, rewards, share = job.objective, job.optimizer, job.rewards, job.share
        return {
            "actor": {
                "num_nodes": share.nodes,
                "num_gpus_per_node": share.gpus_per_node,
                "policy_loss_type": "gspo" if objective.ratio == "sequence" else "ppo",
                "loss_agg_mode": _AVERAGES[objective.aggregation],
                "eps_clip_low_high": [job.clip_low, job.clip_high],
                "adam.betas": [optimizer.beta1, optimizer.beta2],
                "adam.eps": optimizer.epsilon,
                "adam.weight_decay": optimizer.weight_decay,
                "adam.lr": job.learning_rate,
                "max_norm": optimizer.clip_norm or 0.0,
                "entropy_coef": objective.entropy or OMIT,
                "model_name_or_path": job.model_folder,
                "lr_scheduler": "cosine_warmup_with_min_lr",  # of which the first update has a rate already
                "min_lr_ratio": 1.0,  # so that it is constant
                # Which it rounds up
                "lr_warmup_ratio": (job.warmup_steps - 0.5) / job.horizon["horizon_updates"]
                if job.warmup_steps
                else 0.0,
            },
            "ref": {"num_nodes": share.nodes, "num_gpus_per_node": share.gpus_per_node},
            "train": {
                "async_enable": job.asynchronous,
                "async_queue_size": job.schedule.staleness_bound or OMIT,
                "colocate_actor_ref": share.apart,
                "colocate_all": not share.apart,
                "agent_func_path": f"{job.folder}/agent.py",
                "batch_size": job.rollouts_per_step,  # of one update, in samples
                "num_episodes": 1,  # of a file as long as the horizon
                "max_epochs": 1,
                "seed": job.seed,
            },
            "vllm": {
                "enable_sleep": not share.apart,
                "num_engines": share.engines,
                "tensor_parallel_size": share.engine_gpus,
                "gpu_memory_utilization": job.options.vllm_memory or job.plan.engine_share,
            },
            "ds.enable_sleep": not share.apart,
            "algo": {
                "advantage.estimator": _ESTIMATORS[job.advantage.scale],
                # It has vLLM's probabilities by its correction alone: 1 where start.py has the ratio against them.
                "advantage.is_correction_level": "token" if job.corrects else OMIT,
                "advantage.is_correction_mode": "clip" if job.corrects else OMIT,
                "advantage.is_correction_gating": "ratio" if job.corrects else OMIT,
                "advantage.is_correction_threshold": [0.0, objective.truncated_importance or 2.0]
                if job.corrects
                else OMIT,
                "kl.init_coef": objective.kl,  # its default is 0.01, in the reward
                "kl.use_loss": True if objective.kl else OMIT,
                "kl.estimator": "k3" if objective.kl else OMIT,
                "kl.unbiased_gradient": True if objective.kl and objective.kl_weighted else OMIT,
                "dynamic_filtering_enable": True if job.refills else OMIT,
                "dynamic_filtering_range": [0.0, 1.0] if job.refills else OMIT,
            },
            "reward": {
                "overlong_buffer_len": rewards.overlong_share * job.max_response_tokens or OMIT,
                "overlong_penalty_factor": 1.0 if rewards.overlong_share else OMIT,
            },
            "data": {
                "prompt_dataset": f"{job.folder}/train.jsonl",
                "input_key": "input",
                "label_key": "label",
                "max_len": job.max_tokens,
            },
            "rollout": {
                "max_new_tokens": job.max_response_tokens,
                "n_samples_per_prompt": job.rollouts_per_prompt,
                "batch_size": job.prompts_per_batch * job.updates,
                "temperature": job.temperature,
                "top_p": job.top_p,
            },
            "eval": {
                "dataset": f"{job.folder}/validation.jsonl",
                "steps": job.validate_every,
                "n_samples_per_prompt": job.validation.samples,
                "temperature": job.validation_temperature,
            },
            "ckpt": {
                "path": f"{job.folder}/checkpoints",
                "output_dir": f"{job.folder}/final",
                "save_steps": 1,  # start.py decides which of them is saved
                "max_num": 3,  # two stay while the third is written
                "best_metric_key": "none",  # else it keeps one more, by the score
                "load_enable": True if job.resumes else OMIT,
            },
            "logger": {"wandb.run_name": job.trial, "wandb.group": job.sweep},
        }

    def free(self, job: OpenrlhfJob) -> Keys:
        """Return keys that the user's own settings may change."""
        return {"rollout.micro_batch_size": job.passes, "train.micro_batch_size": job.passes}

    def memory(self, job: OpenrlhfJob, plan: MemoryPlan) -> Keys:
        """Return the keys by which it fits its GPUs."""
        return {
            "actor.gradient_checkpointing_enable": True,
            "ds": {
                "zero_stage": 3,
                "adam_offload": plan.offload,
                "ring_attn_size": plan.width,
                "packing_samples": plan.width > 1,
            },
        }

    def run(self, job: OpenrlhfJob) -> Keys:
        """Return what its program is told in run.json."""
        return {
            "validation_top_p": job.validation_top_p,  # which has no flag
            "asynchronous": job.asynchronous or OMIT,
        }

    def environment(self, job: OpenrlhfJob) -> Keys:
        """Return the variables of its processes."""
        return {"PYTHONPATH": python_path(job.folder + "/parts"), "HF_DATASETS_CACHE": f"{job.folder}/datasets"}

    def judges(self, job: OpenrlhfJob) -> int:
        """Return how many processes of a machine score responses at the same time."""
        return max(1, job.share.engines // job.machine.nodes)

    def refusals(self, job: OpenrlhfJob) -> Iterator[str]:
        """Yield what of a job it cannot run, and what to do instead."""
        yield from without_vllm(self.title, job, job.options.tensor_parallel)

    def aggregation(self, recipe: Recipe) -> str | None:
        """Return the one average that its loss for a recipe has; None where it has several."""
        return "sample" if recipe.objective.ratio == "sequence" else None

    def otherwise(self, recipe: Recipe, machine: Machine) -> CommonDeviations:
        """Return what it does otherwise as several trainers do."""
        return CommonDeviations(
            truncated="which it has not",
            dropping="but such groups stay in the batch, and in its means",
            refilling=("but it refills until the batch is whole", "no bound"),
            head=False,
            sampler=self.is_apart(recipe),
            epsilon=1e-9,
        )

    def deviations(self, recipe: Recipe, machine: Machine) -> Mapping[str, Deviation]:
        """Return what else it does otherwise, by the recipe's dotted keys."""
        objective, apart = recipe.objective, self.is_apart(recipe)
        aggregation = self.aggregation(recipe) or objective.aggregation
        return {
            "objective.truncated_importance": Deviation(
                "which its ratio against the sampler has in it"
                if apart
                else "which it has not beside a ratio of whole responses",
                when=apart or objective.ratio == "sequence",
            ),
            "objective.truncated_importance_level": Deviation(
                "where it leaves out responses instead of weighing them",
                instead="token",
                when=objective.truncated_importance is not None and not apart and (objective.ratio != "sequence"),
            ),
            "objective.kl": Deviation(
                f"which it averages over the batch's tokens, not as '{aggregation}'",
                instead="a mean over tokens",
                when=objective.kl > 0 and aggregation == "sample",
                ours=False,
            ),
            "advantage.scale": Deviation(
                "where it centres and divides over tokens, not over responses",
                instead="the deviation over tokens",
                when=recipe.advantage.scale == "batch",
                ours=False,
            ),
        }


DRIVER = OpenrlhfDriver()
