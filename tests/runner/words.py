"""A task of a user's own kind on disk, which any process can open: a checkpoint with a tokenizer, and problems."""

import json
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from planner.recipes.schema import Recipe
from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan
from tests.runner.tiny import DIGITS, END, PAD, tiny_model


def save_words(folder: Path) -> TaskChoice:
    """Save a model that writes digits, and problems that ask for the first one again."""
    tiny_model().save_pretrained(folder / "model")
    words = {str(digit): digit for digit in range(DIGITS)} | {"<end>": END, "<pad>": PAD}
    plain = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<end>", pad_token="<pad>")
    tokenizer.save_pretrained(folder / "model")
    problems = [{"id": f"p{i}", "prompt": f"{i % 10} {i // 10}", "answer": str(i % 10)} for i in range(40)]
    (folder / "problems.jsonl").write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    return TaskChoice(
        name=str(folder / "problems.jsonl"), model=str(folder / "model"), reward="exact", max_response_tokens=2
    )


def words_config(task: TaskChoice, recipe: Recipe) -> TrialConfig:
    return TrialConfig(
        task=task,
        recipe=recipe,
        rollouts_per_prompt=4,
        prompts_per_batch=4,
        learning_rate=3e-3,
        warmup_steps=1,
        validation=ValidationPlan(problems=4, samples=2, every_rollouts=32),
    )
