"""What is asked of the commands that read a database and change nothing."""

from dataclasses import dataclass

from rlplan.requests import options
from rlplan.requests.completion import (
    actions,
    one_of,
    plans_and_sweeps,
    ranked_states,
    sweeps,
    sweeps_and_trials,
    trial_states,
    trials,
)
from rlplan.requests.flags import StoredRequest, argument, flag, money, toggle
from rlplan.wording.command_lines import FileFormat


@dataclass(frozen=True)
class StatusRequest(StoredRequest):
    """Show how a sweep or a trial of it stands, or list all sweeps; it only reads, and never disturbs a running sweep.

    Example: rlplan status sweep-1 --status running,paused --sort p-best --top 10
    """

    sweep: str | None = argument(
        "A sweep, such as sweep-2; the newest without it. Or a trial: n8-B64-s0, its beginning, or sweep-2/n8-B64-s0.",
        "[SWEEP|TRIAL]",
        offer=sweeps_and_trials,
    )
    watch: bool = toggle("Follow it until it rests; Ctrl-C leaves.")
    all_sweeps: bool = toggle("List every sweep of the database instead.", name="--all")
    state: str | None = flag("Only these, such as running,paused.", "<state>,…", name="--status", offer=trial_states)
    sort: str | None = flag(
        "promise, score, expected, p-best, spent, step, n, b or name; with --all: made, name, score or spent.",
        "<key>",
        offer=one_of("promise", "score", "expected", "p-best", "spent", "step", "n", "b", "name", "made"),
    )
    reverse: bool = options.reverse()
    top: int | None = options.top()


@dataclass(frozen=True)
class RecommendRequest(StoredRequest):
    """Say which allocation to run in full, how sure that is, and the command that runs it; it only reads.

    Example: rlplan recommend sweep-1 --target 2000
    """

    sweep: str | None = options.sweep()
    budget: float | None = money("As if this were all there is, pilots and final run together.")
    target: float | None = money("Another final run than the plan's.")


@dataclass(frozen=True)
class RankRequest(StoredRequest):
    """Rank the allocations: expected score with its interval, P(best), GPU-hours; of a sweep, or of a plan as proposed.

    Example: rlplan rank sweep-1 --top 5 --sort p-best
    """

    name: str | None = argument("The newest sweep without it.", "[SWEEP|PLAN]", offer=plans_and_sweeps)
    sweep: str | None = flag("The same as the argument.", "<name>", offer=sweeps)
    top: int | None = options.top()
    status: str | None = flag("Only these, such as paused,finished.", "<state>,…", offer=ranked_states)
    sort: str | None = options.key("rank", "score", "p-best", "spent", "cost", "n", "b", "m")
    reverse: bool = options.reverse()
    where: str | None = flag("Only these, such as n=16,recipe=dapo.", "<column>=<value>,…")
    stored: bool = toggle("What the database holds, at once, also where no answer is stored.")


@dataclass(frozen=True)
class DecisionsRequest(StoredRequest):
    """List the decisions of a sweep, each with its reason; --format json adds the numbers it rested on.

    Example: rlplan decisions sweep-1 --action prune,stop --last 20
    """

    sweep: str | None = options.sweep()
    trial: str | None = flag("Only decisions about this trial.", "<name>", offer=trials)
    action: str | None = flag("Only these, such as start,prune.", "<action>,…", offer=actions)
    since: str | None = flag("Only since then: 30m, 2h or 1d ago, or a time in UTC.", "<time>")
    last: int | None = flag("Only so many, the newest.", "<int>", least=1)


@dataclass(frozen=True)
class ExportRequest(StoredRequest):
    """Write what a sweep has measured, decided and concluded as CSV or JSON.

    Example: rlplan export runs.csv --for replay
    """

    PRINTS = False

    out: str | None = argument("A file, or - for stdout.")
    sweep: str | None = flag("The newest without it.", "<name>", offer=sweeps)
    what: str | None = flag(
        "points, trials, segments, decisions, ranking, fits, or all as one JSON document.",
        "<table>",
        offer=one_of("points", "trials", "segments", "decisions", "ranking", "fits", "all"),
    )
    purpose: str | None = flag("Points as that command reads them.", "replay", name="--for", offer=one_of("replay"))
    format: FileFormat | None = flag("Otherwise as the file's name ends, or CSV.")
    force: bool = toggle("Replace what is there.")
