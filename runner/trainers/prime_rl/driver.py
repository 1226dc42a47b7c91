"""Prime-rl 0.9, read at commit 559b447: its launcher by start.py, which ends at max_steps.

On SIGTERM it ends without a checkpoint. Its advantage is the reward less the group's mean. Its loss is a mean over
the batch's tokens of advantage × ratio: the ratio is against the generator's probabilities, and tokens whose
probability has moved too far are left out.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from budgets.memory import FUSED
from budgets.memory_plan import Means, MemoryPlan
from planner.recipes.schema import Recipe
from planner.tables import Count
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.base import Keys, Layout, Rehearsed, ScriptForm
from runner.trainers.capabilities import CommonDeviations, Deviation, Loss
from runner.trainers.driver import Attempt, Source
from runner.trainers.in_own_ray import port_range
from runner.trainers.job import Job, validation_steps
from runner.trainers.keys import OMIT, present
from runner.trainers.options import SplitOptions
from runner.trainers.prime_rl.log import StepSource, metrics_of
from runner.trainers.supervisor import OUT_OF_MEMORY

_PORTS, _EACH, _GROUPS = 10_000, 64, 300  # the first, how many a trial has, and how many trials
_LEAST = 8  # that a trial takes
AGENT = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}


class PrimeRlOptions(SplitOptions):
    """[trainer.options] of prime-rl."""

    renderer: str = Field("default", description="orchestrator.renderer.name; 'default' is the model's chat template")
    environment: dict[str, Any] | None = Field(
        None, description="of verifiers, with its own problems: `taskset.id`, its agents, …"
    )
    validation_environment: dict[str, Any] | None = Field(None, description="the one to validate in; else the same")
    first_port: Count | None = Field(None, description="of the eight that a trial takes; else by its first GPU")


class PrimeRlJob(Job):
    """What prime-rl is to do."""

    def take_own(self) -> None:
        """Take what prime-rl alone needs."""
        training, validating = self.options.environment, self.options.validation_environment
        settings = " ".join(self.options.settings)
        self.port = self.options.first_port or first_port(self.attempt)
        # The parts whose monitor the user switches on by a setting.
        self.wandb = [part for part in ("trainer", "orchestrator") if f"{part}.monitors.wandb." in settings]
        self.train_env = environment(training, "train", self.seed)
        self.validation_env = environment(validating or training, "validation", self.seed)
        gate = {"type": "advantage_range", "reject_min": 0.0, "reject_max": 0.0}
        self.curriculum = {"gates": {"signal": gate}}  # keeps groups without one out of a batch


class PrimeRlDriver(Rehearsed[PrimeRlJob]):
    """prime-rl's launcher, which starts everything else on its host."""

    name, title = "prime-rl", "prime-rl"
    form = "tables"
    job_type, Options = PrimeRlJob, PrimeRlOptions
    argv = ("start.py", "prime_rl.entrypoints.rl", "@", "rl.json")
    rehearses = ("start.py", "prime_rl.entrypoints.rl", "@", "rl.json", "--dry-run")
    asynchronous = "always"
    equal_shares = False
    chat = "always"
    clip_highest = 1.0  # no probability moves by more
    programs = ("start.py", "rlplan_taskset.py")
    keys_file = "rl.json"
    layout = Layout(
        pattern="run/checkpoints/step_{step}",
        holds=("trainer/.metadata", "orchestrator/progress.pt"),  # each written last, by its own part
    )
    refuses: ClassVar[Mapping[str, str]] = {
        "machine.compile": "set trainer.model.compile in [trainer.options.settings] instead",
        "recipe.filters.curriculum": "it asks the prompts in one order; set 'none'",
    }
    failures = (
        ("input", r"validation errors? for |FileExistsError: Run directory|GPU\(s\) are available|ValueError: .*port"),
        ("out-of-memory", OUT_OF_MEMORY.pattern),
    )
    # Its defaults keep the optimizer in the host's memory, and checkpoint activations.
    means = Means(heads=(FUSED,))
    loss = Loss(clips=("ppo", "none"), aggregations=("token",), by_response=())
    script = ScriptForm(decided=("wandb.name", "ckpt.*", "orchestrator.train.*", "orchestrator.eval.*"))

    def keys(self, job: PrimeRlJob) -> Keys:
        """Return the keys that rlplan decides."""
        optimizer, machine, options = job.optimizer, job.machine, job.options
        return {
            "output_dir": job.folder,
            "run": {"name": "run", "dir": "run"},
            "clean": not job.resumes,  # what an attempt left that saved nothing; it refuses a used folder
            "max_steps": job.to_step,  # where it ends, wherever it begins
            "model.name": job.model,
            "tokenizer": {"name": job.tokenizer, "chat_template": job.chat_template or OMIT},
            "seq_len": job.max_tokens,
            "ckpt": {"interval": job.save_every, "keep_last": 2},
            "deployment": {
                "type": "single_node",
                "gpus_per_node": machine.gpus,
                "num_train_gpus": job.train_gpus,
                "num_infer_gpus": job.generators,
            },
            "weight_broadcast.type": "filesystem",  # which has no port
            "rollout_transport.type": "filesystem",
            # The latest that it would find itself may be torn
            "resume.step": job.from_step if job.resumes else OMIT,
            "inference": {
                "server.port": job.port,
                "backend_port": job.port + 1,
                "vllm.data_parallel_rpc_port": job.port + 2,
                "vllm.max_model_len": job.max_tokens,
                "vllm.seed": job.seed,
                "enable_fp32_lm_head": job.precision.fp32_head,
            },
            "orchestrator": {
                "env_server_base_port": job.port + 3,
                "model.client.base_url": f"http://localhost:{job.port}/v1",
                "renderer.name": options.renderer,
                "monitors.file.path": f"{job.folder}/attempt-{job.attempt.number}.orchestrator.jsonl",
                "monitors.wandb.name": job.trial if "orchestrator" in job.wandb else OMIT,
                "monitors.wandb.group": job.sweep if "orchestrator" in job.wandb else OMIT,
                "batch_size": job.rollouts_per_step,
                "group_size": job.rollouts_per_prompt,
                "algo.type": "grpo",
                "max_off_policy_steps": job.schedule.staleness_bound,
                "train.filter_zero_advantages": job.filters.zero_variance != "keep",
                "train.sampling.temperature": job.temperature,
                "train.sampling.max_completion_tokens": job.max_response_tokens,
                "train.source": [
                    present(
                        {"name": "train", "env": job.train_env, "curriculum": job.curriculum if job.refills else OMIT}
                    )
                ],
                "eval.sampling.temperature": job.validation_temperature,
                "eval.sampling.max_completion_tokens": job.max_response_tokens,
                "eval.sampling.top_p": job.validation_top_p,
                "eval.interval": job.validate_every,
                "eval.group_size": job.validation.samples,
                "eval.num_examples": job.validation.problems if options.environment else -1,
                "eval.skip_first_step": False,
                "eval.retrigger_on_resume": False,
                "eval.source": [{"name": "validation", "env": job.validation_env}],
            },
            "trainer": {
                "monitors.file.path": f"{job.folder}/attempt-{job.attempt.number}.trainer.jsonl",
                "monitors.wandb.name": job.trial if "trainer" in job.wandb else OMIT,
                "monitors.wandb.group": job.sweep if "trainer" in job.wandb else OMIT,
                "model.optimization_dtype": "float32",
                "model.lora.rank": machine.lora_rank or OMIT,
                "model.lora.alpha": float(machine.lora_alpha) if machine.lora_rank else OMIT,
                "loss.type": "default",
                "loss.dppo_mask_low": job.clip_low,
                "loss.dppo_mask_high": job.clip_high,
                "loss.adv_tau": 1.0,
                "loss.kl_tau": 0.0,
                "optim.type": "adamw",
                "optim.lr": job.learning_rate,
                "optim.betas1": optimizer.beta1,
                "optim.betas2": optimizer.beta2,
                "optim.weight_decay": optimizer.weight_decay,
                "optim.max_norm": optimizer.clip_norm,
                # Without a decay it rises from its least, and stays
                "scheduler.type": "linear" if job.warmup_steps > 1 else "constant",
                "scheduler.warmup_steps": job.warmup_steps - 1 if job.warmup_steps > 1 else OMIT,
                "scheduler.decay_steps": 0 if job.warmup_steps > 1 else OMIT,
                "scheduler.min_lr": job.learning_rate / job.warmup_steps if job.warmup_steps > 1 else OMIT,
            },
        }

    def memory(self, job: PrimeRlJob, plan: MemoryPlan) -> Keys:
        """Return the keys by which it fits its GPUs."""
        return {
            "inference": {
                "vllm.gpu_memory_utilization": plan.engine_share,
                "vllm.tensor_parallel_size": plan.engine_gpus,
            },
            "trainer.model.cp": plan.width,
        }

    def refusals(self, job: PrimeRlJob) -> Iterator[str]:
        """Yield what of a job it cannot run, and what to do instead."""
        rewards, machine, options = job.rewards, job.machine, job.options
        if machine.nodes > 1:
            yield (
                f"machine.nodes = {machine.nodes} with --trainer prime-rl: it starts on several nodes by "
                "Slurm alone, in jobs of its own. Use one node, or another trainer"
            )
        if (options.validation_environment and not options.environment) or (
            options.environment and job.config.task.name != job.config.driven_by.name
        ):
            yield (
                "[trainer.options] environment with --trainer prime-rl: the environment has its own "
                "problems. Leave --problems, [task] data and --task out, and validation_environment where "
                "there is no environment"
            )
        if options.environment and (rewards.correct, rewards.wrong, rewards.overlong_share, rewards.mask_truncated) != (
            1,
            0,
            0,
            False,
        ):
            yield (
                "recipe.rewards with [trainer.options] environment: the environment's own rewards are "
                "trained on. Use a recipe that changes none"
            )
        if job.top_p < 1:  # TrainSamplingConfig.to_sampling_args
            yield f"[task] top_p = {job.top_p:g} with --trainer prime-rl: it trains with 1 alone"

    def otherwise(self, recipe: Recipe, machine: Machine) -> CommonDeviations:
        """Return what it does otherwise as several trainers do."""
        return CommonDeviations(
            truncated="but it trains on truncated responses",
            refilling=("but it goes on", "as many rounds as it takes to fill a batch"),
        )

    def deviations(self, recipe: Recipe, machine: Machine) -> Mapping[str, Deviation]:
        """Return what else it does otherwise, by the recipe's dotted keys."""
        return {
            "schedule.updates_per_batch": Deviation("but it makes one update of each batch", instead=1),
            # Versions that a batch may be behind, at the least
            "schedule.staleness_bound": Deviation(
                "but it always generates while it trains", instead=1, when=not recipe.schedule.staleness_bound
            ),
            "advantage.scale": Deviation("but it divides by nothing", instead="none"),
            "objective.against": Deviation("but its ratio is against the generator's probabilities", instead="sampler"),
            "objective.truncated_importance": Deviation("which its ratio against the generator has in it"),
            "objective.kl": Deviation("which its loss has no term for", instead=0.0),
            "objective.entropy": Deviation("which its loss has no term for", instead=0.0),
            "objective.clip": Deviation(
                "but it has no clip ratio",
                instead="its mask of tokens whose probability has moved by more than clip_low or clip_high",
                when=recipe.objective.clip == "ppo",
                ours=False,
            ),
            # AdamW's, which it does not let one set
            "optimizer.epsilon": Deviation("but its is 1e-08", instead=1e-8),
        }

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return its two files of metrics as one."""
        written = (metrics_of(attempt, "orchestrator"), metrics_of(attempt, "trainer"))
        return [StepSource(attempt, written, attempt.folder / "run/rollouts", validation_steps(config), "validation")]


def environment(chosen: dict[str, Any] | None, split: str, seed: int) -> dict[str, Any]:
    """Return an environment of verifiers: the user's own, or ours, which asks the trial's problems.

    Who plays is a model that is asked, without tools of a harness, unless the environment says so.
    """
    taskset = chosen or {"taskset": {"id": "rlplan_taskset", "split": split, "seed": seed}}
    return taskset if taskset.keys() - {"taskset"} else {**taskset, "agent": AGENT}


def first_port(attempt: Attempt) -> int:
    """Return the first of a trial's ports, which no other trial has on a host: no two have the same GPU.

    Of the user's range each has as many as it takes.
    """
    first = attempt.gpus[0].split(",")[0] if attempt.gpus else ""
    group = int(first) if first.isdigit() else zlib.crc32(f"{attempt.folder}/{first}".encode()) % _GROUPS
    allowed = port_range()
    if allowed is None:
        return _PORTS + _EACH * (group % _GROUPS)
    return allowed[0] + _LEAST * (group % ((allowed[1] - allowed[0] + 1) // _LEAST))


DRIVER = PrimeRlDriver()
