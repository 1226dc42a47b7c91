"""The command line: registers the commands, and turns every error into one message and an exit code."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from errno import EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from budgets.errors import RlplanError
from rlplan.commands import dashboard, init, mcp, report
from rlplan.exits import ExitCode, exit_code
from rlplan.requests import checking, foreign, planning, reading, running
from rlplan.requests.request import command
from rlplan.wording.extras import extra_with
from rlplan.wording.terminal import tell

EPILOG = "Exit codes: 0 done, 2 bad input, 3 not found, 4 budget too small, 5 failures or warnings, 130 interrupted."

REFUSED = (EACCES, EPERM, EROFS, ENOTDIR, ENAMETOOLONG, ELOOP)  # what a system says of a path that is no good
# By what a person is doing, the everyday ones first.
PANELS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Plan": (
        command(planning.ProposeRequest),
        command(checking.CheckRequest),
        command(planning.PreviewRequest),
        command(planning.PriceRequest),
        command(checking.FitsRequest),
    ),
    "Run": (
        command(running.SweepRequest),
        command(running.ResumeRequest),
        command(running.RetryRequest),
        command(running.PauseRequest),
        command(running.StopRequest),
        command(running.LaunchRequest),
    ),
    "Read": (
        command(reading.StatusRequest),
        command(reading.RecommendRequest),
        command(reading.RankRequest),
        command(reading.DecisionsRequest),
        report,
        dashboard,
        command(reading.ExportRequest),
    ),
    "Runs made elsewhere": (
        command(foreign.FitRequest),
        command(foreign.CompareRequest),
        command(foreign.WatchRequest),
        command(foreign.AdoptRequest),
        command(foreign.ReplayRequest),
    ),
    "Set up": (command(checking.DoctorRequest), init, mcp),
}


class Face(TyperGroup):
    """The group of commands, which reports errors in one or two lines instead of a traceback."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> None:
        """Run a command and exit with its code."""
        given = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in given or bool(os.environ.get("RLPLAN_DEBUG"))
        words = [arg for arg in given if arg != "--debug"]
        options |= {"standalone_mode": False, "obj": tuple(words)}
        try:
            result = super().main(words, *rest, **options)
            sys.stdout.flush()
        except TyperException as error:
            if (ours := _refused_by_us(error)) is not None:
                if debug:
                    raise ours from error
                _fail(str(ours), exit_code(ours))
            _fail(_usage(error, words), ExitCode.BAD_INPUT)
        except RlplanError as error:
            if debug:
                raise
            _fail(str(error), exit_code(error))
        except BrokenPipeError:
            _silence_stdout()
        except OSError as error:
            if debug:
                raise
            _fail(*_by_system(error))
        except Exception as error:  # what nobody foresaw is our bug, and is told in a line
            if debug:
                raise
            if isinstance(error, ModuleNotFoundError) and (remedy := extra_with(error.name)) is not None:
                _fail(remedy, ExitCode.BAD_INPUT)
            _fail(_bug(error), ExitCode.OUR_BUG)
        else:
            raise SystemExit(result if isinstance(result, int) else ExitCode.DONE)

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command; a reader that has seen enough, such as `head`, ends it without an error."""
        if "--help" not in ctx.args:
            _load_numpy()
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _silence_stdout()
            return ExitCode.DONE


def _load_numpy() -> None:
    """Load numpy with one thread for linear algebra: of matrices as small as ours more only wait for each other.

    It reads the variable once; torch, and what a command starts, do not see it.
    """
    name = "OPENBLAS_NUM_THREADS"
    chosen = os.environ.get(name)
    os.environ[name] = chosen or "1"
    import numpy  # noqa: F401, PLC0415

    if chosen is None:
        del os.environ[name]


def _silence_stdout() -> None:
    """Send what is still buffered nowhere, or Python complains about the broken pipe when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused_by_us(error: TyperException) -> RlplanError | None:
    """Return what a parser of ours raised: typer reads values through pydantic, which wraps it twice."""
    details: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    raised = details[0].get("ctx", {}).get("error") if details else None
    return raised if isinstance(raised, RlplanError) else None


def _usage(error: TyperException, words: Sequence[str]) -> str:
    message = error.format_message().replace("Value error, ", "")
    names = {each.__name__ for commands in PANELS.values() for each in commands}
    asked = " ".join(["rlplan", *(word for word in words[:1] if word in names)])
    help_text = getattr(getattr(getattr(error, "ctx", None), "command", None), "help", None)
    if message.startswith("Missing argument") and (example := re.search(r"Example: (.+)", help_text or "")):
        message = f"{message.rstrip('.')}, as in `{example.group(1)}`"
    return f"{message}{'' if message.endswith(('.', '?')) else '.'} Run `{asked} --help` for what there is."


def _by_system(error: OSError) -> tuple[str, ExitCode]:
    if error.errno == ENOSPC:
        _silence_stdout()
        return f"what is printed cannot be written: {error.strerror}", ExitCode.BAD_INPUT
    if error.filename is None and error.errno == ENOENT:
        return "the working directory was deleted: cd to one that is there", ExitCode.BAD_INPUT
    if error.filename is None or error.errno not in REFUSED:
        return _bug(error), ExitCode.OUR_BUG
    return f"{error.filename} cannot be used: {error.strerror}; give another path", ExitCode.BAD_INPUT


def _bug(error: Exception) -> str:
    first_line = str(error).partition("\n")[0]
    return f"internal error, {type(error).__name__}: {first_line}. Please report it with the output of --debug"


def _fail(message: str, code: ExitCode) -> None:
    tell(f"rlplan: {message}")
    raise SystemExit(code)


app = typer.Typer(
    cls=Face,
    name="rlplan",
    epilog=EPILOG,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for panel, commands in PANELS.items():
    for each in commands:
        app.command(rich_help_panel=panel)(each)


@app.callback(invoke_without_command=True)
def rlplan(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere on the line.")] = False,
) -> None:
    """Plan the compute of RL post-training: what each choice of rollouts, prompts and updates costs, and which wins."""
    if version:
        from importlib.metadata import version as installed  # noqa: PLC0415

        typer.echo(f"rlplan {installed('rlplan')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
