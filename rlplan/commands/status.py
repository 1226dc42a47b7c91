"""`rlplan status`: how a sweep stands, from any terminal."""

from typing import Annotated

import typer

from rlplan.commands.completing import sort_keys, trial_states
from rlplan.commands.options import DatabaseOption, FormatOption, ReverseOption, TopOption
from rlplan.commands.resume import SweepArgument
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def status(
    sweep: SweepArgument = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it until it rests; Ctrl-C leaves.")] = False,
    all_sweeps: Annotated[bool, typer.Option("--all", help="List every sweep of the database instead.")] = False,
    state: Annotated[
        str | None,
        typer.Option(
            "--status", metavar="<state>,…", help="Only these, such as running,paused.", autocompletion=trial_states
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="<key>",
            help="promise, score, expected, p-best, spent, step, n, b or name; with --all: made, name, score or spent.",
            autocompletion=sort_keys(
                "promise", "score", "expected", "p-best", "spent", "step", "n", "b", "name", "made"
            ),
        ),
    ] = None,
    reverse: ReverseOption = False,
    top: TopOption = None,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
) -> int:
    """Show how a sweep stands, or list all sweeps; it only reads, and never disturbs a running sweep.

    Example: rlplan status sweep-1 --status running,paused --sort p-best --top 10
    """
    from budgets.errors import InputError  # noqa: PLC0415
    from rlplan.reading.status_choice import ALL, TrialChoice  # noqa: PLC0415

    chosen = TrialChoice(state, sort, reverse, top)
    if all_sweeps:
        from rlplan.printing.status_sweeps import print_sweeps  # noqa: PLC0415

        if sweep is not None or watch:
            raise InputError("--all lists every sweep: leave out the name of one and --watch")
        print_sweeps(db, format, chosen)
        return 0
    from rlplan.printing.sweep_output import print_status, sweep_name  # noqa: PLC0415

    name = sweep_name(db, sweep)
    if watch:
        from rlplan.live.sweep_running import watch as follow  # noqa: PLC0415

        if chosen != ALL:
            raise InputError("--watch shows what finds room: leave out --status, --sort, --reverse and --top")
        follow(db, name)
    return print_status(db, name, format, chosen)
