"""How each trainer is told to hold a model, beside what its own example scripts do for the same model.

python -m bench.memory > bench/results/memory.md
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from budgets import catalogue
from budgets.hardware import Gpu
from budgets.memory import TIGHT_MEMORY, WHOLE, Placement, fewest_gpus, memory_share
from budgets.memory_plan import Demand, MemoryPlan, plan_memory
from planner.config import Layer, resolve
from planner.config.request import build_step
from runner.trainers.catalogue import named_driver
from runner.trainers.keys import dotted

EXAMPLES = Path(__file__).parent / "data" / "memory_examples.csv"
MODELS = ("qwen2.5-1.5b", "qwen3-8b", "qwen3-32b", "llama-3.3-70b", "qwen3-30b-a3b")
TOKENS = {"8k": 8192, "32k": 32768 - 1024}  # of a response; the longest prompt of a sweep has 1,024
PROMPT = 1024
SHARES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128)  # of a node, or whole nodes
WANTED = 16_384  # tokens of a micro-batch, as trials have them by default
DRIVERS = {
    driver.title: driver
    for driver in map(named_driver, ("verl", "trl", "openrlhf", "skyrl", "nemo-rl", "slime", "prime-rl"))
    if driver is not None
}


@dataclass(frozen=True)
class Example:
    """What one of a trainer's own scripts does for a model; None: it does not say."""

    trainer: str
    path: str
    model: str
    gpus: int
    longest: int
    width: int
    offload: bool
    engine_gpus: int | None
    share: float | None
    generators: int  # GPUs that only generate


SOURCES = (
    "verl b178a3cd5, OpenRLHF 3c3be623, SkyRL a9564572e, prime-rl 559b44772, NeMo-RL 7ea279abf, slime 624b824a8; TRL "
    "f2cd57710 has an FSDP2 configuration (`trl/accelerate_configs/fsdp2.yaml`) and no script for these models."
)


def examples() -> list[Example]:
    """Read the scripts of the trainers that are driven."""
    with EXAMPLES.open(encoding="utf-8", newline="") as file:
        return [
            Example(
                trainer=row["trainer"],
                path=row["path"],
                model=row["model"],
                gpus=int(row["gpus"]),
                longest=int(row["longest"]),
                width=int(row["width"]),
                offload=row["offload"] == "yes",
                engine_gpus=int(row["engine_gpus"]) if row["engine_gpus"] else None,
                share=float(row["share"]) if row["share"] else None,
                generators=int(row["generators"]),
            )
            for row in csv.DictReader(file)
            if row["trainer"] in DRIVERS
        ]


def offered(model: str, tokens: int, kind: Gpu) -> int | None:
    """Return the fewest GPUs that `rlplan propose` gives a trial of the default recipe unasked."""
    given = {"workload": {"model": model, "response_tokens": tokens, "prompt_tokens": float(PROMPT)}}
    workload, _, traits, _ = build_step(resolve([Layer("bench", given)]))
    fewest = fewest_gpus(workload, traits, kind)
    fits = (gpus for gpus in SHARES if fewest and gpus >= fewest)
    return next((gpus for gpus in fits if memory_share(workload, traits, kind, gpus) <= TIGHT_MEMORY), None)


