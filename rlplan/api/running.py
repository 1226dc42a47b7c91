"""Runs sweeps and final runs from Python: what the commands of these names do."""

from collections.abc import Callable
from dataclasses import replace

from rlplan.actions import launching, sweeping
from rlplan.actions.interrupts import Interrupts
from rlplan.actions.sweeping import Finished
from rlplan.api.book import Book
from rlplan.api.functions import function, which
from rlplan.api.sweep import Sweep
from rlplan.live.sweep_running import Began, followed
from rlplan.requests.request import StoredRequest
from rlplan.requests.running import LaunchRequest, ResumeRequest, RetryRequest, SweepRequest
from rlplan.wording.arguments import arguments_named

OF_SHELL = ("rehearse", "slurm", "sbatch", "dry_run", "wait", "print_for")  # in Python it runs, here and now


def _start(asked: SweepRequest) -> Sweep:
    plan, database = which(asked.plan, asked.db)
    return _run(sweeping.start, replace(asked, plan=plan, db=database))


def _go_on(asked: ResumeRequest | RetryRequest) -> Sweep:
    sweep, database = which(asked.sweep, asked.db)
    asked = replace(asked, sweep=sweep, db=database)
    if isinstance(asked, RetryRequest) and isinstance(asked.trial, str):
        asked = replace(asked, trial=[asked.trial])
    return _run(sweeping.go_on, asked)


def _launch(asked: LaunchRequest) -> Sweep:
    sweep, database = which(asked.sweep, asked.db)
    return _run(launching.launch, replace(asked, sweep=sweep, db=database))


def _run(drive: Callable[..., Finished], asked: StoredRequest) -> Sweep:
    heard: list[Interrupts] = []

    def listening(*, interrupts: Interrupts, began: Began) -> Finished:
        heard.append(interrupts)
        return drive(asked, interrupts=interrupts, began=began)

    with arguments_named():
        finished = followed(listening, asked.db)
    # Who asks for a stop from another process interrupts no script: that goes on with a sweep that was stopped.
    if finished.interrupted and any(each.requested for each in heard):
        raise KeyboardInterrupt(
            f"{finished.sweep} was stopped and its state is saved; go on with rlplan.resume({finished.sweep!r})"
        )
    return Sweep(Book(asked.db), finished.sweep)


run = function("run", SweepRequest, _start, OF_SHELL)
resume = function("resume", ResumeRequest, _go_on, OF_SHELL)
retry = function("retry", RetryRequest, _go_on, OF_SHELL)
launch = function("launch", LaunchRequest, _launch, OF_SHELL)
