"""`rlplan dashboard`: the sweeps of a database in the browser, live."""

from typing import Annotated

import typer

from rlplan.commands.options import DatabaseOption
from rlplan.wording.formats import DEFAULT_DATABASE


def dashboard(
    db: DatabaseOption = DEFAULT_DATABASE,
    host: Annotated[str, typer.Option(metavar="<address>", help="Where it listens; others need --token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, metavar="<int>", help="The port.")] = 8787,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="RLPLAN_DASHBOARD_TOKEN",
            show_envvar=True,
            metavar="<secret>|auto",
            help="What visitors have to show; auto makes one.",
        ),
    ] = None,
    control: Annotated[
        bool, typer.Option("--control", help="Let the page pause, resume and stop a running sweep.")
    ] = False,
) -> int:
    """Show all sweeps in the browser, as they go on; it only reads.

    On a machine without a browser: ssh -L 8787:127.0.0.1:8787 <machine>, and open the address at home.

    Example: rlplan dashboard --db rlplan.db --port 8787
    """
    from rlplan.web.dashboard.settings import checked  # noqa: PLC0415

    settings = checked(db, host, port, token, control)
    from rlplan.web.dashboard.serving import serve  # noqa: PLC0415

    return serve(settings)
