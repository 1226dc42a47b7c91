"""`rlplan launch`: the final run of a sweep, driven to its end and held against what was promised of it."""

from functools import partial
from typing import Annotated

import typer

from rlplan.commands import options
from rlplan.commands.sweeping import for_slurm
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def launch(
    sweep: options.SweepArgument = None,
    allocation: Annotated[
        str | None, typer.Option(metavar="n=<int>,B=<int>", help="Another allocation than the recommended one.")
    ] = None,
    validations: Annotated[
        int, options.whole("--validations", "Times that it is scored, each with a checkpoint.")
    ] = 40,
    stop_when_won: Annotated[
        bool, typer.Option("--stop-when-won", help="End it where nothing is left to win, and keep the rest.")
    ] = False,
    switch: Annotated[
        bool, typer.Option("--switch", help="End the final run that there is, and run what promises more now.")
    ] = False,
    from_best: Annotated[
        bool, typer.Option("--from-best", help="End the final run that there is, and go on from its best checkpoint.")
    ] = False,
    learning_rate: Annotated[
        float | None, options.plain("--learning-rate", "With --from-best: the rate from there on.")
    ] = None,
    ray_address: options.RayAddressOption = None,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="Try cluster, folder and trainer for a minute, and spend nothing.")
    ] = False,
    slurm: options.SlurmOption = False,
    sbatch: options.SbatchOption = None,
    dry_run: options.DryRunOption = False,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    format: options.FormatOption = Format.TABLE,
) -> int:
    """Run what a sweep recommends, in full, held against its promise; Ctrl-C saves, `rlplan resume` goes on.

    Exit code 5 when it ended and a warning stands. Example: rlplan launch sweep-1 --stop-when-won
    """
    from rlplan.actions.launching import LaunchRequest, describe  # noqa: PLC0415
    from rlplan.actions.launching import launch as run  # noqa: PLC0415
    from rlplan.live.sweep_running import run_sweep  # noqa: PLC0415
    from rlplan.printing.final_output import print_planned  # noqa: PLC0415

    request = LaunchRequest(
        sweep, allocation, validations, stop_when_won, switch, ray_address, from_best, learning_rate
    )
    if rehearse:
        from rlplan.actions.rehearsing import rehearse_final  # noqa: PLC0415
        from rlplan.printing.doctor_output import print_rehearsal  # noqa: PLC0415

        return print_rehearsal(rehearse_final(request, db), format)
    if for_slurm(slurm, sbatch, ray_address):
        from rlplan.actions.submitting import submit_final  # noqa: PLC0415
        from rlplan.printing.submitted_output import print_submitted  # noqa: PLC0415

        return print_submitted(submit_final(request, db, sbatch=sbatch or (), write_only=dry_run), db, format)
    if dry_run:
        return print_planned(describe(request, db), format)
    return run_sweep(partial(run, request, db), db, format)
