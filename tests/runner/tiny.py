"""A task small enough for tests: copy the prompt's digit, with a model of one layer."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from planner.recipes.schema import Recipe
from runner.ports.task import Problem, Scores, Task
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan

END, PAD, VOCABULARY = 10, 11, 16
DIGITS = 10


def tiny_model(*, layers: int = 1, seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=32,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=PAD,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # peaked enough that samples differ in likelihood
    return model


def save_tiny_model(folder: Path) -> str:
    tiny_model().save_pretrained(folder)
    return str(folder)


class Digits:
    """Tokens are digits; the end token stands for itself."""

    end_id = END
    pad_id = PAD

    def encode_prompt(self, prompt: str) -> list[int]:
        return [int(character) for character in prompt]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(str(token) for token in ids if token < DIGITS)


class FirstDigit:
    """One for the right first digit, one half for an even one: groups with and without signal both occur."""

    def __init__(self) -> None:
        self.closed = 0

    def score(self, problems: Sequence[Problem], responses: Sequence[str]) -> Scores:
        return Scores([_score(p, text) for p, text in zip(problems, responses, strict=True)], {})

    def close(self) -> None:
        self.closed += 1


def _score(problem: Problem, text: str) -> float:
    if text[:1] == problem.answer:
        return 1.0
    return 0.5 if text[:1] in ("0", "2", "4", "6", "8") else 0.0


def tiny_task(model_path: str = "", *, response: int = 4) -> Task:
    problems = [Problem(f"p{i}", f"{i % 10}{(3 * i) % 10}" + "7" * (i % 2), str(i % 10)) for i in range(24)]
    return Task(
        name="digits",
        train=problems[:16],
        validation=problems[16:],
        tokenizer=Digits(),
        reward=FirstDigit(),
        model_path=model_path,
        max_prompt_tokens=3,
        max_response_tokens=response,
        base_pass_rates=[i / 16 for i in range(16)],
    )


def tiny_config(recipe: Recipe | None = None, *, n: int = 4, B: int = 3, **changes: object) -> TrialConfig:
    values: dict[str, object] = {
        "task": TaskChoice(name="digits"),
        "recipe": recipe or Recipe(name="plain"),
        "rollouts_per_prompt": n,
        "prompts_per_batch": B,
        "learning_rate": 1e-2,
        "warmup_steps": 2,
        "validation": ValidationPlan(problems=8, samples=2, every_rollouts=24),
        "machine": Machine(micro_batch_tokens=64),
        **changes,
    }
    return TrialConfig.model_validate(values)
