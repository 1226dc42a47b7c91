"""Everything that wants a GPU, checked and measured within nine minutes, as one table: `make bench-gpu`.

    python bench/gpu.py [--trl-python PYTHON] [--seconds 540]

Each check is a process of its own with a limit of its own. One whose packages are not there is left out and says so:
with Python and torch alone the device's speed is measured and running out of memory is provoked. The model has random
weights: Qwen3-0.6B's shape on a GPU; on a machine without one the same checks run in a tiny shape, which says that they
work and nothing about a GPU. What an update took stands beside what the cost model says unmeasured.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CHECKS = {  # and the most seconds that each may take
    "device": 60,
    "out of memory": 60,
    "builtin, torch engine": 180,
    "builtin, vLLM engine": 240,
    "TRL": 240,
}
LARGE = {"model": "qwen3-0.6b", "prompts": 64, "n": 8, "B": 16, "response": 256, "updates": 6}
TINY = {"model": None, "prompts": 64, "n": 4, "B": 4, "response": 12, "updates": 4}
TINY_SHAPE = {"hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate": 128}
WORDS = 256  # that the tokenizer knows; a random model says others too
MEMORY = "import sys, torch; torch.empty(1 << 50, dtype=torch.uint8, device=sys.argv[1])"


def main() -> int:
    """Run the checks one after the other as long as there is time, and print what each found."""
    given = arguments()
    if given.check:
        sys.path.insert(0, str(ROOT))
        print(json.dumps(SIDES[given.check](json.loads(given.work), Path(given.folder))))
        return 0
    device, name = accelerator()
    work = {"device": device, "gpu": name, "trl_python": given.trl_python, **(LARGE if device == "cuda" else TINY)}
    print(f"{name}: {'' if device == 'cuda' else 'no GPU, so that '}{work['model'] or 'a tiny shape'} is trained")
    end, failed = time.monotonic() + given.seconds, 0
    with tempfile.TemporaryDirectory() as folder:
        for check, most in CHECKS.items():
            began = time.monotonic()
            verdict, found = run(check, work, folder, min(most, end - began))
            failed += verdict == "FAILED"
            print(f"{check:24} {verdict:9} {time.monotonic() - began:6.1f} s   {found.get('said', '')}")
            for phase, (took, price) in found.get("phases", {}).items():
                print(f"    {phase:20} {took:9.4f} s   price {price:9.4f} s   {took / price if price else 0:6.2f} ×")
            sys.stdout.flush()
    return 1 if failed else 0


def arguments() -> argparse.Namespace:
    """Read the flags; the last three are those of a check's own process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trl-python", default=str(ROOT / ".venv-trl/bin/python"))
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--check", choices=[*CHECKS], help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser.parse_args()


def accelerator() -> tuple[str, str]:
    """Return where torch computes, and what that is called."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise SystemExit(f"{sys.executable} has no torch, which is the least that this needs") from error
    return ("cuda", torch.cuda.get_device_name()) if torch.cuda.is_available() else ("cpu", "CPU")


def run(check: str, work: dict[str, Any], folder: str, seconds: float) -> tuple[str, dict[str, Any]]:
    """Run a check in a process of its own; what it lacks leaves it out, and what it breaks on fails it."""
    if seconds < 5:
        return "left out", {"said": "no time was left for it"}
    command = [sys.executable, str(Path(__file__)), "--check", check, "--work", json.dumps(work), "--folder", folder]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    try:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return "FAILED", {"said": f"was not done after {seconds:.0f} s"}
    last = (ran.stderr.strip().splitlines() or [""])[-1]
    if ran.returncode:
        missing = "ModuleNotFoundError" in last
        return ("left out" if missing else "FAILED"), {"said": last[:150]}
    found: dict[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    return found.pop("verdict", "works"), found


def device_side(work: dict[str, Any], _: Path) -> dict[str, Any]:
    """Measure what torch alone reaches: matrix products in bfloat16, and bytes copied in memory."""
    import torch

    on_gpu = work["device"] == "cuda"
    size, repeats = (8192, 20) if on_gpu else (512, 3)
    one = torch.randn(size, size, device=work["device"], dtype=torch.bfloat16 if on_gpu else torch.float32)
    flops = 2 * size**3 * repeats / seconds_of(lambda: one @ one, repeats, on_gpu)
    moved = 2 * one.nbytes * repeats / seconds_of(one.clone, repeats, on_gpu)
    known = tomllib.loads((ROOT / "budgets/catalogue/gpus.toml").read_text()).get(catalogued(work["gpu"]), {})
    claims = f" of {known.get('dense_tflops', '?')} and {known.get('bandwidth_gb_per_s', '?')} in the catalogue"
    return {"said": f"{flops / 1e12:,.2f} TFLOPS and {moved / 1e9:,.0f} GB/s{claims if on_gpu else ''}"}


def seconds_of(call: Any, repeats: int, on_gpu: bool) -> float:
    """Return how long a call takes so many times, once it has been made."""
    import torch

    call()
    if on_gpu:
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - began


def memory_side(work: dict[str, Any], _: Path) -> dict[str, Any]:
    """Run out of memory in a process, and have its end told from its exit code and its words alone."""
    from runner.trainers.supervisor import classify

    command = [sys.executable, "-c", MEMORY, work["device"]]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    kind, message = classify(ran.returncode, ran.stderr, resumed=False)
    return {"said": f"{kind}: {message[:100]}", "verdict": "works" if kind == "out-of-memory" else "FAILED"}


def torch_side(work: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Train with our trainer, which generates by itself."""
    return trained(work, folder, engine="torch")


