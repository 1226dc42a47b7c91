"""Runs sweeps from Python: what `rlplan sweep`, `resume` and `retry` do."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlplan.actions.interrupts import Interrupts
from rlplan.api.book import Book
from rlplan.api.plan import Plan
from rlplan.api.sweep import Sweep
from rlplan.live.sweep_running import Began, followed
from rlplan.wording.arguments import arguments_named
from rlplan.wording.formats import database_at

if TYPE_CHECKING:
    from rlplan.actions.sweeping import Finished


def run(
    plan: Plan | str | None = None,
    *,
    task: str | None = None,
    budget: float | None = None,
    recipes: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    pilot_fraction: float | None = None,
    pilot_gpus: int | None = None,
    config: str | Path | None = None,
    policy: str = "rlplan",
    search: str | None = None,
    seed: int = 0,
    workers: int | None = None,
    ray_address: str | None = None,
    folder: str | Path | None = None,
    storage: str | None = None,
    learn_from: Sequence[str] | None = None,
    retries: int = 3,
    problems: str | Path | None = None,
    model: str | Path | None = None,
    reward: str | None = None,
    validation: str | Path | None = None,
    engine: str | None = None,
    device: str | None = None,
    weights: str | None = None,
    micro_batch_tokens: int | None = None,
    trainer: str | Path | None = None,
    approximate: bool = False,
    script: str | Path | None = None,
    db: str | Path | None = None,
) -> Sweep:
    """Run the pilots of a plan, and return the sweep when it has ended; its progress goes to stderr.

    An interrupt (Ctrl-C, or the notebook's stop button) lets each trial end the update under way, saves the state and
    raises KeyboardInterrupt; `rlplan.resume()` goes on. Trials that fail do not raise: `sweep.trials()` shows them.

    Args:
        plan: A plan or the name of one that is stored; by default the newest, or one that is made for what is given.
        task: Propose for an embedded task on this machine's CPU first, then run that.
        budget: Propose for these GPU-hours first, then run that.
        recipes: Recipes to compare with each other.
        models: Base models to compare with each other.
        pilot_fraction: Share of the budget for pilots.
        pilot_gpus: How many GPUs a pilot gets.
        config: A configuration file; ./rlplan.toml is read without this.
        policy: What decides: rlplan, full, random, median, asha or hyperband.
        search: Which of Optuna's samplers names cells without a pilot: tpe, gp, qmc or none.
        seed: Decides every random number.
        workers: Trials that run at once; as many as the plan's hardware holds.
        ray_address: A Ray cluster; this machine without it.
        folder: Checkpoints and logs; on a cluster, shared storage.
        storage: A URL at which a copy of each trial is kept, such as s3://bucket/path.
        learn_from: Recorded runs, experience, a database or sweeps of related work; "none" for none. By default what
            the plan names.
        retries: Times in a row that a lost trial is tried again.
        problems: Problems of your own: JSONL of {prompt, answer}.
        model: A local Hugging Face checkpoint, for your own problems.
        reward: What scores your own problems: math, exact or package.module:name.
        validation: JSONL of validation problems; else some are held out.
        engine: What generates the responses: torch or vllm.
        device: Where it runs: cpu or cuda.
        weights: Format in forward passes: float32 or bfloat16.
        micro_batch_tokens: Tokens of one forward and backward pass.
        trainer: Whose trainer runs the trials: builtin, trl, standin, or a TOML file that describes your own.
        approximate: Let that trainer do a recipe as nearly as it can where it cannot do it exactly.
        script: What starts verl already: what the plan leaves open is kept.
        db: The results database; by default that of the plan, else RLPLAN_DB, else rlplan.db.

    Raises:
        InputError: What is given is not allowed, or does not fit this machine.
        KeyboardInterrupt: It was interrupted; its state is saved.
    """
    asked = dict(locals())
    from rlplan.actions.sweep_request import SweepRequest  # noqa: PLC0415 (takes a second to import)
    from rlplan.actions.sweeping import start  # noqa: PLC0415

    database = plan.database if isinstance(plan, Plan) and db is None else database_at(db)
    with arguments_named():
        request = SweepRequest.of(asked | {"plan": plan.name if isinstance(plan, Plan) else plan})
    return _run(database, partial(start, request, database))


def resume(
    sweep: Sweep | str | None = None,
    *,
    accept_changes: bool = False,
    folder: str | Path | None = None,
    ray_address: str | None = None,
    workers: int | None = None,
    db: str | Path | None = None,
) -> Sweep:
    """Go on with a sweep after any interruption, by default the newest, and return it when it has ended.

    Args:
        sweep: A sweep, or the name of one.
        accept_changes: Go on although the code or the settings are not what they were.
        folder: Where the sweep's folder lies, if it was moved.
        ray_address: A Ray cluster; this machine without it.
        workers: Trials that run at once, if not as many as before.
        db: The results database; by default that of the sweep, else RLPLAN_DB, else rlplan.db.

    Raises:
        NotFoundError: There is no such sweep, or nothing is left to do.
        KeyboardInterrupt: It was interrupted; its state is saved.
    """
    from rlplan.actions.sweeping import resume as go_on  # noqa: PLC0415 (takes a second to import)

    name, database = _which(sweep, db)
    changes: dict[str, Any] = {"accept_changes": accept_changes, "folder": folder, "ray_address": ray_address}
    return _run(database, partial(go_on, name, database, workers=workers, **changes))


def retry(
    sweep: Sweep | str | None = None,
    *,
    trials: Sequence[str] = (),
    accept_changes: bool = False,
    folder: str | Path | None = None,
    ray_address: str | None = None,
    workers: int | None = None,
    db: str | Path | None = None,
) -> Sweep:
    """Run a sweep's failed trials again, all or those that are named, and go on with the rest.

    Args:
        sweep: A sweep, or the name of one; by default the newest.
        trials: Names of failed trials; all of them without it.
        accept_changes: Go on although the code or the settings are not what they were.
        folder: Where the sweep's folder lies, if it was moved.
        ray_address: A Ray cluster; this machine without it.
        workers: Trials that run at once, if not as many as before.
        db: The results database; by default that of the sweep, else RLPLAN_DB, else rlplan.db.

    Raises:
        NotFoundError: There is no such sweep, or no trial of it has failed.
        KeyboardInterrupt: It was interrupted; its state is saved.
    """
    from rlplan.actions.sweeping import retry as again  # noqa: PLC0415 (takes a second to import)

    name, database = _which(sweep, db)
    failed = [trials] if isinstance(trials, str) else tuple(trials)
    changes: dict[str, Any] = {"accept_changes": accept_changes, "folder": folder, "ray_address": ray_address}
    return _run(database, partial(again, name, database, trials=failed, workers=workers, **changes))


def _run(database: str, drive: "Callable[..., Finished]") -> Sweep:
    heard: list[Interrupts] = []

    def listening(*, interrupts: Interrupts, began: Began) -> "Finished":
        heard.append(interrupts)
        return drive(interrupts=interrupts, began=began)

    with arguments_named():
        finished = followed(listening, database)
    # Who asks for a stop from another process interrupts no script: that goes on with a sweep that was stopped.
    if finished.interrupted and any(each.requested for each in heard):
        raise KeyboardInterrupt(
            f"{finished.sweep} was stopped and its state is saved; go on with rlplan.resume({finished.sweep!r})"
        )
    return Sweep(Book(database), finished.sweep)


def _which(sweep: Sweep | str | None, db: str | Path | None) -> tuple[str | None, str]:
    if isinstance(sweep, Sweep):
        return sweep.name, sweep.database if db is None else database_at(db)
    return sweep, database_at(db)
