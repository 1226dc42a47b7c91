"""What is asked before anything runs: of `rlplan propose`, `check`, `preview`, `price`, `fits` and `doctor`."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from rlplan.requests import options
from rlplan.requests.completion import policies, trainers
from rlplan.requests.flags import Request, StoredRequest, argument, budget, flag, money, toggle


@dataclass(frozen=True)
class ProposeRequest(StoredRequest):
    """Price and rank every allocation for a budget, split pilot and final, and store the plan.

    Example: rlplan propose --budget 5000 --model qwen3-8b --gpu h100 --gpus 64
    """

    budget: float | str | None = budget("GPU-hours, or dollars such as '$20000', for pilots and final run together.")
    _: KW_ONLY
    model: str | None = options.catalogue_model()
    gpu: str | None = options.gpu()
    gpus: int | None = flag("How many GPUs there are.", key="hardware.gpus")
    gpus_per_trial: int | None = flag("How many GPUs the final run gets.", key="hardware.gpus_per_trial")
    count_busy_only: bool | None = flag(
        "Let the final run have a part of a node: idle GPUs are not paid.", key="hardware.count_busy_only"
    )
    within: str | None = flag(
        "Wall time by whose end pilots and final run are to be done.", "<5d|36h>", key="budget.within"
    )
    response_tokens: int | None = options.response_tokens()
    mean_response_tokens: float | None = options.mean_response()
    turns: int | None = options.turns()
    tool_seconds: float | None = options.tool_seconds()
    from_log: Path | str | None = options.from_log()
    prompts: int | None = options.prompts()
    script: Path | None = flag(
        "What starts a trainer: its workload counts, its n and B are the champion's.", "<script>", name="--from"
    )
    recipe: str | None = options.recipe()
    recipes: str | Sequence[str] | None = options.recipes()
    models: str | Sequence[str] | None = options.models()
    difficulty: str | None = options.difficulty()
    pass_rate: float | None = options.pass_rate()
    pass_rates_file: str | None = options.pass_rates_file()
    pilot_fraction: options.Share | None = options.pilot_fraction()
    pilot_gpus: int | None = options.pilot_gpus()
    champion: str | None = options.champion()
    explore: bool | None = options.explore()
    alone: bool | None = options.alone()
    advised: bool | None = options.advised()
    learn_from: list[str] | None = flag(
        "Whose measured steps, lengths and base scores count, may be repeated; all of --db without it.",
        "<database>|<sweep>|none",
    )
    task: str | None = options.task()
    config: Path | str | None = options.config()
    top: int | None = flag("How many rows the table shows; JSON and CSV have all.", "<int>", least=1)


@dataclass(frozen=True)
class PreviewRequest(StoredRequest):
    """Simulate the sweep of a plan: expected regret, spend and wall time for several shares of pilots.

    Example: rlplan preview plan-1 --pilot-fractions 0,0.05,0.1,0.2 --draws 100
    """

    plan: str | None = options.plan()
    policy: str | None = flag(
        "What decides; as the plan itself without this: its champion, or rlplan where it explores.",
        "<name>",
        offer=policies,
    )
    draws: int | None = flag("Worlds to draw; as many as fit into 12 s without this.", least=1)
    pilot_fractions: str = flag(
        "Shares of the budget for challengers or pilots that are compared; 0: none.",
        "<float>,…",
        default="0,0.05,0.1,0.2",
    )
    seed: int = options.seed()


@dataclass(frozen=True)
class PriceRequest(StoredRequest):
    """Price a step: seconds and GPU-hours with an interval, by phase, memory and layout, and what one change would do.

    Example: rlplan price -n 16 -B 128 --model qwen3-8b --gpu h100 --gpus 64 --mean-response-tokens 2400
    """

    rollouts_per_prompt: int | None = flag("Rollouts per prompt; 8 without it.", short="-n")
    prompts_per_batch: int | None = flag("Prompts per batch, of all its updates; 64 an update without it.", short="-B")
    model: str | None = options.catalogue_model()
    gpu: str | None = options.gpu()
    gpus: int | None = options.gpus()
    response_tokens: int | None = options.response_tokens()
    mean_response_tokens: float | None = options.mean_response()
    turns: int | None = options.turns()
    tool_seconds: float | None = options.tool_seconds()
    from_log: Path | str | None = options.from_log()
    prompts: int | None = options.prompts()
    prompt_tokens: float | None = flag("Mean tokens of a prompt.", key="workload.prompt_tokens")
    image_tokens: float | None = flag("Mean tokens of a prompt's images beside.", key="workload.image_tokens")
    recipe: str | None = options.recipe()
    trainer: str | None = flag("Whose trainer: how fast it is was measured.", "<name>", offer=trainers)
    difficulty: str | None = options.difficulty()
    task: str | None = options.task()
    measure: bool = toggle("Train three steps here, and store what they took as this set-up's price.")
    problems: str | None = flag("What --measure trains on: JSONL, CSV or Parquet of {prompt, answer}.", "<file>")
    checkpoint: str | None = flag("The model that --measure trains, a local checkpoint.", "<folder>")
    reward: str | None = options.reward()
    forget: str | None = flag("Take back what a run, a sweep or --measure taught of prices.", "<run>")
    config: Path | str | None = options.config()
    runs: Path | None = argument("A table of runs instead; see docs/costs-table.md.", "[RUNS.csv]")


@dataclass(frozen=True)
class CheckRequest(StoredRequest):
    """Judge what a script would launch: memory, time, money, waste, and three changes. Exit code 5 on a red flag.

    Nothing in the script is executed.

    Example: rlplan check run_grpo.sh --gpu h100 --pass-rate 0.3
    """

    files: list[Path] | Any = argument(
        "A script or settings of verl, TRL, prime-rl, OpenRLHF, ….", "FILE…", default=...
    )
    _: KW_ONLY
    rollouts_per_prompt: int | None = flag("Rollouts per prompt, in place of the script's.", short="-n")
    prompts_per_batch: int | None = flag("Prompts per batch, in place of the script's.", short="-B")
    steps: int | None = flag("How many batches the run has.")
    learning_rate: float | None = flag("In place of the script's.")
    model: str | None = options.catalogue_model()
    gpu: str | None = options.gpu()
    gpus: int | None = options.gpus()
    response_tokens: int | None = options.response_tokens()
    mean_response_tokens: float | None = options.mean_response()
    turns: int | None = options.turns()
    tool_seconds: float | None = options.tool_seconds()
    from_log: Path | str | None = options.from_log()
    prompts: int | None = options.prompts()
    validation_problems: int | None = flag("How many problems a validation has.", key="validation.problems")
    pass_rate: float | None = options.pass_rate()
    pass_rates_file: str | None = options.pass_rates_file()
    difficulty: str | None = options.difficulty()
    budget: float | None = money("GPU-hours: what the script would reach with them.", key="budget.gpu_hours")
    task: str | None = options.task()
    fix: bool = toggle("Write a copy with the advised values: NAME.checked.sh.")
    config: Path | str | None = options.config()


@dataclass(frozen=True)
class FitsRequest(Request):
    """Say whether training a model and generating with it fit some GPUs. Exit code 5 where they do not.

    Example: rlplan fits qwen3-8b --gpus 8 --gpu h100
    """

    EXPLAINS = False

    model: str = argument("A model of the catalogue, or a path to a config.json.", default=...)
    _: KW_ONLY
    gpu: str | None = options.gpu()
    gpus: int | None = flag("How many GPUs the run has; 8 without it.")
    response_tokens: int | None = options.response_tokens()
    lora_rank: int | None = flag("Rank of LoRA adapters, where these train.")
    config: Path | str | None = options.config()


@dataclass(frozen=True)
class DoctorRequest(StoredRequest):
    """Say what this machine can run, what is missing and how to get it; exits with 3 when no sweep can run.

    Example: rlplan doctor
    """
