"""Decode tokens per second of the torch engine, of `transformers.generate` and of vLLM: the same work, in turn.

The same model, prompts, lengths and sampling for each: a random Llama, every response as long as allowed. The torch
engine and vLLM return log-probabilities; generate is not asked for them. The speed is of all response tokens over the
whole call, prefill included; ratios are medians over rounds, in which each engine runs once. vLLM runs in the
interpreter that --vllm-python names, with its CPU build's settings where there is no GPU, and needs a context of the
prompt and the response alone. With --bandwidth-gb-s the least time of a token step is given beside: the bytes of
weights, keys and values that it reads, over the bandwidth.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from runner.engines.torch_engine import TorchEngine
from runner.ports.rollouts import Sampling

SERVER = Path(__file__).with_name("decode_speed_vllm.py")
Prompts = list[list[int]]


def main() -> int:
    """Print the table."""
    given = arguments()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    model, prompts = llama(given), prompts_of(given)
    engines: dict[str, Callable[[int], float]] = {
        "torch engine": torch_engine(model, prompts, given),
        "transformers.generate": transformers_generate(model, prompts, given),
    }
    if given.vllm_python is None:
        report(given, rounds(engines, given.repeats), model)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with Vllm(given, folder, prompts) as vllm:
            engines["vLLM"] = vllm.run
            report(given, rounds(engines, given.repeats), model)
    return 0


def arguments() -> argparse.Namespace:
    """Return the settings; the defaults are the embedded task's scale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, value in (
        ("prompts", 16),
        ("per-prompt", 16),
        ("prompt-tokens", 8),
        ("tokens", 16),
        ("vocabulary", 512),
        ("width", 128),
        ("layers", 2),
        ("heads", 4),
        ("kv-heads", 4),
        ("repeats", 5),
        ("threads", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--mixed", action="store_true", help="prompts of one token up to --prompt-tokens")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--weights", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--vllm-python", help="interpreter of an environment with vLLM")
    parser.add_argument("--bandwidth-gb-s", type=float, help="memory bandwidth of the device")
    return parser.parse_args()


def llama(given: argparse.Namespace) -> LlamaForCausalLM:
    """Return a random model of the size that was asked for."""
    config = LlamaConfig(
        vocab_size=given.vocabulary,
        hidden_size=given.width,
        intermediate_size=3 * given.width,
        num_hidden_layers=given.layers,
        num_attention_heads=given.heads,
        num_key_value_heads=given.kv_heads,
        max_position_embeddings=given.prompt_tokens + given.tokens,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config).to(device=given.device, dtype=getattr(torch, given.weights)).eval()


def prompts_of(given: argparse.Namespace) -> Prompts:
    """Return distinct prompts, all of one length or from one token to the longest."""
    lengths = [
        1 + i * (given.prompt_tokens - 1) // max(1, given.prompts - 1) if given.mixed else given.prompt_tokens
        for i in range(given.prompts)
    ]
    return [torch.randint(1, given.vocabulary, (length,)).tolist() for length in lengths]


def torch_engine(model: LlamaForCausalLM, prompts: Prompts, given: argparse.Namespace) -> Callable[[int], float]:
    """Return a timed call of ours; no token of the vocabulary ends a response."""
    engine = TorchEngine(model, end_id=given.vocabulary, pad_id=0)
    sampling = Sampling(given.tokens)

    def run(seed: int) -> float:
        begin = time.perf_counter()
        rollouts = engine.generate(prompts, given.per_prompt, sampling, seed)
        seconds = time.perf_counter() - begin
        require(int(rollouts.mask.sum()), given)
        return seconds

    return run


def transformers_generate(
    model: LlamaForCausalLM, prompts: Prompts, given: argparse.Namespace
) -> Callable[[int], float]:
    """Return a timed call of the peer: prompts padded on the left, plain sampling from the whole distribution."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts], device=given.device)
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=given.device)

    def run(seed: int) -> float:
        torch.manual_seed(seed)
        begin = time.perf_counter()
        whole: Any = model.generate(
            ids,
            attention_mask=mask,
            num_return_sequences=given.per_prompt,
            max_new_tokens=given.tokens,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            pad_token_id=0,
        )
        written = whole[:, width:].cpu()
        seconds = time.perf_counter() - begin
        require(written.numel(), given)
        return seconds

    return run


class Vllm:
    """vLLM in a process and an environment of its own, which is told when to run."""

    def __init__(self, given: argparse.Namespace, folder: str, prompts: Prompts) -> None:
        settings = {
            "folder": folder,
            "prompts": prompts,
            **{key: getattr(given, key) for key in ("per_prompt", "tokens", "threads", "weights", "device")},
            "context": given.prompt_tokens + given.tokens,
        }
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        self._given = given
        self._process = subprocess.Popen(
            [given.vllm_python, str(SERVER), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, seed: int) -> float:
        """Run once and return the seconds that it took there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{seed}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                answer = json.loads(line)
                require(answer["tokens"], self._given)
                return float(answer["seconds"])
        raise RuntimeError(f"vLLM's process ended with exit code {self._process.wait()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # closes its input, at which it ends


def require(tokens: int, given: argparse.Namespace) -> None:
    """Refuse to compare engines that did not do the same work."""
    expected = given.prompts * given.per_prompt * given.tokens
    if tokens != expected:
        raise RuntimeError(f"{tokens} tokens were written, and {expected} were asked for")


def rounds(engines: dict[str, Callable[[int], float]], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of each engine in each round, after one that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(repeats + 1):
        for name, run in engines.items():
            taken = run(number)
            if number:
                seconds[name].append(taken)
    return seconds


def report(given: argparse.Namespace, seconds: dict[str, list[float]], model: LlamaForCausalLM) -> None:
    """Print speeds, and how many times faster ours is than each."""
    rows = given.prompts * given.per_prompt
    ours = seconds["torch engine"]
    print(
        f"{given.layers} layers x {given.width}, vocabulary {given.vocabulary}, {given.weights}, {given.device} "
        f"({given.threads} threads); {rows} rows, prompts of {'up to ' * given.mixed}{given.prompt_tokens}, "
        f"{given.tokens} tokens each"
    )
    print(f"{'engine':<24} {'tokens/s':>12} {'rollouts/s':>12} {'ms a step':>10} {'ours is':>10}")
    for name, times in seconds.items():
        median = statistics.median(times)
        ratio = statistics.median(theirs / own for theirs, own in zip(times, ours, strict=True))
        print(
            f"{name:<24} {rows * given.tokens / median:>12,.0f} {rows / median:>12,.0f} "
            f"{1000 * median / given.tokens:>10.2f} {ratio:>8.2f} x"
        )
    if given.bandwidth_gb_s:
        least = bytes_read(given, model) / (given.bandwidth_gb_s * 1e9)
        taken = statistics.median(ours) / given.tokens
        print(f"bandwidth allows {1000 * least:.3f} ms a step; ours takes {taken / least:.1f} times that")


def bytes_read(given: argparse.Namespace, model: LlamaForCausalLM) -> float:
    """Return the mean bytes that a token step cannot do without: the weights once, every row's keys and values."""
    size = next(model.parameters()).element_size()
    weights = size * sum(p.numel() for name, p in model.named_parameters() if "embed_tokens" not in name)
    length = given.prompt_tokens + given.tokens / 2
    kept = 2 * given.layers * given.kv_heads * (given.width // given.heads)
    return float(weights + size * given.prompts * given.per_prompt * length * kept)


if __name__ == "__main__":
    sys.exit(main())
