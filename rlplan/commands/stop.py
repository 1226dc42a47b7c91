"""`rlplan stop`: end a running sweep from any terminal, with its state saved."""

from rlplan.commands.options import DatabaseOption, FormatOption
from rlplan.commands.resume import SweepArgument
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def stop(
    sweep: SweepArgument = None, db: DatabaseOption = DEFAULT_DATABASE, format: FormatOption = Format.TABLE
) -> int:
    """Stop a running sweep as its Ctrl-C does: updates under way end, all is saved; `rlplan resume` goes on.

    Example: rlplan stop sweep-1
    """
    from planner.store.schema import RequestKind  # noqa: PLC0415
    from rlplan.actions.asking import ask  # noqa: PLC0415
    from rlplan.printing.asking_output import print_asked  # noqa: PLC0415

    return print_asked(ask(db, sweep, RequestKind.STOP), db, format)
