"""TRL's side of the throughput comparison; runs in TRL's own environment and imports nothing of ours but the task."""

import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoTokenizer, LlamaForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from bench.grpo_throughput import RATE, WARM_STEPS, report, score


class Steps(TrainerCallback):
    """Notes when each step ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the time."""
        self.ends.append(time.perf_counter())


lengths: list[int] = []
rewards: list[float] = []


def reward(completions: list[str], completion_ids: list[list[int]], answer: list[str], **_: Any) -> list[float]:
    """Score as our side does, and note scores and lengths."""
    scores = [score(text, right) for text, right in zip(completions, answer, strict=True)]
    lengths.extend(len(ids) for ids in completion_ids)
    rewards.extend(scores)
    return scores


def main(folder: Path, work: dict[str, Any]) -> None:
    """Time TRL's whole steps: generate, reward, train."""
    import torch

    torch.set_num_threads(work["threads"])
    given = json.loads((folder / "problems.json").read_text())
    settings = GRPOConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=work["n"] * work["B"],
        num_generations=work["n"],
        max_completion_length=given["longest"],
        max_steps=work["steps"] + WARM_STEPS,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        loss_type="grpo",
        beta=0.0,
        temperature=1.0,
        bf16=False,
        activation_checkpointing=False,
        use_cpu=work["device"] == "cpu",
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    steps = Steps()
    trainer = GRPOTrainer(
        model=LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32),
        reward_funcs=reward,
        args=settings,
        train_dataset=Dataset.from_dict({"prompt": given["prompts"], "answer": given["answers"]}),
        processing_class=AutoTokenizer.from_pretrained(folder),
        callbacks=[steps],
    )
    trainer.train()
    seconds = [end - begin for begin, end in pairwise(steps.ends[WARM_STEPS - 1 :])]
    timed = -work["steps"] * work["n"] * work["B"]
    means = [sum(values[timed:]) / -timed for values in (lengths, rewards)]
    report(work, seconds, means[0], means[1], "GRPOTrainer")


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
