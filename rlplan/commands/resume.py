"""`rlplan resume`: go on with a sweep after any interruption."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlplan.commands.completing import sweeps
from rlplan.commands.options import DatabaseOption, FormatOption, number
from rlplan.commands.sweep import RayAddressOption, WorkersOption
from rlplan.wording.formats import DEFAULT_DATABASE, Format

if TYPE_CHECKING:
    from rlplan.actions.sweeping import Finished
    from rlplan.actions.train_signals import Interrupts
    from rlplan.live.sweep_running import Began

SweepArgument = Annotated[
    str | None,
    typer.Argument(help="A sweep, such as sweep-2; the newest without it.", autocompletion=sweeps),
]
AcceptOption = Annotated[
    bool, typer.Option("--accept-changes", help="Go on although the code or the settings are not what they were.")
]


def resume(
    sweep: SweepArgument = None,
    accept_changes: AcceptOption = False,
    ray_address: RayAddressOption = None,
    workers: WorkersOption = None,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
) -> int:
    """Go on with a sweep after any interruption or pause: the plan minus what is finished. Failed trials stay failed.

    Example: rlplan resume sweep-1
    """
    from rlplan.actions.asking import let_go_on  # noqa: PLC0415

    changes = {"--accept-changes": accept_changes, "--ray-address": ray_address, "--workers": workers}
    asked = let_go_on(db, sweep, changes)
    if asked is not None:
        from rlplan.printing.asking_output import print_asked  # noqa: PLC0415

        return print_asked(asked, db, format)
    from rlplan.actions.sweeping import resume as go_on  # noqa: PLC0415
    from rlplan.live.sweep_running import run_sweep  # noqa: PLC0415

    def drive(interrupts: "Interrupts", began: "Began") -> "Finished":
        return go_on(
            sweep,
            db,
            accept_changes=accept_changes,
            ray_address=ray_address,
            workers=number(workers),
            interrupts=interrupts,
            began=began,
        )

    return run_sweep(drive, db, format)
