"""Our side of the throughput comparison, and the model, tokenizer and prompts that both sides share."""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

VOCABULARY = 64
END = VOCABULARY  # beyond the model's head: nobody ever writes it
PROMPTS = 256


def prepare(folder: Path, work: dict[str, Any]) -> None:
    """Save a random 2-layer, 128-wide Llama with a word-level tokenizer, and prompts of 8 tokens."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=8 + work["response"],
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    words = {f"w{i}": i for i in range(VOCABULARY)} | {"<end>": END}
    plain = Tokenizer(models.WordLevel(words, unk_token="w0"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<end>", pad_token="w0").save_pretrained(folder)
    drawn = torch.randint(1, VOCABULARY, (PROMPTS, 8)).tolist()
    (folder / "prompts.json").write_text(json.dumps([" ".join(f"w{i}" for i in prompt) for prompt in drawn]))


def rlplan(folder: Path, work: dict[str, Any]) -> None:
    """Time our trainer's whole steps: generate, reward, train, new weights to the sampler."""
    from planner.recipes.schema import Objective, Recipe
    from runner.policy.loading import load_model
    from runner.tasks.chat import load_tokenizer
    from runner.tasks.port import Problem, Scores, Task
    from runner.training.building import assemble, open_engine, open_stream, use_threads
    from runner.training.collecting import Collector
    from runner.training.config import Machine, TaskChoice, TrialConfig, ValidationPlan
    from runner.training.sources import InlineSource
    from runner.training.stopwatch import Stopwatch

    class Lower:
        """Share of words from the lower half, as on the other side."""

        def score(self, problems: Any, responses: list[str]) -> Scores:
            return Scores([share(text) for text in responses], {})

        def close(self) -> None:
            """Hold nothing."""

    config = TrialConfig(
        task=TaskChoice(name="throughput"),
        recipe=Recipe(name="grpo without KL", objective=Objective()),
        rollouts_per_prompt=work["n"],
        prompts_per_batch=work["B"],
        learning_rate=1e-4,
        validation=ValidationPlan(problems=1, samples=1, every_rollouts=10**12),
        machine=Machine(threads=work["threads"], device=work["device"]),
    )
    problems = [Problem(str(i), text, "") for i, text in enumerate(json.loads((folder / "prompts.json").read_text()))]
    tokenizer = load_tokenizer(str(folder))
    task = Task("throughput", problems, problems, tokenizer, Lower(), str(folder), 8, work["response"])
    use_threads(config)
    model = load_model(str(folder), device=work["device"])
    engine, stream = open_engine(config, task, model), open_stream(config, task)
    source = InlineSource(Collector(config, task, engine, stream), stream, 0)
    points = list(assemble(config, task, model, engine, source, Stopwatch()).points(work["steps"] + 4))[5:]
    phases = {name: statistics.median(p.metrics["seconds"][name] for p in points) for name in ("generate", "train")}
    steps = [sum(point.metrics["seconds"].values()) for point in points]
    detail = ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in phases.items())
    report(work, steps, points[-1].metrics["response_tokens"], detail)


def share(text: str) -> float:
    """Return the share of words whose number is in the lower half of the vocabulary."""
    words = text.split()
    return sum(int(word[1:]) < VOCABULARY // 2 for word in words if word[1:].isdigit()) / max(1, len(words))


def report(work: dict[str, Any], step_seconds: list[float], tokens: float, detail: str) -> None:
    """Print one line of JSON for the comparison."""
    rate = work["n"] * work["B"] / statistics.median(step_seconds)
    print(json.dumps({"rollouts_per_second": rate, "detail": f"{tokens:.1f} tokens each; {detail}"}))


if __name__ == "__main__":
    {"prepare": prepare, "rlplan": rlplan}[sys.argv[1]](Path(sys.argv[2]), json.loads(sys.argv[3]))