def vllm_side(work: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Train with our trainer, for which vLLM generates."""
    import vllm  # noqa: F401

    return trained(work, folder, engine="vllm")


def trl_side(work: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Train with TRL, in its own environment."""
    from planner.config.trainer import TrainerChoice

    python = work["trl_python"]
    if (
        not Path(python).exists()
        or subprocess.run([python, "-c", "import trl"], capture_output=True, check=False).returncode
    ):
        raise ModuleNotFoundError(f"no trl for {python}: name an interpreter by --trl-python")
    return trained(work, folder, trainer=TrainerChoice(name="trl", python=str(Path(python).absolute())))


def trained(work: dict[str, Any], folder: Path, engine: str = "torch", trainer: Any = None) -> dict[str, Any]:
    """Train a few updates and return the median seconds of their phases, without the first update, beside the price."""
    from planner.recipes import load_recipe
    from runner.backends import open_backend
    from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
    from runner.training.trial import OpenTrial

    model = folder / "model"
    if not model.exists():
        prepare(work, model)
    on_gpu, n, B = work["device"] == "cuda", work["n"], work["B"]
    config = TrialConfig(
        task=TaskChoice(
            name=str(model / "problems.jsonl"), model=str(model), reward="exact", max_response_tokens=work["response"]
        ),
        recipe=load_recipe("grpo"),
        rollouts_per_prompt=n,
        prompts_per_batch=B,
        learning_rate=1e-6,
        validation=ValidationPlan(problems=8, samples=1, every_rollouts=1000 * n * B),
        machine=Machine(device=work["device"], engine=engine, weights="bfloat16" if on_gpu else "float32"),
        trainer=trainer,
    )
    backend = open_backend(config)
    place = folder / f"{engine}-{trainer.name if trainer else 'builtin'}"
    place.mkdir()
    backend.start(config, place)
    trial = OpenTrial(backend, place, None)
    points = [point for point in trial.train(work["updates"]) if point.optimizer_step > 1]
    trial.save()
    trial.close()
    phases: dict[str, float] = {}
    for name in points[-1].metrics["seconds"]:
        if name != "start_up":
            phases[name] = statistics.median(point.metrics["seconds"].get(name, 0.0) for point in points)
    length = statistics.fmean(point.metrics["response_tokens"] for point in points)
    prices = priced(work, config, length)
    beside = {name: (took, prices.get(name, 0.0)) for name, took in phases.items() if took > 0}
    beside["whole update"] = (sum(phases.values()), sum(prices.values()))
    return {"said": f"{n} × {B} rollouts of {length:.0f} tokens, {len(points)} updates", "phases": beside}


def priced(work: dict[str, Any], config: Any, length: float) -> dict[str, float]:
    """Return what the cost model says of each phase of an update, before anything is measured."""
    from budgets import catalogue
    from budgets.coefficients import Coefficients
    from budgets.cost import phase_seconds
    from budgets.lengths import ResponseLengths
    from budgets.memory import Placement
    from budgets.signal import DIFFICULTIES
    from budgets.work import StepLoad, total
    from budgets.workload import Validation, Workload

    own = {"tiny": {**TINY_SHAPE, "vocabulary": WORDS, "context": 1024, "tied_embeddings": True}}
    workload = Workload(
        model=catalogue.model(work["model"] or "tiny", own),
        prompt_tokens=8,
        responses=ResponseLengths(min(length, work["response"] - 0.5), work["response"], 0.1),
        prompt_set_size=work["prompts"],
        pass_rates=DIFFICULTIES["easy"],
        validation=Validation(8, 1, 1000),
    )
    traits = config.recipe.traits()
    load = StepLoad.of(work["n"], work["B"], traits, 1.0)
    gpu = catalogue.gpu(catalogued(work["gpu"]), {})
    phases = phase_seconds(workload, gpu, Placement(1, 1, colocated=True), traits, load, Coefficients())
    return {phase.value: total(seconds) for phase, seconds in phases.items() if phase.value != "evaluate"}


def catalogued(name: str) -> str:
    """Return what the catalogue calls a device."""
    known = ("h200", "h100", "b200", "gb200", "l40s", "a100-80")
    return next((each for each in known if each.split("-")[0] in name.casefold()), "cpu" if name == "CPU" else "h100")


def prepare(work: dict[str, Any], folder: Path) -> None:
    """Save a model of random weights with a tokenizer of words, and problems."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    listed = tomllib.loads((ROOT / "budgets/catalogue/models.toml").read_text())
    shape = listed[work["model"]] if work["model"] else {**TINY_SHAPE, "vocabulary": WORDS}
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=shape["vocabulary"],
        hidden_size=shape["hidden"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"],
        head_dim=shape["head_dim"],
        intermediate_size=shape["intermediate"],
        tie_word_embeddings=True,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=WORDS - 1,
        pad_token_id=0,
    )
    Qwen3ForCausalLM(config).to(torch.bfloat16 if work["device"] == "cuda" else torch.float32).save_pretrained(folder)
    words = {f"w{i}": i for i in range(WORDS - 1)} | {"<end>": WORDS - 1}
    plain = Tokenizer(models.WordLevel(words, unk_token="w0"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<end>", pad_token="w0").save_pretrained(folder)
    prompts = torch.randint(1, WORDS - 1, (work["prompts"], 8)).tolist()
    rows = ({"prompt": " ".join(f"w{i}" for i in prompt), "answer": f"w{prompt[0]}"} for prompt in prompts)
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


SIDES = dict(zip(CHECKS, (device_side, memory_side, torch_side, vllm_side, trl_side), strict=True))

if __name__ == "__main__":
    sys.exit(main())
