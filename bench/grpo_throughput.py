"""Rollouts per second of whole GRPO steps: ours and TRL's GRPOTrainer on the same work, in turn.

    python bench/grpo_throughput.py --trl-python .venv-trl/bin/python

Both get the same weights, prompts, rewards, group size, batch, longest response, learning rate, precision (FP32, with
TRL's activation checkpointing off) and threads. An embedded task is trained as it would be; `--task random` has a
random model that never ends, so that every response has the full length. Each measurement is a process of its own: a
few steps to warm up, then the mean step. The two take turns; the table shows medians over the rounds and their ratio.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BAR = 3.0
VOCABULARY = 64
END = VOCABULARY  # beyond the random model's head: it never writes it
PROBLEMS = 256
RATE = 3e-4
WARM_STEPS = 4


def main() -> None:
    """Prepare the model once, run both sides in turn and print the table."""
    given = arguments()
    if given.side:
        SIDES[given.side[0]](Path(given.side[1]), json.loads(given.side[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        work = {name: getattr(given, name) for name in ("task", "n", "B", "response", "steps", "threads", "device")}
        own = [sys.executable, __file__, "--side"]
        run([*own, "prepare", folder, json.dumps(work)])
        sides = {"rlplan": [*own, "rlplan"], "TRL": [given.trl_python, str(HERE / "grpo_throughput_trl.py")]}
        rates: dict[str, list[float]] = {name: [] for name in sides}
        details = {}
        for _ in range(given.rounds):
            for name, command in sides.items():
                out = json.loads(run([*command, folder, json.dumps(work)], given.threads).splitlines()[-1])
                rates[name].append(out["rollouts_per_second"])
                details[name] = out
    table(given, rates, details)


def table(given: argparse.Namespace, rates: dict[str, list[float]], details: dict[str, dict[str, object]]) -> None:
    """Print medians, spread and the ratio."""
    what = (
        f"{given.response} tokens a step, random 2-layer Llama of width 128" if given.task == "random" else given.task
    )
    print(f"{given.n} × {given.B} rollouts, {what}; {given.threads} threads, {given.device}, {given.rounds} rounds")
    for name, values in rates.items():
        spread = f"{min(values):,.0f}–{max(values):,.0f}"
        print(f"  {name:8} {statistics.median(values):8,.0f} rollouts/s   ({spread})   {details[name]['detail']}")
    ratios = [ours / theirs for ours, theirs in zip(rates["rlplan"], rates["TRL"], strict=True)]
    ratio = statistics.median(ratios)
    verdict = "met" if ratio >= BAR else f"missed by {(1 - ratio / BAR):.0%}"
    print(f"  ratio    {ratio:8.2f} × (rounds: {', '.join(f'{r:.2f}' for r in ratios)}); bar {BAR:g} ×: {verdict}")


def run(command: list[str], threads: int = 1) -> str:
    """Run one side and return what it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    environment["PYTHONPATH"] = str(HERE.parent)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:3])} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trl-python", default=".venv-trl/bin/python", help="interpreter of TRL's environment")
    parser.add_argument("--task", default="sum-easy", help="an embedded task, or random: full-length nonsense")
    parser.add_argument("-n", type=int, default=16, help="rollouts per prompt")
    parser.add_argument("-B", type=int, default=16, help="prompts per batch")
    parser.add_argument("--response", type=int, default=16, help="tokens of each response of the random task")
    parser.add_argument("--steps", type=int, default=12, help="timed steps of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--side", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


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
    from runner.training.components import assemble, open_engine, use_threads
    from runner.training.trial import Stopwatch

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


SIDES = {"prepare": prepare, "rlplan": rlplan}

if __name__ == "__main__":
    main()
