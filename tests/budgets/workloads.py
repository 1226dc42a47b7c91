"""Builders that the tests of the cost model share."""

from budgets import catalogue
from budgets.hardware import Hardware
from budgets.lengths import ResponseLengths
from budgets.models import ModelShape
from budgets.signal import DIFFICULTIES, PassRates
from budgets.workload import Validation, Workload

TINY = ModelShape("tiny", 64, 2, 4, 2, 16, 128, 100, 512, tied_embeddings=True)
# A small model's config.json.
DENSE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 512,
}


def workload_of(
    model: str | ModelShape = "qwen3-8b",
    cap: int = 8192,
    mean_share: float = 0.4,
    spread: float = 0.6,
    prompt: float = 256,
    difficulty: str | PassRates = "mixed",
    validation: Validation | None = None,
) -> Workload:
    return Workload(
        model=catalogue.model(model) if isinstance(model, str) else model,
        prompt_tokens=prompt,
        responses=ResponseLengths(mean_share * cap, cap, spread),
        prompt_set_size=6000,
        pass_rates=DIFFICULTIES[difficulty] if isinstance(difficulty, str) else difficulty,
        validation=validation or Validation(),
    )


def hardware_of(gpu: str = "h100", gpus: int = 64) -> Hardware:
    return Hardware(catalogue.gpu(gpu), gpus, gpus)
