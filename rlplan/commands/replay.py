"""`rlplan replay`: play a policy over recorded curves, and report the regret."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.commands.options import FormatOption, LearnFromOption, PolicyOption, SeedOption, plain, whole
from rlplan.wording.formats import Format


def replay(
    table: Annotated[
        Path,
        typer.Argument(help="A CSV of run, rollouts_per_prompt, prompts_per_batch, seed, gpu_hours, score."),
    ],
    budget: Annotated[
        str, typer.Option(metavar="<gpu-hours>|<percent>%", help="What all pilots may spend; % of the full grid.")
    ],
    target: Annotated[float, plain("--target", "Compute of the final run.", metavar="<gpu-hours>")],
    policy: PolicyOption = "rlplan",
    seed: SeedOption = 0,
    workers: Annotated[int, whole("--workers", "Trials that are trained at once.")] = 1,
    repeat: Annotated[int, whole("--repeat", "Play it so often, each with the next seed; reports the mean.")] = 1,
    learn_from: LearnFromOption = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Play a policy over recorded runs: what would it have chosen, and how far short of the best is that?

    Example: rlplan replay runs.csv --budget 10% --target 100 --policy asha --repeat 20
    """
    from rlplan.actions.replaying import ReplayRequest, budget_of, replay_table  # noqa: PLC0415
    from rlplan.printing.replay_output import print_replays  # noqa: PLC0415

    amount, is_share = budget_of(budget)
    request = ReplayRequest(
        table=table,
        budget=amount,
        budget_is_share=is_share,
        target=target,
        policy=policy,
        seed=seed,
        workers=workers,
        repeat=repeat,
        learn_from=tuple(learn_from or ()),
    )
    print_replays(replay_table(request), format)
