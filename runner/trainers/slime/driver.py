"""Slime 0.3: train.py by start.py, in a Ray of the trial's own; in one with other GPUs it would wait for ever.

A recipe with a staleness bound is trained by its train_async.py (at 624b824a8), which makes a batch while it trains
the one before.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from budgets.errors import InputError
from budgets.memory import CHUNKED, WHOLE
from budgets.memory_plan import Means, MemoryPlan
from planner.recipes.schema import Recipe
from runner.ports.task import Prompt, Task
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.base import Driver, Keys, Layout, ScriptForm
from runner.trainers.capabilities import CommonDeviations, Deviation, Loss
from runner.trainers.checkpoints import complete
from runner.trainers.driver import Checkpoint
from runner.trainers.job import Job
from runner.trainers.keys import OMIT, python_path
from runner.trainers.options import SplitOptions

_MODEL = "MODEL_ARGS=("
_POSITION = "checkpoints/rollout/global_dataset_state_dict_{batch}.pt"  # in the prompts; written last
_REFILL = "slime.rollout.filter_hub.dynamic_sampling_filters.check_reward_nonzero_std"


class SlimeOptions(SplitOptions):
    """[trainer.options] of slime."""

    checkout: str = Field(description="the folder of slime's repository, whose train.py is started")
    megatron: str = Field(description="the folder of Megatron-LM, for PYTHONPATH")
    model_args: str = Field(description="a script with the model's MODEL_ARGS, such as scripts/models/qwen3-8B.sh")


class SlimeJob(Job):
    """What slime is to do."""

    def take_own(self) -> None:
        """Take what slime alone needs."""
        self.checkout = str(Path(self.options.checkout).expanduser())
        self.megatron = str(Path(self.options.megatron).expanduser())
        self.model_words = model_words(self.options.model_args, self.checkout)


class SlimeDriver(Driver[SlimeJob]):
    """slime's train.py, which ends at --num-rollout."""

    name = title = "slime"
    form = "flags"
    job_type, Options = SlimeJob, SlimeOptions
    others = ("sglang-",)
    own_ray = counts_batches = saves_on_request = True
    asynchronous = "by staleness"
    programs = ("start.py", "rlplan_slime.py")
    parts = ("inside", "runner/grpo/__init__.py", "runner/grpo/advantages.py")
    rows = ("prompt", "label")
    layout = Layout(pattern="checkpoints/iter_{step}", tracker="checkpoints/latest_checkpointed_iteration.txt")
    refuses: ClassVar[Mapping[str, str]] = {
        "machine.compile": "leave it out",
        "machine.lora_rank": "it trains all weights: leave [cost] lora_rank out",
        "recipe.filters.curriculum": "it shuffles the prompts; set 'none'",
    }
    failures = (
        ("input", r"error: (unrecognized arguments|argument --)|AssertionError: .*(must|should|required|need)"),
    )
    # As its scripts/run-qwen3-4B.sh, and scripts/run-glm5-744B-A40B.sh for chunks of logits.
    means = Means(shares="megatron", heads=(WHOLE, CHUNKED), engine_share=0.7)
    loss = Loss(clips=("ppo", "none", "cispo"), aggregations=("sample", "token"), entropy_alike=True)
    script = ScriptForm(dashes=True, decided=("*-path", "eval-*", "rm-type", "reward-key", "rollout-stop*"))

    def keys(self, job: SlimeJob) -> Keys:
        """Return the keys that rlplan decides."""
        objective, optimizer, share = job.objective, job.optimizer, job.share
        return {
            "hf-checkpoint": job.model,
            "ref-load": job.model,  # and where it begins, as long as nothing is saved
            "load": f"{job.folder}/checkpoints",
            "save": f"{job.folder}/checkpoints",
            "save-interval": job.save_every,
            "prompt-data": f"{job.folder}/train.jsonl",
            "input-key": "prompt",
            "label-key": "label",
            "apply-chat-template": job.has_chat and job.chat_template is None,  # else texts are written by it
            "rollout-shuffle": True,
            "rollout-seed": job.seed,
            "seed": job.seed + 1,  # Megatron's must be positive
            "num-rollout": job.to_step,  # where it ends, wherever it begins
            "rollout-batch-size": job.prompts_per_batch * job.updates,
            "n-samples-per-prompt": job.rollouts_per_prompt,
            "global-batch-size": job.rollouts_per_step,  # of one update
            "rollout-temperature": job.temperature,
            "rollout-top-p": job.top_p,
            "rollout-max-response-len": job.max_response_tokens,
            "eval-interval": job.validate_every,
            "eval-prompt-data": ["validation", f"{job.folder}/validation.jsonl"],
            "n-samples-per-eval-prompt": job.validation.samples,
            "eval-temperature": job.validation_temperature,
            "eval-top-p": job.validation_top_p,
            "eval-max-response-len": job.max_response_tokens,
            "custom-rm-path": "rlplan_slime.reward",
            "custom-reward-post-process-path": "rlplan_slime.advantages_of",
            "custom-rollout-log-function-path": "rlplan_slime.tell_rollouts",
            "custom-eval-rollout-log-function-path": "rlplan_slime.tell_validation",
            "custom-megatron-init-path": "rlplan_slime.listen",
            "actor-num-nodes": share.nodes,
            "actor-num-gpus-per-node": share.gpus_per_node,
            "rollout-num-gpus": job.generators or OMIT,
            "num-gpus-per-node": job.gpus_per_node,
            "wandb-group": f"{job.sweep}-{job.trial}",  # the run's name is made of it
            "advantage-estimator": "cispo"
            if objective.clip == "cispo"
            else "gspo"
            if objective.ratio == "sequence"
            else "grpo",
            "eps-clip": job.clip_low,
            "eps-clip-high": job.clip_high,
            "use-kl-loss": objective.kl > 0,
            "kl-loss-coef": objective.kl,
            "kl-loss-type": "low_var_kl",
            "use-unbiased-kl": objective.kl > 0 and objective.kl_weighted,
            "entropy-coef": objective.entropy,
            "use-rollout-logprobs": objective.against == "sampler",
            "use-tis": objective.truncated_importance is not None and objective.against == "trainer",
            "tis-clip": objective.truncated_importance or 2.0,
            "tis-clip-low": 0.0,
            "calculate-per-token-loss": objective.aggregation == "token",
            "dynamic-sampling-filter-path": _REFILL if job.refills else None,
            "optimizer": "adam",
            "lr": job.learning_rate,
            "lr-decay-style": "constant",
            "lr-decay-iters": 1_000_000,  # else a segment's length, which a warm-up may not pass
            # Which begin at a rate of 0, unless it is told of another
            "lr-warmup-iters": max(1, job.warmup_steps) - 1,
            "lr-warmup-init": job.learning_rate / job.warmup_steps if job.warmup_steps > 1 else 0.0,
            "adam-beta1": optimizer.beta1,
            "adam-beta2": optimizer.beta2,
            "adam-eps": optimizer.epsilon,
            "weight-decay": optimizer.weight_decay,
            "clip-grad": optimizer.clip_norm or 0.0,
        }

    def free(self, job: SlimeJob) -> Keys:
        """Return keys that the user's own settings may change."""
        return {
            "colocate": not job.asynchronous,
            "balance-data": True,
            "attention-dropout": 0.0,
            "hidden-dropout": 0.0,
            "attention-softmax-in-fp32": True,
            "accumulate-allreduce-grads-in-fp32": True,
        }

    def memory(self, job: SlimeJob, plan: MemoryPlan) -> Keys:
        """Return the keys by which it fits its GPUs."""
        return {
            "tensor-model-parallel-size": plan.width,
            "sequence-parallel": plan.width > 1,
            "expert-model-parallel-size": plan.experts if plan.experts > 1 else OMIT,
            "expert-tensor-parallel-size": 1 if plan.experts > 1 else OMIT,
            "recompute-granularity": "full",
            "recompute-method": "uniform",
            "recompute-num-layers": 1,
            "use-dynamic-batch-size": True,
            "max-tokens-per-gpu": plan.tokens,
            "log-probs-chunk-size": 1024 if plan.head < WHOLE else OMIT,
            "optimizer-cpu-offload": plan.offload,
            "overlap-cpu-optimizer-d2h-h2d": plan.offload,
            "use-precision-aware-optimizer": plan.offload,
            "rollout-num-gpus-per-engine": plan.engine_gpus,
            "sglang-mem-fraction-static": plan.engine_share,
        }

    def run(self, job: SlimeJob) -> Keys:
        """Return what its program is told in run.json."""
        return {
            "checkout": job.checkout,
            "megatron": job.megatron,
            "program": "train_async.py" if job.asynchronous else OMIT,
            "words": job.model_words + job.words,
        }

    def environment(self, job: SlimeJob) -> Keys:
        """Return the variables of its processes."""
        return {
            "PYTHONPATH": python_path(job.folder, job.folder + "/parts", job.checkout, job.megatron),
            "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        }

    def refusals(self, job: SlimeJob) -> Iterator[str]:
        """Yield what of a job it cannot run, and what to do instead."""
        if job.embedded:
            yield (
                f"task '{job.config.task.name}' with --trainer slime: it needs a model's folder with a "
                "tokenizer of its own"
            )

    def otherwise(self, recipe: Recipe, machine: Machine) -> CommonDeviations:
        """Return what it does otherwise as several trainers do."""
        return CommonDeviations(
            dropping="but it keeps groups without a gradient",
            refilling=("but it samples others for as long as it takes", "no bound"),
            head=False,
        )

    def deviations(self, recipe: Recipe, machine: Machine) -> Mapping[str, Deviation]:
        """Return what else it does otherwise, by the recipe's dotted keys."""
        return {
            "objective.truncated_importance_level": Deviation(
                "but its is each token's", instead="token", when=recipe.objective.truncated_importance is not None
            ),
            "schedule.staleness_bound": Deviation(
                "but its train_async.py is one batch ahead", instead=1, when=recipe.schedule.staleness_bound > 1
            ),
        }

    def prompt(self, task: Task, prompt: Prompt) -> Any:
        """Return the text that a chat template of the user's makes of a prompt; slime has the model's own alone."""
        tokenizer: Any = task.tokenizer
        return prompt if task.chat_template is None else tokenizer.text_of(prompt)

    def settings(self, job: SlimeJob) -> Keys:
        """Return the user's flags, which may have dashes."""
        return {flag.removeprefix("--"): value for flag, value in job.options.settings.items()}

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those whose place in the prompts is saved too; batch r is what has been done after r + 1."""
        batches = [
            (save, folder / _POSITION.replace("{batch}", str(save.step)))
            for save in complete(folder, self.layout.pattern)
        ]
        return [
            Checkpoint((save.step + 1) * self.updates_per_step(config), save.path, (position,))
            for save, position in batches
            if position.exists()
        ]


def model_words(script: str, checkout: str) -> list[str]:
    """Return the model's own flags, from a script of slime's."""
    path = Path(checkout, Path(script).expanduser())
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"[trainer.options] model_args = '{script}': {error.strerror}: {path}") from error
    _, begins, rest = text.partition(_MODEL)
    words = [_default(word) for word in shlex.split(rest.partition("\n)")[0], comments=True)]
    if not begins or any("$" in word for word in words):
        raise InputError(
            f"[trainer.options] model_args = '{script}': a script is wanted with the flags of the model in "
            f"{_MODEL}…), without variables but those that have a default, as in slime's scripts/models"
        )
    return words


def _default(word: str) -> str:
    """Return what `${NAME:-default}` stands for where NAME is not set."""
    inner = word[2:-1] if word.startswith("${") and word.endswith("}") else ""
    return inner.partition(":-")[2] if ":-" in inner else word


DRIVER = SlimeDriver()
