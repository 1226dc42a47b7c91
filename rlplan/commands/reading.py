"""What reads a database and changes nothing: a sweep as it stands, its answer, its rows, its reasons, its pictures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from rlplan.commands import options
from rlplan.commands.completing import (
    actions,
    one_of,
    plans_and_sweeps,
    ranked_states,
    sweeps,
    trial_states,
    trials,
)
from rlplan.commands.requests import StoredRequest, command
from rlplan.wording.formats import DEFAULT_DATABASE, FileFormat
from rlplan.wording.terminal import tell


@dataclass(frozen=True)
class StatusRequest(StoredRequest):
    """Show how a sweep stands, or list all sweeps; it only reads, and never disturbs a running sweep.

    Example: rlplan status sweep-1 --status running,paused --sort p-best --top 10
    """

    sweep: options.SweepArgument = None
    watch: Annotated[bool, typer.Option("--watch", help="Follow it until it rests; Ctrl-C leaves.")] = False
    all_sweeps: Annotated[bool, typer.Option("--all", help="List every sweep of the database instead.")] = False
    state: Annotated[
        str | None,
        typer.Option(
            "--status", metavar="<state>,…", help="Only these, such as running,paused.", autocompletion=trial_states
        ),
    ] = None
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="<key>",
            help="promise, score, expected, p-best, spent, step, n, b or name; with --all: made, name, score or spent.",
            autocompletion=one_of("promise", "score", "expected", "p-best", "spent", "step", "n", "b", "name", "made"),
        ),
    ] = None
    reverse: options.ReverseOption = False
    top: options.TopOption = None


@dataclass(frozen=True)
class RecommendRequest(StoredRequest):
    """Say which allocation to run in full, how sure that is, and the command that runs it; it only reads.

    Example: rlplan recommend sweep-1 --target 2000
    """

    sweep: options.SweepArgument = None
    budget: Annotated[
        float | None, options.money("--budget", "As if this were all there is, pilots and final run together.")
    ] = None
    target: Annotated[float | None, options.money("--target", "Another final run than the plan's.")] = None


@dataclass(frozen=True)
class RankRequest(StoredRequest):
    """Rank the allocations: expected score with its interval, P(best), GPU-hours; of a sweep, or of a plan as proposed.

    Example: rlplan rank sweep-1 --top 5 --sort p-best
    """

    name: Annotated[
        str | None,
        typer.Argument(metavar="[SWEEP|PLAN]", help="The newest sweep without it.", autocompletion=plans_and_sweeps),
    ] = None
    sweep: Annotated[
        str | None, typer.Option(metavar="<name>", help="The same as the argument.", autocompletion=sweeps)
    ] = None
    top: options.TopOption = None
    status: Annotated[
        str | None,
        typer.Option(metavar="<state>,…", help="Only these, such as paused,finished.", autocompletion=ranked_states),
    ] = None
    sort: Annotated[str | None, options.key("rank", "score", "p-best", "spent", "cost", "n", "b", "m")] = None
    reverse: options.ReverseOption = False
    where: Annotated[
        str | None, typer.Option(metavar="<column>=<value>,…", help="Only these, such as n=16,recipe=dapo.")
    ] = None
    stored: Annotated[
        bool, typer.Option("--stored", help="What the database holds, at once, also where no answer is stored.")
    ] = False


@dataclass(frozen=True)
class ShowRequest(StoredRequest):
    """Show one trial with its curve, money, states and decisions.

    Example: rlplan show n16-B32-s0 --sweep sweep-1
    """

    EXPLAINS = False

    trial: Annotated[
        str, typer.Argument(metavar="TRIAL", help="Its name, or the beginning of it.", autocompletion=trials)
    ]
    sweep: Annotated[
        str | None,
        typer.Option(metavar="<name>", help="The sweep of the trial; else the newest with it.", autocompletion=sweeps),
    ] = None


@dataclass(frozen=True)
class DecisionsRequest(StoredRequest):
    """List the decisions of a sweep, each with its reason; --format json adds the numbers it rested on.

    Example: rlplan decisions sweep-1 --action prune,stop --last 20
    """

    sweep: options.SweepArgument = None
    trial: Annotated[
        str | None, typer.Option(metavar="<name>", help="Only decisions about this trial.", autocompletion=trials)
    ] = None
    action: Annotated[
        str | None,
        typer.Option(metavar="<action>,…", help="Only these, such as start,prune.", autocompletion=actions),
    ] = None
    since: Annotated[
        str | None, typer.Option(metavar="<time>", help="Only since then: 30m, 2h or 1d ago, or a time in UTC.")
    ] = None
    last: Annotated[int | None, typer.Option(min=1, metavar="<int>", help="Only so many, the newest.")] = None


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

    path = write_report(out, db, sweep)
    tell(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB): open it in any browser")
    if show:
        typer.launch(path.resolve().as_uri())


def dashboard(
    db: options.DatabaseOption = DEFAULT_DATABASE,
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
) -> int:
    """Show all sweeps in the browser, as they go on; it only reads.

    On a machine without a browser: ssh -L 8787:127.0.0.1:8787 <machine>, and open the address at home.

    Example: rlplan dashboard --db rlplan.db --port 8787
    """
    from rlplan.web.dashboard.settings import checked  # noqa: PLC0415

    settings = checked(db, host, port, token)
    from rlplan.web.dashboard.serving import serve  # noqa: PLC0415

    return serve(settings)


@dataclass(frozen=True)
class ExportRequest(StoredRequest):
    """Write what a sweep has measured, decided and concluded as CSV, JSON or Parquet.

    Example: rlplan export runs.csv --for replay
    """

    PRINTS = False

    out: Annotated[str | None, typer.Argument(help="A file, or - for stdout.", show_default=False)] = None
    sweep: Annotated[
        str | None, typer.Option(metavar="<name>", help="The newest without it.", autocompletion=sweeps)
    ] = None
    experience: Annotated[
        str | None,
        typer.Option(metavar="<file>", help="Write what the sweep has learnt there instead, for --learn-from."),
    ] = None
    what: Annotated[
        str | None,
        typer.Option(
            metavar="<table>",
            help="points, trials, segments, decisions, ranking, fits, or all as one JSON document.",
            autocompletion=one_of("points", "trials", "segments", "decisions", "ranking", "fits", "all"),
        ),
    ] = None
    purpose: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="replay", help="Points as that command reads them.", autocompletion=one_of("replay")
        ),
    ] = None
    format: Annotated[
        FileFormat | None, typer.Option("--format", help="Otherwise as the file's name ends, or CSV.")
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False


status, recommend, rank = command(StatusRequest), command(RecommendRequest), command(RankRequest)
show, decisions, export = command(ShowRequest), command(DecisionsRequest), command(ExportRequest)
