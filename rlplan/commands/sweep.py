"""`rlplan sweep`: run the pilots of a plan, and recommend an allocation."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlplan.commands.completing import plans, tasks
from rlplan.commands.options import (
    DatabaseOption,
    DeviceOption,
    EngineOption,
    FormatOption,
    MicroBatchOption,
    ModelOption,
    ModelsOption,
    PolicyOption,
    RecipesOption,
    RewardOption,
    ValidationOption,
    WeightsOption,
    gpu_hours,
    names,
    number,
)
from rlplan.wording.formats import DEFAULT_DATABASE, Format

if TYPE_CHECKING:
    from rlplan.actions.sweeping import Finished
    from rlplan.actions.train_signals import Interrupts
    from rlplan.live.sweep_running import Began

RayAddressOption = Annotated[
    str | None,
    typer.Option(metavar="auto|<host>:<port>|ray://…", help="A Ray cluster; this machine without it."),
]
WorkersOption = Annotated[
    str | None, typer.Option(metavar="<int>", help="Trials that run at once; as many as the plan's hardware holds.")
]


def sweep(
    plan: Annotated[
        str | None,
        typer.Argument(help="A stored plan, such as plan-3; the newest without it.", autocompletion=plans),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="Propose for an embedded task on this machine's CPU first, then run that.", autocompletion=tasks
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="<gpu-hours>", help="Propose for these GPU-hours first, then run that.")
    ] = None,
    recipes: RecipesOption = None,
    models: ModelsOption = None,
    config: Annotated[
        Path | None, typer.Option(help="A configuration file; ./rlplan.toml is read without this.")
    ] = None,
    policy: PolicyOption = "rlplan",
    search: Annotated[
        str | None,
        typer.Option(
            metavar="tpe|gp|qmc|none",
            help="Which of Optuna's samplers names cells without a pilot; none: the policy itself.",
        ),
    ] = None,
    seed: Annotated[str, typer.Option(metavar="<int>", help="Decides every random number.")] = "0",
    workers: WorkersOption = None,
    ray_address: RayAddressOption = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="<folder>", help="Checkpoints and logs; on a cluster, shared storage.")
    ] = None,
    retries: Annotated[
        str, typer.Option(metavar="<int>", help="Times in a row that a lost trial is tried again.")
    ] = "3",
    problems: Annotated[
        Path | None, typer.Option(metavar="<file>", help="Problems of your own: JSONL of {prompt, answer}.")
    ] = None,
    model: ModelOption = None,
    reward: RewardOption = None,
    validation: ValidationOption = None,
    engine: EngineOption = None,
    device: DeviceOption = None,
    weights: WeightsOption = None,
    micro_batch_tokens: MicroBatchOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and run nothing.")] = False,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
) -> int:
    """Run the pilots of a plan and recommend an allocation; Ctrl-C saves the state, `rlplan resume` goes on.

    Example: rlplan sweep --task sum-easy --budget 0.03
    """
    from rlplan.actions.sweeping import SweepRequest, describe, start  # noqa: PLC0415
    from rlplan.live.sweep_running import run_sweep  # noqa: PLC0415
    from rlplan.printing.sweep_dry_run import print_dry_run  # noqa: PLC0415
    from runner.sweep.planning import TrainingChoice  # noqa: PLC0415

    hours = gpu_hours(budget)
    chosen_seed: Any = number(seed)  # what is no number is explained by the check of the settings
    request = SweepRequest(
        plan=plan,
        task=task,
        budget=hours,
        config=config,
        flags={
            "budget.gpu_hours": ("--budget", hours),
            **({"axes.recipes": ("--recipes", names(recipes))} if recipes is not None else {}),
            **({"axes.models": ("--models", names(models))} if models is not None else {}),
        },
        policy=policy,
        search=search,
        seed=chosen_seed,
        workers=number(workers),
        ray_address=ray_address,
        folder=folder,
        retries=number(retries),
        training=TrainingChoice(
            problems=None if problems is None else str(problems),
            model=model,
            reward=reward,
            validation=validation,
            engine=engine,
            device=device,
            weights=weights,
            micro_batch_tokens=number(micro_batch_tokens),
        ),
    )
    if dry_run:
        print_dry_run(describe(request, db), format)
        return 0

    def drive(interrupts: "Interrupts", began: "Began") -> "Finished":
        return start(request, db, interrupts=interrupts, began=began)

    return run_sweep(drive, db, format)
