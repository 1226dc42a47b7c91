"""`rlplan pause`: have a running sweep start nothing new for a while."""

from rlplan.commands.resume import SweepArgument
from rlplan.options import DEFAULT_DATABASE, DatabaseOption, Format, FormatOption


def pause(
    sweep: SweepArgument = None, db: DatabaseOption = DEFAULT_DATABASE, format: FormatOption = Format.TABLE
) -> int:
    """Pause a running sweep: segments under way end, no new one starts, idle workers go; `rlplan resume` goes on.

    Example: rlplan pause sweep-1
    """
    from planner.store.schema import RequestKind  # noqa: PLC0415
    from rlplan.asking import ask  # noqa: PLC0415
    from rlplan.asking_output import print_asked  # noqa: PLC0415

    return print_asked(ask(db, sweep, RequestKind.PAUSE), db, format)
