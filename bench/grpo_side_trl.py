"""TRL's side of the throughput comparison; runs in TRL's own environment and imports nothing of ours but the task."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoTokenizer, LlamaForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from bench.grpo_side import report, share


class Steps(TrainerCallback):
    """Notes when each step ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the time."""
        self.ends.append(time.perf_counter())


lengths: list[int] = []


def reward(completions: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
    """Score as our side does, and note how long the responses are."""
    lengths.extend(len(ids) for ids in completion_ids)
    return [share(text) for text in completions]


def main(folder: Path, work: dict[str, Any]) -> None:
    """Time TRL's whole steps: generate, reward, train."""
    import torch

    torch.set_num_threads(work["threads"])
    prompts = json.loads((folder / "prompts.json").read_text())
    settings = GRPOConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=work["n"] * work["B"],
        num_generations=work["n"],
        max_completion_length=work["response"],
        max_steps=work["steps"] + 4,
        learning_rate=1e-4,
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
        model=LlamaForCausalLM.from_pretrained(folder),
        reward_funcs=reward,
        args=settings,
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=AutoTokenizer.from_pretrained(folder),
        callbacks=[steps],
    )
    trainer.train()
    seconds = [end - begin for begin, end in zip(steps.ends[3:], steps.ends[4:], strict=False)]
    report(work, seconds, sum(lengths) / len(lengths), "GRPOTrainer")


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
