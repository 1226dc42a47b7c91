"""The commands that answer no request: report, dashboard, init, mcp; what is heavy is imported when one is called."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.requests import options
from rlplan.requests.completion import plans_and_sweeps
from rlplan.wording.command_lines import DEFAULT_DATABASE
from rlplan.wording.screen import tell


def report(
    out: Annotated[Path, typer.Argument(help="The file to write, such as report.html; one that exists is replaced.")],
    sweep: Annotated[
        str | None,
        typer.Argument(
            help="A sweep or a plan, such as sweep-2; the newest without it.", autocompletion=plans_and_sweeps
        ),
    ] = None,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write one HTML file with the answer, the curves, the budget and every decision; it needs no network.

    Of a plan without a sweep: its split, its priced grid, and what other budgets would choose.

    Example: rlplan report report.html sweep-1
    """
    from rlplan.web.report import write_report  # noqa: PLC0415
    from rlplan.wording.command_lines import command  # noqa: PLC0415
    from rlplan.wording.screen import NextStep, next_steps, print_drawn  # noqa: PLC0415

    path = write_report(out, db, sweep)
    tell(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB): open it in any browser")
    steps = [
        NextStep(command("rank", sweep or "", db), "its ranking, here"),
        NextStep(command("dashboard", "", db), "all sweeps in the browser, as they go on"),
    ]
    print_drawn(lambda canvas: next_steps(steps, canvas))
    if show:
        typer.launch(path.resolve().as_uri())


def dashboard(
    db: options.DatabaseOption = DEFAULT_DATABASE,
    host: Annotated[str, typer.Option(metavar="<address>", help="Where it listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, metavar="<int>", help="The port.")] = 8787,
    token: Annotated[
        str,
        typer.Option(
            envvar="RLPLAN_DASHBOARD_TOKEN",
            show_envvar=True,
            metavar="<secret>|auto",
            help="What visitors have to show; auto makes one.",
        ),
    ] = "auto",
) -> None:
    """Show all sweeps and plans in the browser, as they go on; it only reads.

    On a machine without a browser: ssh -L 8787:127.0.0.1:8787 <machine>, and open the address at home.

    Example: rlplan dashboard --db rlplan.db --port 8787
    """
    from rlplan.web.dashboard import checked, serve  # noqa: PLC0415

    serve(db, checked(host, port, token))


def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("rlplan.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write a commented rlplan.toml, every key with its default or, where it has none, an example.

    Example: rlplan init && $EDITOR rlplan.toml && rlplan propose --budget 5000
    """
    from planner.config import template  # noqa: PLC0415
    from rlplan.wording.file_writing import write_file  # noqa: PLC0415

    write_file(path, template().encode(), force=force)
    tell(f"Wrote {path}: '#' stands before a default, '##' before an example.")
    tell("Change what you like; then: rlplan propose --budget 5000")


def mcp(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Option("--folder", help="All that the agent may read and write.", exists=True, file_okay=False)
    ] = Path(),
    allow_runs: Annotated[
        bool, typer.Option("--allow-runs", help="Let it store plans, and run, pause and stop sweeps and final runs.")
    ] = False,
    db: options.DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Serve rlplan to a coding agent, as tools over stdin and stdout; it only reads.

    Example: rlplan mcp --allow-runs
    """
    from rlplan.agents.server import serve  # noqa: PLC0415

    serve(context.find_root().command, folder, db, runs=allow_runs)
