"""From a trial's configuration to the parts that train it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgets.errors import InputError
from runner.policy.model import load_model
from runner.ports.engine import RolloutEngine
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.task_loader import open_task
from runner.training.collector import BatchSource, Collector
from runner.training.prompts import PromptStream
from runner.training.trainer import Trainer
from runner.training.trial import Stopwatch
from runner.training.updater import Updater

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class TrialParts:
    """A trainer with what has to be closed after it."""

    trainer: Trainer
    task: Task
    engine: RolloutEngine

    def close(self) -> None:
        """Close whatever holds processes or memory."""
        self.engine.close()
        self.task.reward.close()


def warm_up() -> None:
    """Import what training needs: the first trial of a process must not have that on its curve."""
    import torch._dynamo  # noqa: F401 (the first step of an optimizer imports it)
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM  # noqa: F401


def build(config: TrialConfig, watch: Stopwatch) -> TrialParts:
    """Load task, model and engine of a trial, and put its trainer together."""
    use_threads(config)
    if config.task.top_p < 1 or config.task.validation_sampling[1] < 1:
        raise InputError("[task] top_p is of other trainers: rlplan's own samples from all tokens; leave it out")
    task = open_task(config.task, config.seed, config.validation.problems)
    with watch.phase("start"):
        model = load_model(task.model_path, device=config.machine.device)
        engine = open_engine(config, task, model)
    return TrialParts(assemble(config, task, model, engine, watch), task, engine)


def assemble(config: TrialConfig, task: Task, model: "nn.Module", engine: RolloutEngine, watch: Stopwatch) -> Trainer:
    """Put a trainer together around a task, a model and an engine."""
    stream = open_stream(config, task)
    bound = config.recipe.schedule.staleness_bound
    source = BatchSource(Collector(config, task, engine, stream), stream, bound)
    base = None
    if config.recipe.objective.kl > 0:
        base = load_model(task.model_path, device=config.machine.device).requires_grad_(False)
    updater = Updater(config, model, base, task.max_response_tokens)
    return Trainer(config, task, model, engine, source, updater, watch)


def open_engine(config: TrialConfig, task: Task, model: "nn.Module") -> RolloutEngine:
    """Return the engine that the configuration names, or torch's, which samples from the trainer's own weights."""
    machine, fp32_head, ends = config.machine, config.recipe.precision.fp32_head, task.tokenizer
    if machine.engine == "vllm":
        from runner.engines.vllm_engine import VllmEngine  # noqa: PLC0415

        return VllmEngine(
            task.model_path,
            end_id=ends.end_id,
            pad_id=ends.pad_id,
            context=task.max_prompt_tokens + task.max_response_tokens,
            fp32_head=fp32_head,
            weights=machine.weights,
            device=machine.device,
        )
    from runner.engines.torch_engine import TorchEngine  # noqa: PLC0415

    rounded = None if machine.weights == "float32" else machine.weights
    return TorchEngine(model, end_id=ends.end_id, pad_id=ends.pad_id, fp32_head=fp32_head, weights=rounded)


def open_stream(config: TrialConfig, task: Task) -> PromptStream:
    """Return the order of the task's prompts under the recipe's filters."""
    retire_at = config.recipe.filters.retire_at
    return PromptStream(len(task.train), config.seed, retire_at=retire_at, pass_rates=prompt_pass_rates(config, task))


def prompt_pass_rates(config: TrialConfig, task: Task) -> list[float] | None:
    """Return the pass rates by which a recipe orders the prompts, if it does; InputError where they are not known."""
    if config.recipe.filters.curriculum != "easy-to-hard":
        return None
    if task.base_pass_rates is None:
        raise InputError(
            f"recipe '{config.recipe.name}' goes from easy to hard, but the base pass rates of task '{task.name}' are "
            "not known: measure them, or set filters.curriculum = 'none'"
        )
    return list(task.base_pass_rates)


def use_threads(config: TrialConfig) -> None:
    """Give torch the threads of the configuration: their number decides the order of sums, and so the last bits."""
    import torch

    torch.set_num_threads(config.machine.threads)
