"""What is asked of the commands that take what was made elsewhere: logs, runs and tables."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from rlplan.requests import options
from rlplan.requests.request import Request


@dataclass(frozen=True)
class ReplayRequest(Request):
    """Play a policy over recorded runs: what would it have chosen, and how far short of the best is that?

    Example: rlplan replay runs.csv --budget 10% --target 100 --policy asha --repeat 20
    """

    EXPLAINS = False

    table: Annotated[
        Path | Any,  # in Python a frame too
        typer.Argument(help="A CSV of run, rollouts_per_prompt, prompts_per_batch, seed, gpu_hours, score."),
    ]
    _: KW_ONLY
    budget: Annotated[
        str | float,
        typer.Option(metavar="<gpu-hours>|<percent>%", help="What all pilots may spend; % of the full grid."),
    ]
    target: Annotated[float, options.plain("--target", "Compute of the final run.", metavar="<gpu-hours>")]
    policy: options.PolicyOption = "rlplan"
    seed: options.SeedOption = 0
    workers: Annotated[int, options.whole("--workers", "Trials that are trained at once.")] = 1
    repeat: Annotated[
        int, options.whole("--repeat", "Play it so often, each with the next seed; reports the mean.")
    ] = 1
    learn_from: options.LearnFromOption = None
