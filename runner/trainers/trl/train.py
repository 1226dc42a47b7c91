"""Trains a trial with TRL's GRPOTrainer as run.json says; start.py starts it, in TRL's own environment.

What rlplan means by a reward, by the order of the prompts and by a score is in `parts`, which are its own modules. The
random numbers of an update follow from the trial's seed and the update alone, and so do those of a validation: a trial
that was stopped and goes on is the same as one that was not, wherever it is scored.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import torch
from datasets import Dataset
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Sampler
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from trl import GRPOConfig
from trl.chat_template_utils import add_response_schema

from runner.ports.task import turns_of
from runner.trainers.trainer_process import response_text
from runner.trainers.trial_reward import Judge, judge_in
from runner.trainers.trl.callback import RlplanCallback
from runner.trainers.trl.rollouts import Player, load_reference, with_fields
from runner.training.prompts import PromptStream

FOLDER = Path.cwd()  # the trial's, where start.py starts it

SECONDS_BETWEEN_LOOKS = 1.0
BUFFERED = "rollouts-{rank}.pt"  # in a checkpoint between two updates on the same rollouts


class Order(Sampler[int]):
    """The prompts in the plan's order, each as often as it is answered, from the update on which a process begins."""

    def __init__(self, run: dict[str, Any]) -> None:
        self._run = run

    def __iter__(self) -> Iterator[int]:
        """Yield the rows of every generation once for each of its micro-batches, as TRL's own sampler does."""
        run, updates = self._run, self._run["updates"]
        count = run["prompts_per_batch"] * updates
        stream = PromptStream(run["train_problems"], run["seed"], pass_rates=run["pass_rates"])
        for _ in range(run["from_step"] // updates):
            stream.take(count)
        made = run["from_step"] % updates * run["settings"]["gradient_accumulation_steps"]
        while True:
            rows = [index for index in stream.take(count) for _ in range(run["rollouts_per_prompt"])]
            for _ in range(made, run["settings"]["steps_per_generation"]):
                yield from rows
            made = 0

    def __len__(self) -> int:
        """Return what its consumers ask for; its end is never reached."""
        updates = self._run["settings"]["max_steps"]
        rows = self._run["prompts_per_batch"] * self._run["rollouts_per_prompt"] * self._run["updates"]
        return int(updates * rows * self._run["settings"]["gradient_accumulation_steps"])


class Rewards:
    """rlplan's rewards in the form that TRL calls: what is trained on, and beside it the plain share that is right."""

    trainer: Player

    def __init__(self, run: dict[str, Any], judge: Judge, tokenizer: Any) -> None:
        self._judge, self._tokenizer, self._run = judge, tokenizer, run
        self._plain: list[float] = []

    def scores(self, numbers: list[int]) -> list[float]:
        """Return the score of each of the last rollouts, 0 to 1: its environment's, or that of its last turn."""
        earned = self.trainer.earned()
        if earned is not None:
            return self._judge.earned(numbers, earned)
        turns = self.trainer.rollouts.last_turns()
        return self._judge.scores(numbers, [response_text(self._tokenizer, ids, self._run) for ids in turns])

    def reward(self, completion_ids: list[list[int]], number: list[int], **_: Any) -> list[float]:
        """Return what is trained on."""
        self._plain = self.scores(number)
        return [self._judge.shaped(score, len(ids)) for score, ids in zip(self._plain, completion_ids, strict=True)]

    def pass_rate(self, **_: Any) -> list[float]:
        """Return the scores of the last call of `reward`; TRL logs their mean and gives them no weight."""
        return self._plain


class Trial(Player):
    """GRPOTrainer with the plan's order, warm-up and weight decay; everything else is TRL's."""

    def __init__(self, run: dict[str, Any], **arguments: Any) -> None:
        self.run = run
        self.generating_seconds = 0.0
        super().__init__(**arguments)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Rise to the rate within the warm-up, whose first update has a rate already, and stay."""
        steps = max(1, self.run["warmup_steps"])
        self.lr_scheduler: Any = LambdaLR(optimizer or self.optimizer, lambda step: min(1.0, (step + 1) / steps))
        return self.lr_scheduler

    def take_rate(self) -> None:
        """Have the trial's own rate, also where a checkpoint brought that which it was made with."""
        scheduler = getattr(self.lr_scheduler, "scheduler", self.lr_scheduler)
        rate = self.args.learning_rate
        if scheduler is None or all(base == rate for base in scheduler.base_lrs):
            return
        scheduler.base_lrs = [rate for _ in scheduler.base_lrs]
        for group, share in zip(self.optimizer.param_groups, scheduler.lr_lambdas, strict=True):
            group["initial_lr"], group["lr"] = rate, rate * share(scheduler.last_epoch)
        scheduler._last_lr = [group["lr"] for group in self.optimizer.param_groups]  # which it logs

    def get_decay_parameter_names(self, model: Any) -> list[str]:
        """Decay all weights."""
        return [name for name, _ in model.named_parameters()]

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """Write none."""

    def go_on(self, checkpoint: Path) -> None:
        """Take up the rollouts that are still to be trained on."""
        made = self.run["from_step"] % self.run["updates"]
        if made:
            file = checkpoint / BUFFERED.format(rank=self.accelerator.process_index)
            self._buffered_inputs = torch.load(file, map_location=self.accelerator.device, weights_only=True)
            self._step = made * self.args.gradient_accumulation_steps

    def keep_rollouts(self, checkpoint: Path) -> None:
        """Save the rollouts that are still to be trained on."""
        if self.state.global_step % self.run["updates"]:
            torch.save(self._buffered_inputs, checkpoint / BUFFERED.format(rank=self.accelerator.process_index))

    def _get_train_sampler(self, dataset: Any = None) -> Order:
        return Order(self.run)

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        began = time.monotonic()
        made = super()._generate_and_score_completions(inputs)
        self.generating_seconds += time.monotonic() - began
        return made


def rehearsed(run: dict[str, Any]) -> None:
    """Have TRL look at its settings as they will be: with all processes, and on a GPU though this machine has none."""

    class Rehearsed(GRPOConfig):
        world_size = property(lambda _: run["launch"]["processes"])

    Rehearsed(**run["settings"] | ({} if torch.cuda.is_available() else {"use_cpu": True}))
    sys.path += json.loads((FOLDER / "reward.json").read_text(encoding="utf-8"))["paths"]
    if playing(run, []):
        tokenizer = tokenizer_of(run)
        if all(getattr(tokenizer, name, None) is None for name in ("response_template", "response_schema")):
            add_response_schema(tokenizer)


def playing(run: dict[str, Any], problems: list[Any]) -> dict[str, Any]:
    """Return the tools and the environment that there are."""
    arguments: dict[str, Any] = {}
    if run["tools"]:
        arguments["tools"] = [load_reference("tools", tool) for tool in run["tools"]]
    if run["environment"]:
        arguments["environment_factory"] = with_fields(load_reference("environment", run["environment"]), problems)
    return arguments


def tokenizer_of(run: dict[str, Any]) -> Any:
    """Return the tokenizer, whose end is that of a turn."""
    tokenizer = AutoTokenizer.from_pretrained(run["tokenizer"], padding_side="left")
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(run["end_id"])
    if run["chat_template"]:
        tokenizer.chat_template = run["chat_template"]
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def built(run: dict[str, Any]) -> Trial:
    """Put TRL's trainer together."""
    judge = judge_in(str(FOLDER))
    tokenizer = tokenizer_of(run)
    settings = GRPOConfig(**run["settings"])  # first: with FSDP one process alone then reads the weights
    model = AutoModelForCausalLM.from_pretrained(run["model"], dtype=torch.float32)
    model.generation_config.eos_token_id = run["end_id"]
    rewards = Rewards(run, judge, tokenizer)
    prompts = [turns_of(problem.prompt) if run["chat"] else problem.prompt for problem in judge.problems]
    train = range(run["train_problems"])
    trainer = Trial(
        run,
        model=model,
        peft_config=adapters(run),
        args=settings,
        reward_funcs=[rewards.reward, rewards.pass_rate],
        train_dataset=Dataset.from_dict({"prompt": [prompts[index] for index in train], "number": list(train)}),
        processing_class=tokenizer,
        **playing(run, judge.problems),
    )
    rewards.trainer = trainer
    trainer.remove_callback(PrinterCallback)  # callback.py writes what it would print
    trainer.add_callback(RlplanCallback(run, trainer, prompts[run["train_problems"] :], rewards.scores))
    return trainer


def adapters(run: dict[str, Any]) -> Any:
    """Return what PEFT makes of the adapters on every projection; None where all weights are trained."""
    if run["lora"] is None:
        return None
    from peft import LoraConfig  # noqa: PLC0415  (of those who train adapters)

    return LoraConfig(**run["lora"], target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM")


def _end_with(parent: int) -> None:
    """End at once when the process that started this one is gone, which may have had no time to say so."""
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)


def main() -> None:
    """Train up to the gate, and wait there for more."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    run = json.loads((FOLDER / "run.json").read_text(encoding="utf-8"))
    torch.set_num_threads(run["threads"])
    try:
        if "--rehearse" in sys.argv:
            return rehearsed(run)
        trainer = built(run)
    except (ValueError, TypeError, ImportError, OSError) as error:
        _refuse("input", error)
    follower = next(callback for callback in trainer.callback_handler.callbacks if isinstance(callback, RlplanCallback))
    checkpoint = run["checkpoint"]
    try:
        if checkpoint is not None:
            trainer.go_on(Path(checkpoint))
        trainer.train(resume_from_checkpoint=checkpoint)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # of a damaged checkpoint, libraries raise anything; a later error goes on as it is
        if checkpoint is None or follower.began:
            raise
        _refuse("checkpoint", error)


def _refuse(kind: str, error: Exception) -> NoReturn:
    print(f"rlplan {kind}: {type(error).__name__}: {' '.join(str(error).split())[:500]}", flush=True)
    sys.exit(2 if kind == "input" else 3)


if __name__ == "__main__":
    main()
