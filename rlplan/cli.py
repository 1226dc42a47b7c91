"""The command line: registers the commands, and turns every error into one message and an exit code."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from errno import EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from budgets.errors import RlplanError
from rlplan.exits import ExitCode, exit_code, extra_with
from rlplan.requests.flags import command
from rlplan.wording.screen import tell

EPILOG = "Exit codes: 0 done, 2 bad input, 3 not found, 4 budget too small, 5 failures or warnings, 130 interrupted."

REFUSED = (EACCES, EPERM, EROFS, ENOTDIR, ENAMETOOLONG, ELOOP)  # what a system says of a path that is no good
# Where commands are declared, by what a person is doing, the everyday ones first.
PANELS: dict[str, dict[str, str]] = {
    "Plan": {
        "propose": "rlplan.requests.plan",
        "check": "rlplan.requests.plan",
        "preview": "rlplan.requests.plan",
        "price": "rlplan.requests.plan",
        "fits": "rlplan.requests.plan",
    },
    "Run": dict.fromkeys(("sweep", "resume", "retry", "pause", "stop", "launch"), "rlplan.requests.run"),
    "Read": {
        **dict.fromkeys(("status", "recommend", "rank", "decisions"), "rlplan.requests.results"),
        "report": "rlplan.commands.plain",
        "dashboard": "rlplan.commands.plain",
        "export": "rlplan.requests.results",
    },
    "Runs made elsewhere": dict.fromkeys(("fit", "compare", "watch", "adopt", "replay"), "rlplan.requests.logs"),
    "Set up": {"doctor": "rlplan.requests.plan", "init": "rlplan.commands.plain", "mcp": "rlplan.commands.plain"},
}
NAMES = [name for panel in PANELS.values() for name in panel]


class Commands(Mapping[str, Any]):
    """The commands by name, each made when it is first asked for: to make them all takes a tenth of a plan's time."""

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)

    def __getitem__(self, name: str) -> Any:
        return _command(name)


@cache
def _command(name: str) -> Any:
    panel = next((panel for panel, modules in PANELS.items() if name in modules), None)
    if panel is None:
        raise KeyError(name)
    module = import_module(PANELS[panel][name])
    request = getattr(module, f"{name.title()}Request", None)
    alone = typer.Typer(add_completion=False)
    alone.command(rich_help_panel=panel)(getattr(module, name) if request is None else command(request))
    return typer.main.get_command(alone)


class Face(TyperGroup):
    """The group of commands, which reports errors in one or two lines instead of a traceback."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()  # type: ignore[assignment]

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> None:
        """Run a command and exit with its code."""
        arguments = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in arguments or bool(os.environ.get("RLPLAN_DEBUG"))
        words = [arg for arg in arguments if arg != "--debug"]
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
    called = " ".join(["rlplan", *(word for word in words[:1] if word in NAMES)])
    help_text = getattr(getattr(getattr(error, "ctx", None), "command", None), "help", None)
    if message.startswith("Missing argument") and (example := re.search(r"Example: (.+)", help_text or "")):
        message = f"{message.rstrip('.')}, as in `{example.group(1)}`"
    return f"{message}{'' if message.endswith(('.', '?')) else '.'} Run `{called} --help` for what there is."


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
