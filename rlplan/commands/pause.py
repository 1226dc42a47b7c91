"""`rlplan pause`: have a running sweep start nothing new for a while."""

from rlplan.commands.options import DatabaseOption, FormatOption
from rlplan.commands.resume import SweepArgument
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def pause(
    sweep: SweepArgument = None, db: DatabaseOption = DEFAULT_DATABASE, format: FormatOption = Format.TABLE
) -> int:
    """Pause a running sweep: segments under way end, no new one starts, idle workers go; `rlplan resume` goes on.

    Example: rlplan pause sweep-1
    """
    from planner.store.schema import RequestKind  # noqa: PLC0415
    from rlplan.actions.asking import ask  # noqa: PLC0415
    from rlplan.printing.asking_output import print_asked  # noqa: PLC0415

    return print_asked(ask(db, sweep, RequestKind.PAUSE), db, format)
