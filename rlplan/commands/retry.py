"""`rlplan retry`: run the failed trials of a sweep again."""

from typing import TYPE_CHECKING, Annotated

import typer

from rlplan.commands.completing import trials
from rlplan.commands.options import DatabaseOption, FormatOption, number
from rlplan.commands.resume import AcceptOption, SweepArgument
from rlplan.commands.sweep import RayAddressOption, WorkersOption
from rlplan.wording.formats import DEFAULT_DATABASE, Format

if TYPE_CHECKING:
    from rlplan.actions.sweeping import Finished
    from rlplan.actions.train_signals import Interrupts
    from rlplan.live.sweep_running import Began


def retry(
    sweep: SweepArgument = None,
    trial: Annotated[
        list[str] | None,
        typer.Option(metavar="<name>", help="A failed trial; may be repeated. All without it.", autocompletion=trials),
    ] = None,
    accept_changes: AcceptOption = False,
    ray_address: RayAddressOption = None,
    workers: WorkersOption = None,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
) -> int:
    """Run the failed trials of a sweep again, and go on with the rest of it.

    Example: rlplan retry sweep-1 --trial n512-B32-s0
    """
    from rlplan.actions.sweeping import retry as run_again  # noqa: PLC0415
    from rlplan.live.sweep_running import run_sweep  # noqa: PLC0415

    def drive(interrupts: "Interrupts", began: "Began") -> "Finished":
        return run_again(
            sweep,
            db,
            trials=tuple(trial or ()),
            accept_changes=accept_changes,
            ray_address=ray_address,
            workers=number(workers),
            interrupts=interrupts,
            began=began,
        )

    return run_sweep(drive, db, format)
