"""Functions made of requests: the flags of a command are the arguments of the function of its name."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import cleandoc, signature
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, cast, get_type_hints, overload

from budgets.errors import suggest
from planner.curves.files.tabular import Tabular
from rlplan.actions import final_run, sweeping
from rlplan.actions.interrupts import Interrupts
from rlplan.actions.sweeping import Finished
from rlplan.api.results import Book, Sweep, arguments_named
from rlplan.commands.adopt import Adopted
from rlplan.commands.adopt import answer as answer_adopt
from rlplan.commands.check import answer as answer_check
from rlplan.commands.compare import answer as compare_recipes
from rlplan.commands.fit import answer as answer_fit
from rlplan.commands.fit_curves import Fits
from rlplan.commands.fit_law import FittedLaws
from rlplan.commands.fits import answer as answer_fits
from rlplan.commands.plan import Plan
from rlplan.commands.preview import Preview
from rlplan.commands.preview import answer as answer_preview
from rlplan.commands.price import answer as answer_price
from rlplan.commands.propose import answer as answer_propose
from rlplan.commands.replay import answer as answer_replay
from rlplan.commands.watch import answer as answer_watch
from rlplan.live.sweep_running import Began, followed
from rlplan.requests.flags import Request, StoredRequest, flags_of
from rlplan.requests.logs import AdoptRequest, CompareRequest, FitRequest, ReplayRequest, WatchRequest
from rlplan.requests.plan import CheckRequest, FitsRequest, PreviewRequest, PriceRequest, ProposeRequest
from rlplan.requests.run import LaunchRequest, ResumeRequest, RetryRequest, SweepRequest
from rlplan.wording.command_lines import database_at

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
Asked = TypeVar("Asked", bound=StoredRequest)
SHORT = {"n": "rollouts_per_prompt", "B": "prompts_per_batch"}  # as the field writes them
OF_SHELL = ("rehearse", "slurm", "sbatch", "dry_run", "wait", "print_for")  # in Python it runs, here and now


def function(
    name: str, request: Callable[P, R], answer: Callable[[R], A], without: Sequence[str] = ()
) -> Callable[P, A]:
    """Return the function that answers a request, and whose errors name arguments; it has no flags `without`."""
    request_signature, types = signature(request), get_type_hints(request)
    flags = {key: flag for key, flag in flags_of(cast(type[Request], request)).items() if key not in without}
    parameters = [
        parameter.replace(annotation=types[key])
        for key, parameter in request_signature.parameters.items()
        if key in flags
    ]
    public = request_signature.replace(parameters=parameters, return_annotation=signature(answer).return_annotation)

    def call(*values: P.args, **named: P.kwargs) -> A:
        for short, long in SHORT.items():
            if short in named and long in flags:
                if long in named:
                    raise TypeError(f"{name}() got both '{short}' and '{long}', which are one: leave one of them out")
                named[long] = named.pop(short)
        if unknown := next((key for key in named if key not in public.parameters), None):
            nearest = suggest(unknown, public.parameters)
            raise TypeError(f"{name}() got an unexpected keyword argument '{unknown}': {nearest}")
        with arguments_named():
            return answer(request(*values, **named))

    call.__name__ = call.__qualname__ = name
    also = {long: f" Also: {short}." for short, long in SHORT.items()}
    arguments = (f"    {key}: {flag.help}{also.get(key, '')}" for key, flag in flags.items())
    call.__doc__ = "\n".join((cleandoc(request.__doc__ or ""), "", "Args:", *arguments))
    vars(call).update(__signature__=public)  # what `help` shows
    return call


def located(request: Asked, key: str) -> Asked:
    """Return a request whose plan or sweep may be an object: by its name, in its own database if no other is named."""
    item = getattr(request, key)
    if not isinstance(item, Plan | Sweep):
        return request
    database = item.database if request.db == database_at(None) else request.db
    return replace(request, **cast(Any, {key: item.name, "db": database}))


def _adopted(request: AdoptRequest) -> Sweep | Adopted:
    """Return the sweep that the runs became, or what was read of them where there is none."""
    adopted = answer_adopt(request)
    return adopted if adopted.sweep is None else Book(request.db).sweep(adopted.sweep)


def _previewed(request: PreviewRequest) -> Preview:
    return answer_preview(located(request, "plan"))


def _started(request: SweepRequest) -> Sweep:
    return _followed(sweeping.start, located(request, "plan"))


def _resumed(request: ResumeRequest | RetryRequest) -> Sweep:
    request = located(request, "sweep")
    if isinstance(request, RetryRequest) and isinstance(request.trial, str):
        request = replace(request, trial=[request.trial])
    return _followed(sweeping.go_on, request)


def _launched(request: LaunchRequest) -> Sweep:
    return _followed(final_run.launch, located(request, "sweep"))


def _followed(drive: Callable[..., Finished], request: StoredRequest) -> Sweep:
    """Run a sweep to its end; KeyboardInterrupt where it was interrupted here, and not stopped from elsewhere."""
    handlers: list[Interrupts] = []

    def listening(*, interrupts: Interrupts, began: Began) -> Finished:
        handlers.append(interrupts)
        return drive(request, interrupts=interrupts, began=began)

    finished = followed(listening, request.db)
    if finished.interrupted and any(handler.requested for handler in handlers):
        raise KeyboardInterrupt(
            f"{finished.sweep} was stopped and its state is saved; go on with rlplan.resume({finished.sweep!r})"
        )
    return Sweep(Book(request.db), finished.sweep)


class Fitting(Protocol[P]):
    """What `rlplan fit` is in Python: with a law the fits of that."""

    @overload
    # A law is a text among the flags too, so that the two overlap: the first that fits counts.
    def __call__(self, files: Tabular, *, law: str, **flags: Any) -> FittedLaws: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, *given: P.args, **named: P.kwargs) -> Fits: ...


def _fitting(request: Callable[P, FitRequest]) -> Fitting[P]:
    return cast(Fitting[P], function("fit", request, answer_fit))


adopt = function("adopt", AdoptRequest, _adopted)
watch = function("watch", WatchRequest, answer_watch)
fit = _fitting(FitRequest)
check = function("check", CheckRequest, answer_check)
fits = function("fits", FitsRequest, answer_fits)
compare = function("compare", CompareRequest, compare_recipes)
propose = function("propose", ProposeRequest, answer_propose)
preview = function("preview", PreviewRequest, _previewed)
price = function("price", PriceRequest, answer_price)
replay = function("replay", ReplayRequest, answer_replay)
run = function("run", SweepRequest, _started, OF_SHELL)
resume = function("resume", ResumeRequest, _resumed, OF_SHELL)
retry = function("retry", RetryRequest, _resumed, OF_SHELL)
launch = function("launch", LaunchRequest, _launched, OF_SHELL)


def forget_prices(run: str | Path, *, db: str | Path | None = None) -> int:
    """Take back what a run, by its path or name, or a sweep taught of prices; return how many records were removed."""
    return int(price(forget=str(run), db=database_at(db))["records"])