def planned(trainer: str, demand: Demand) -> tuple[Demand, MemoryPlan]:
    """Return the plan on these GPUs; prime-rl trains on half of them, and takes more until that fits."""
    means = DRIVERS[trainer].means
    gpus = demand.placement.gpus
    if trainer == "prime-rl" and demand.placement.colocated:
        demand = replace(demand, placement=Placement(max(1, gpus // 2), max(1, gpus // 2), False))
        while (plan := plan_memory(demand, means)).short_bytes:
            demand = replace(demand, placement=demand.placement.on(2 * demand.placement.gpus))
        return demand, plan
    return demand, plan_memory(demand, replace(means, offloads=means.offloads and (trainer != "TRL" or gpus > 1)))


def demand_of(model: str, longest: int, kind: Gpu, placement: Placement) -> Demand:
    """Return what a model and its longest sequence ask of GPUs of a kind."""
    per_node = min(kind.gpus_per_node, placement.gpus)
    return Demand(catalogue.model(model), longest, placement, kind.memory_gb * 1e9, per_node, tokens=WANTED)


def row(trainer: str, model: str, length: str, kind: Gpu, gpus: int) -> str:
    """Return a row of a table: the bytes by part, and the keys."""
    longest = TOKENS[length] + PROMPT
    demand, plan = planned(trainer, demand_of(model, longest, kind, Placement(gpus, gpus, True)))
    said = ", ".join(_told(trainer, plan))
    bytes_ = (plan.state_bytes, plan.activation_bytes, plan.state_bytes + plan.activation_bytes, plan.engine_bytes)
    gigabytes = " | ".join(f"{each / 1e9:,.1f}" for each in bytes_)
    lacks = f"refused: {plan.short_bytes / 1e9:,.1f} GB lack" if plan.short_bytes else said
    return f"| {trainer} | {demand.placement.gpus} | {gigabytes} | {plan.tokens:,} | {lacks} |"


def _told(trainer: str, plan: MemoryPlan) -> Iterator[str]:
    """Yield the keys that are not false, without all but the last of their sections."""
    keys = {"fsdp_offload_params": plan.offload} if trainer == "TRL" else {}
    driver = DRIVERS[trainer]
    job: Any = SimpleNamespace(by_vllm=True, max_tokens=None, options=driver.Options.model_construct())
    for name, value in (keys | dotted(driver.memory(job, plan))).items():
        plain = ".".join(name.lstrip("-").removesuffix(".enabled").split(".")[-2:])
        if value is not None and value is not False:
            yield plain if value is True else f"{plain} {value}"


def beside(example: Example) -> str:
    """Return a row of what an example does and what we do on its GPUs for its lengths, with the room that is left."""
    kind = catalogue.gpu("h100")
    apart = example.generators > 0
    trainers = example.gpus - example.generators
    placement = Placement(example.generators or example.gpus, trainers, not apart)
    demand, plan = planned(example.trainer, demand_of(example.model, example.longest, kind, placement))
    room = demand.usable - plan.state_bytes - plan.activation_bytes
    less = []
    if plan.width < example.width:
        less.append(f"{example.width} share a sequence")
    if example.offload and not (plan.offload or (plan.sleep and example.trainer == "verl")):
        less.append("offload")
    if plan.engine_gpus < (example.engine_gpus or 1):
        less.append(f"engines of {example.engine_gpus}")
    swapped = "asleep" if plan.sleep and example.trainer == "verl" else "no"
    ours = f"{plan.width} / {'yes' if plan.offload else swapped} / {plan.engine_gpus} / {plan.engine_share:g}"
    offload = "yes" if example.offload else "no"
    its = f"{example.width} / {offload} / {example.engine_gpus or '–'} / {example.share or '–'}"
    why = f"{room / 1e9:,.0f} GB stay free" + (f", so not: {'; '.join(less)}" if less else "")
    cells = (example.trainer, example.model, example.gpus, f"{example.longest:,}", its, ours, why, f"`{example.path}`")
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print the page."""
    print(PAGE)
    for model, length, name in product(MODELS, TOKENS, ("h100", "h200")):
        kind = catalogue.gpu(name)
        gpus = offered(model, TOKENS[length], kind)
        print(f"\n### {model}, responses of {length}, {gpus} {name}\n\n{HEAD}")
        for trainer in DRIVERS if gpus else ():
            print(row(trainer, model, length, kind, gpus or 1))
    print(BESIDE)
    for example in examples():
        print(beside(example))


HEAD = """| | GPUs | states | activations | training | engine at least | tokens a pass | keys |
|---|---|---|---|---|---|---|---|"""
PAGE = f"""# How trainers are told to hold a model

`python -m bench.memory` prints this page. Bytes are GB on each GPU, estimated and measured nowhere: no GPU was used.
GPUs are the fewest that `rlplan propose` gives a trial of the default recipe unasked: training takes at most
{TIGHT_MEMORY:.0%} of what is usable. prime-rl trains on half of its GPUs and generates on the others, and gets twice as
many until that fits. Logits take {WHOLE} bytes each where they are whole."""
BESIDE = f"""
## Beside the trainers' own scripts

On the script's GPUs (taken as H100 with 80 GB) and for its lengths: GPUs that share a sequence (for slime and NeMo-RL
tensor parallel) / optimizer in the host's memory (verl: states asleep while engines generate) / GPUs of an engine / its
share. Models of the same size stand for one another (70B Llama for 72B Qwen, Qwen3-8B for Llama-3-8B). Where the script
spares more than ours, the reason is what stays free. Sources: {SOURCES}

| | model | GPUs | longest | its script | ours | | path |
|---|---|---|---|---|---|---|---|"""


if __name__ == "__main__":
    main()
