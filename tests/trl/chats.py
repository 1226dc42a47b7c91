"""A tiny chat model whose template TRL can parse, taught to call a tool."""

from itertools import product
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl.chat_template_utils import qwen3_instruct_2507_chat_template

from tests.trl.counting import Counter

CALLS = [f'<tool_call>\n{{"name": "raise_by", "arguments": {{"amount": {amount}}}}}\n</tool_call>' for amount in (1, 2)]
WORDS = ["<unk>", "<pad>", "<|im_start|>", "<|im_end|>", *CALLS, "done", "stuck", "user", "assistant", "count", "to"]
WORDS += ["<tool_response>", "</tool_response>", "\n", "1", "2", "3", "4"]
IDS = {word: place for place, word in enumerate(WORDS)}
END = IDS["<|im_end|>"]


def tokenizer() -> PreTrainedTokenizerFast:
    """Return one that has a word for each call."""
    backend = Tokenizer(models.WordLevel(IDS, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split("\n", "isolated"), pre_tokenizers.Split(" ", "removed")]
    )
    backend.decoder = decoders.Fuse()
    backend.add_tokens([AddedToken(call, normalized=False) for call in CALLS])
    made = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<pad>",
        unk_token="<unk>",
        additional_special_tokens=["<|im_start|>"],
    )
    made.chat_template = qwen3_instruct_2507_chat_template
    return made


def save_chat_model(folder: Path) -> str:
    """Save a model that calls a tool in its first turn, and then calls it again or says that it is done."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # of which more would only wait for each other
    spoken = tokenizer()
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"pad_token_id": IDS["<pad>"], "eos_token_id": END, "bos_token_id": None}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), max_position_embeddings=256, **shape, **ends))
    _teach(model, spoken)
    model.generation_config.eos_token_id = END
    model.save_pretrained(folder)
    spoken.save_pretrained(folder)
    return str(folder)


def _teach(model: LlamaForCausalLM, spoken: PreTrainedTokenizerFast) -> None:
    """Have it learn what follows a prompt, and what follows what a tool has said."""
    rows, wanted = [], []
    for target, first, then in product((1, 2, 3), CALLS, ("done", "stuck", *CALLS)):
        turns = [
            {"role": "user", "content": f"count 7 to {target}"},
            {"role": "assistant", "content": first},
            {"role": "tool", "name": "raise_by", "content": str(1 + CALLS.index(first))},
            {"role": "assistant", "content": then},
        ]
        ids = spoken.apply_chat_template(turns, tools=[Counter().raise_by], return_dict=False)
        answered = [place for place, each in enumerate(ids) if each == IDS["assistant"]]
        rows.append(ids)
        wanted.append([each if {place - 2, place - 3} & {*answered} else -100 for place, each in enumerate(ids)])
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(40):
        model(input_ids=torch.tensor(rows), labels=torch.tensor(wanted)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
