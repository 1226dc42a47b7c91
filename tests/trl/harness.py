"""TRL's own GRPOTrainer, fed with given rollouts, rewards and log-probabilities; the rest of its code runs as it is."""

import functools
import os
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # it warns of `rollout_func` otherwise

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

PER_PROMPT = 4
LONGEST = 7
PAD, END = 0, 1
VOCABULARY = 24
PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 12, 13]]
LENGTHS = [3, 7, 1, 5, 2, 2, 4, 7, 6, 1, 7, 3]
TRUNCATED = [length == LONGEST for length in LENGTHS]
REWARDS = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.5, 0.0]  # the second group teaches nothing
COUNT = len(LENGTHS)
MASK = torch.arange(LONGEST) < torch.tensor(LENGTHS)[:, None]
GROUPS = torch.arange(COUNT) // PER_PROMPT


@functools.cache
def checkpoint() -> str:
    """Return the folder of a tiny Llama, which TRL also loads its reference model from."""
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"pad_token_id": PAD, "eos_token_id": END, "bos_token_id": 2}
    config = LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=64, **shape, **ends)
    folder = tempfile.TemporaryDirectory()
    _KEPT.append(folder)  # until the process ends
    LlamaForCausalLM(config).save_pretrained(folder.name)
    return folder.name


def model(nudge: float = 0.0, seed: int = 0) -> LlamaForCausalLM:
    """Return the tiny Llama, with noise added to its weights."""
    loaded = LlamaForCausalLM.from_pretrained(checkpoint())
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in loaded.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=nudge)
    return loaded


def completions() -> list[list[int]]:
    """Return responses of the given lengths, which end with the end token unless they were truncated."""
    generator = torch.Generator().manual_seed(3)
    rows = torch.randint(3, VOCABULARY, (COUNT, LONGEST), generator=generator).tolist()
    return [
        row[:length] if truncated else [*row[: length - 1], END]
        for row, length, truncated in zip(rows, LENGTHS, TRUNCATED, strict=True)
    ]


@dataclass
class Given:
    """What TRL's trainer is given instead of computing it."""

    sampler: torch.Tensor
    rewards: list[float] = field(default_factory=lambda: list(REWARDS))
    logprobs: torch.Tensor | None = None  # None: the model computes all of the following
    old: torch.Tensor | None = None
    reference: torch.Tensor | None = None
    entropies: torch.Tensor | None = None


@functools.cache
def trainer(**options: object) -> GRPOTrainer:
    """Return a real trainer of a real tiny model; the same options give the same one."""
    vocabulary = {f"t{index}": index for index in range(VOCABULARY)}
    config = GRPOConfig(
        output_dir=str(Path(checkpoint()) / "output"),
        use_cpu=True,
        bf16=False,
        activation_checkpointing=False,
        report_to="none",
        per_device_train_batch_size=COUNT,
        num_generations=PER_PROMPT,
        max_completion_length=LONGEST,
        vllm_importance_sampling_clip_max=IMPORTANCE_CAP,
        **options,
    )
    made = GRPOTrainer(
        model=model(),
        args=config,
        reward_funcs=lambda **_: made.given.rewards,
        train_dataset=Dataset.from_dict({"prompt": ["t3"]}),
        processing_class=PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer(WordLevel(vocabulary, unk_token="t3")), pad_token="t0", eos_token="t1"
        ),
        rollout_func=lambda _prompts, _trainer: {
            "prompt_ids": [prompt for prompt in PROMPTS for _ in range(PER_PROMPT)],
            "completion_ids": completions(),
            "logprobs": [row[:length].tolist() for row, length in zip(made.given.sampler, LENGTHS, strict=True)],
        },
    )
    made.current_gradient_accumulation_steps = 1  # otherwise set by its training loop
    made._last_loaded_step = made.state.global_step  # there is no vLLM to send weights to
    made.model.train()
    return made


def score(
    made: GRPOTrainer, given: Given, importance: str | None = None, *, stale: bool = True, mask_truncated: bool = False
) -> dict[str, torch.Tensor]:
    """Run TRL from rollouts and rewards to the inputs of its loss.

    Args:
        made: The trainer.
        given: What it is given.
        importance: Mode of the correction for vLLM's probabilities; None is TRL without vLLM.
        stale: Whether the ratio is against older weights; with vLLM it always is.
        mask_truncated: TRL's `mask_truncated_completions`.
    """
    made.given = given
    made.use_vllm = importance is not None
    made.vllm_importance_sampling_mode = importance
    made.num_iterations = 2 if stale else 1
    made.mask_truncated_completions = mask_truncated
    if given.logprobs is None:
        vars(made).pop("_get_per_token_logps_and_entropies", None)
    else:
        made._get_per_token_logps_and_entropies = functools.partial(_given_logprobs, made)
    with warnings.catch_warnings():
        # TRL 1.16 asks transformers 5 for this by its old name.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        return made._generate_and_score_completions([{"prompt": ""}] * COUNT)


def _given_logprobs(
    made: GRPOTrainer, asked: torch.nn.Module, *_: object, compute_entropy: bool = False, **__: object
) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
    if made.ref_model is not None and asked is made.ref_model:
        return made.given.reference, None, None
    if compute_entropy:
        return made.given.logprobs, made.given.entropies, None
    return made.given.old, None, None


_KEPT: list[tempfile.TemporaryDirectory[str]] = []
IMPORTANCE_CAP = 1.3
