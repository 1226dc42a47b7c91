"""Our side of the throughput comparison, and the model, tokenizer and problems that both sides share."""

import json
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

VOCABULARY = 64
END = VOCABULARY  # beyond the random model's head: it never writes it
PROBLEMS = 256
RATE = 3e-4
WARM_STEPS = 4


def prepare(folder: Path, work: dict[str, Any]) -> None:
    """Save what both sides load: a model with its tokenizer, and problems with their answers."""
    problems = prepare_random(folder, work) if work["task"] == "random" else prepare_embedded(folder, work)
    (folder / "problems.json").write_text(json.dumps(problems))


def prepare_random(folder: Path, work: dict[str, Any]) -> dict[str, Any]:
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
    prompts = torch.randint(1, VOCABULARY, (PROBLEMS, 8)).tolist()
    texts = [" ".join(f"w{i}" for i in prompt) for prompt in prompts]
    return {"prompts": texts, "answers": [f"w{i}" for i in range(PROBLEMS)], "longest": work["response"], "prompt": 8}


def prepare_embedded(folder: Path, work: dict[str, Any]) -> dict[str, Any]:
    """Save an embedded task's model with a Hugging Face tokenizer that is the same as its own."""
    from runner.tasks.embedded import embedded_task
    from runner.tasks.tokenizers import character_tokenizer_files

    task = embedded_task(work["task"])
    for file in Path(task.model_path).iterdir():
        shutil.copy(file, folder)
    for name, text in character_tokenizer_files().items():
        (folder / name).write_text(text)
    first = task.train[:PROBLEMS]
    return {
        "prompts": [problem.prompt for problem in first],
        "answers": [problem.answer for problem in first],
        "longest": task.max_response_tokens,
        "prompt": task.max_prompt_tokens,
    }


def rlplan(folder: Path, work: dict[str, Any]) -> None:
    """Time our trainer's whole steps: generate, reward, train, new weights to the sampler."""
    from planner.recipes.schema import Objective, Recipe
    from runner.policy.model import load_model
    from runner.ports.task import Problem, Scores, Task
    from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
    from runner.tasks.tokenizers import CharacterTokenizer, load_tokenizer
    from runner.training.building import assemble, open_engine, use_threads
    from runner.training.stopwatch import Stopwatch

    class Right:
        """The other side's reward."""

        def score(self, problems: list[Problem], responses: list[str]) -> Scores:
            return Scores([score(text, problem.answer) for problem, text in zip(problems, responses, strict=True)], {})

        def close(self) -> None:
            """Hold nothing."""

    config = TrialConfig(
        task=TaskChoice(name="throughput"),
        recipe=Recipe(name="grpo without KL", objective=Objective(aggregation="sample")),
        rollouts_per_prompt=work["n"],
        prompts_per_batch=work["B"],
        learning_rate=RATE,
        warmup_steps=0,
        validation=ValidationPlan(problems=1, samples=1, every_rollouts=10**12),
        machine=Machine(threads=work["threads"], device=work["device"]),
    )
    given = json.loads((folder / "problems.json").read_text())
    pairs = zip(given["prompts"], given["answers"], strict=True)
    problems = [Problem(str(i), prompt, answer) for i, (prompt, answer) in enumerate(pairs)]
    tokenizer = load_tokenizer(str(folder)) if work["task"] == "random" else CharacterTokenizer()
    task = Task("throughput", problems, problems, tokenizer, Right(), str(folder), given["prompt"], given["longest"])
    use_threads(config)
    model = load_model(str(folder), device=work["device"])
    engine = open_engine(config, task, model)
    points = list(assemble(config, task, model, engine, Stopwatch()).points(work["steps"] + WARM_STEPS))
    points = points[WARM_STEPS + 1 :]
    steps = [sum(point.metrics["seconds"].values()) for point in points]
    phases = {name: statistics.mean(p.metrics["seconds"][name] for p in points) for name in ("generate", "train")}
    detail = ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in phases.items())
    tokens = statistics.mean(point.metrics["response_tokens"] for point in points)
    report(work, steps, tokens, statistics.mean(point.metrics["pass_rate"] for point in points), detail)


def score(text: str, answer: str) -> float:
    """Return 1 for the right answer; of nonsense, the share of words in the lower half of the vocabulary."""
    if not answer.startswith("w"):
        return float(text == answer)
    words = [word for word in text.split() if word[1:].isdigit()]
    return sum(int(word[1:]) < VOCABULARY // 2 for word in words) / max(1, len(words))


def report(work: dict[str, Any], step_seconds: list[float], tokens: float, reward: float, detail: str) -> None:
    """Print one line of JSON for the comparison."""
    rate = work["n"] * work["B"] / statistics.mean(step_seconds)
    print(
        json.dumps({"rollouts_per_second": rate, "detail": f"{tokens:.1f} tokens each, reward {reward:.2f}; {detail}"})
    )


if __name__ == "__main__":
    {"prepare": prepare, "rlplan": rlplan}[sys.argv[1]](Path(sys.argv[2]), json.loads(sys.argv[3]))
