"""What is asked of the commands that read a database and change nothing."""

from dataclasses import dataclass
from typing import Annotated

import typer

from rlplan.requests import options
from rlplan.requests.completing import (
    actions,
    one_of,
    plans_and_sweeps,
    ranked_states,
    sweeps,
    trial_states,
    trials,
)
from rlplan.requests.request import StoredRequest
from rlplan.wording.formats import FileFormat


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
