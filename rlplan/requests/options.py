"""Options that several commands share, and how the text of an option becomes a number."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from budgets.errors import InputError
from rlplan.requests.completing import gpus, models, one_of, plans, policies, recipes, sweeps, tasks, trainers
from rlplan.wording.formats import Format
from rlplan.wording.typed_numbers import gpu_hours, plain_number, whole_number

if TYPE_CHECKING:
    from rlplan.wording.next_steps import Invocation

Value = TypeVar("Value")


def whole(flag: str, help: str, *, metavar: str = "<int>", short: str | None = None) -> Any:
    """Return an option for a whole number."""
    return _read_by(whole_number, flag, help, metavar, short)


def plain(flag: str, help: str, *, metavar: str = "<float>") -> Any:
    """Return an option for any number."""
    return _read_by(plain_number, flag, help, metavar)


def key(*names: str) -> Any:
    """Return an option for what rows are sorted by."""
    help = f"{', '.join(names[:-1])} or {names[-1]}."
    return typer.Option(metavar="<key>", help=help, autocompletion=one_of(*names))


def money(flag: str, help: str) -> Any:
    """Return an option for GPU-hours."""
    return _read_by(gpu_hours, flag, help, "<gpu-hours>")


def _read_by(
    read: Callable[[str, str], Value], flag: str, help: str, metavar: str, short: str | None = None
) -> Any:  # as typer's own Option
    def parsed(text: str | Value) -> Value:
        return read(text, flag) if isinstance(text, str) else text  # a default is a number already

    names = (flag,) if short is None else (flag, short)
    return typer.Option(*names, metavar=metavar, parser=parsed, help=help)


def one_name(argument: str | None, option: str | None, flag: str) -> str | None:
    """Return the name that was given as an argument or with a flag; both must not differ."""
    if argument is not None and option is not None and argument != option:
        raise InputError(f"'{argument}' and {flag} '{option}' are both given: leave one of them out")
    return argument if argument is not None else option


def invocation(context: typer.Context, database: str, explain: bool) -> "Invocation":
    """Return how a command was called, for what its answer says to type next."""
    from rlplan.wording.next_steps import Invocation  # noqa: PLC0415 (opens the way to the store)

    return Invocation(tuple(context.find_root().obj or ()), database, explain)


FormatOption = Annotated[Format, typer.Option("--format", help="How to print the result.")]
DatabaseOption = Annotated[
    str, typer.Option("--db", envvar="RLPLAN_DB", help="The results database: a path, or an SQLAlchemy URL.")
]
ConfigOption = Annotated[
    Path | str | None, typer.Option(help="A configuration file; ./rlplan.toml is read without this.")
]
SeedOption = Annotated[int, whole("--seed", "Decides every random number.")]
SweepArgument = Annotated[
    str | None, typer.Argument(help="A sweep, such as sweep-2; the newest without it.", autocompletion=sweeps)
]
PlanArgument = Annotated[
    str | None, typer.Argument(help="A stored plan, such as plan-3; the newest without it.", autocompletion=plans)
]
TaskOption = Annotated[str | None, typer.Option(help="An embedded task, on this machine's CPU.", autocompletion=tasks)]

ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Print the whole answer: what it rests on, and all of its lines.")
]

# Of rows that are listed.
TopOption = Annotated[int | None, typer.Option(min=1, metavar="<int>", help="Only so many rows, from the top.")]
ReverseOption = Annotated[bool, typer.Option("--reverse", help="The other way round.")]

# Of a log or a table, for a fit and for a run that is watched.
XColumnOption = Annotated[str | None, typer.Option(metavar="<column>", help="The compute; guessed without this.")]
YColumnOption = Annotated[str | None, typer.Option(metavar="<column>", help="The score; guessed without this.")]
ByColumnOption = Annotated[str | None, typer.Option(metavar="<column>", help="What tells a file's curves apart.")]
PercentOption = Annotated[bool, typer.Option("--percent", help="Scores are percentages: divide them by 100.")]
AnswersOption = Annotated[
    int | None, whole("--answers", "Answers behind each score; its binomial error is then known.")
]

LevelOption = Annotated[float, plain("--level", "How much of the probability an interval holds.")]

# Of what decides, in a sweep, a replay and a preview.
PolicyOption = Annotated[
    str,
    typer.Option(
        metavar="<name>",
        help="What decides: rlplan, full, random, median, asha or hyperband.",
        autocompletion=policies,
    ),
]

# How a budget is split, for a plan and for a sweep that makes one.
PilotFractionOption = Annotated[
    float | None, plain("--pilot-fraction", "Share of the budget for pilots; 0: none. Without it, the best one.")
]
LearnFromOption = Annotated[
    list[str] | None,
    typer.Option(
        "--learn-from",
        metavar="<file>|<sweep>|none",
        help="Recorded runs, experience or a database of related sweeps; may be repeated.",
    ),
]
WithinOption = Annotated[
    str | None, typer.Option(metavar="<5d|36h>", help="Wall time by whose end pilots and final run are to be done.")
]
PilotGpusOption = Annotated[
    int | None, whole("--pilot-gpus", "How many GPUs a pilot gets; else the fewest at nearly the best price.")
]

# Of what is compared beside n and B, for a plan and for a sweep that makes one.
RecipesOption = Annotated[
    str | Sequence[str] | None,
    typer.Option(metavar="<a>,<b>", help="Recipes to compare with each other.", autocompletion=recipes),
]
ModelsOption = Annotated[
    str | Sequence[str] | None,
    typer.Option(metavar="<a>,<b>", help="Base models to compare with each other.", autocompletion=models),
]

# Of what is priced, for a plan and for one configuration.
CatalogueModelOption = Annotated[
    str | None,
    typer.Option("--model", help="A model of the catalogue, or a path to a config.json.", autocompletion=models),
]
GpuOption = Annotated[
    str | None, typer.Option(help="A GPU of the catalogue, or your own in rlplan.toml.", autocompletion=gpus)
]
ResponseTokensOption = Annotated[int | None, whole("--response-tokens", "Most tokens of a response.")]
MeanResponseOption = Annotated[
    float | None, plain("--mean-response-tokens", "Mean tokens of a response: what a price depends on most.")
]
FromLogOption = Annotated[
    Path | str | None,
    typer.Option("--from-log", metavar="<log>", help="A trainer's log of such a run: its mean response length counts."),
]
RecipeOption = Annotated[
    str | None,
    typer.Option(help="A recipe, such as grpo or scalerl, or a path to a .toml file.", autocompletion=recipes),
]

# Of the training, for one run and for a sweep.
ModelOption = Annotated[
    str | None,
    typer.Option(
        metavar="<folder|name>", help="A checkpoint for your own problems: its folder, or its name on the hub."
    ),
]
ProblemsOption = Annotated[
    Path | None, typer.Option(metavar="<file>", help="Problems of your own: JSONL of {prompt, answer}.")
]
RewardOption = Annotated[
    str | None, typer.Option(metavar="math|exact|<function>|<url>", help="What scores your own problems.")
]
ValidationOption = Annotated[
    str | None, typer.Option(metavar="<file>", help="JSONL of validation problems; else some are held out.")
]
EngineOption = Annotated[
    str | None, typer.Option(metavar="torch|vllm", help="What generates the responses; with a trainer on GPUs vllm.")
]
DeviceOption = Annotated[str | None, typer.Option(metavar="cpu|cuda", help="Where it runs.")]
WeightsOption = Annotated[
    str | None, typer.Option(metavar="float32|bfloat16", help="Format in forward passes; bfloat16 on a GPU.")
]
MicroBatchOption = Annotated[int | None, whole("--micro-batch-tokens", "Tokens of one forward and backward pass.")]

TrainerOption = Annotated[
    str | None,
    typer.Option(
        metavar="<name>|<file>.toml",
        help="Whose trainer: builtin, trl, verl, …, or a file on your own.",
        autocompletion=trainers,
    ),
]

RehearseOption = Annotated[
    bool, typer.Option("--rehearse", help="Try cluster, folder and trainer for a minute, and spend nothing.")
]
PrintForOption = Annotated[
    str | None,
    typer.Option(
        "--print",
        metavar="<trainer>|skypilot|kuberay",
        help="Run nothing: print a row of a plan or sweep in the keys of verl, trl, …, or as a cluster's file.",
    ),
]

ApproximateOption = Annotated[
    bool, typer.Option("--approximate", help="Let --trainer do a recipe as nearly as it can, and mark it.")
]

# Of who drives a sweep.
AcceptOption = Annotated[
    bool, typer.Option("--accept-changes", help="Go on although the code or the settings are not what they were.")
]
OwnFolderOption = Annotated[
    Path | None, typer.Option("--folder", metavar="<folder>", help="Where the sweep's folder lies, if it was moved.")
]
RayAddressOption = Annotated[
    str | None,
    typer.Option(metavar="auto|<host>:<port>|ray://…", help="A Ray cluster; this machine without it."),
]
WorkersOption = Annotated[
    int | None, whole("--workers", "Trials that run at once; as many as the plan's hardware holds.")
]

# Of a sweep that Slurm runs.
SlurmOption = Annotated[
    bool,
    typer.Option(
        "--slurm", help="Submit it to Slurm as a job that goes on by itself, as the table slurm of the file says."
    ),
]
SbatchOption = Annotated[
    list[str] | None,
    typer.Option(metavar="<option>", help="An option of sbatch, such as --time=8:00:00; may be repeated."),
]
JobOnlyOption = Annotated[bool, typer.Option("--dry-run", help="With --slurm: write the job, submit nothing.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would run, and run nothing.")]
