"""What `rlplan adopt` does: runs that exist become trials of a sweep, and their steps prices."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from budgets import catalogue
from budgets.coefficients import prior
from budgets.errors import BudgetError, InputError, MissingFileError
from planner.adopting.configuration import configuration_of
from planner.adopting.records import read_run, timed
from planner.adopting.settings import SETTINGS, facts_of
from planner.adopting.together import ComparableRuns, Entry, compare_runs, missing_flags
from planner.axes import LEARNING_RATE, RECIPE, value_of
from planner.config import Resolved, build_request
from planner.config.layers import DEFAULT
from planner.config.trainer import BUILTIN
from planner.proposals import Request
from planner.store import Store, open_store
from planner.store.schema import Candidate, CostRecord, SweepStatus
from rlplan.actions.adopted_costs import cost_rows, times_their_price
from rlplan.actions.adopted_rows import (
    calibrated,
    open_candidates,
    plan_row,
    require_runnable,
    store_costs,
    store_sweep,
)
from rlplan.actions.configuring import load_configuration
from rlplan.actions.sweep_request import own_folder
from rlplan.requests.foreign import AdoptRequest
from rlplan.wording.answers import Answer
from rlplan.wording.documents import AxisValues, Key, plain
from rlplan.wording.numbers import plural
from rlplan.wording.row_columns import Columns
from rlplan.wording.terminal import tell
from runner.sweep.planning import SweepChoice

Priced = tuple[Entry, list[CostRecord]]  # a run, and what its steps took
FINAL_RUN = 4.0  # times the longest run's GPU-hours: the final run, where neither it nor a budget is given
_OF_WORKLOAD = ("workload.", "validation.problems", "validation.samples")  # what a file may know better than a log
PILOT_SHARE = 0.2  # of a budget, unless the runs have taken more


@dataclass(frozen=True, slots=True)
class AdoptedRun:
    """A run as it was read, the name of its trial, and the flags that must say what could not be read."""

    entry: Entry = field(repr=False)
    trial: str | None
    missing: tuple[str, ...]

    run = Key[str](lambda each: str(each.entry.run.path))
    trainer = Key[str | None]("entry.run.trainer")
    rollouts_per_prompt = Key[int | None]("entry.settings.rollouts_per_prompt")
    prompts_per_batch = Key[int | None]("entry.settings.prompts_per_batch")
    learning_rate = Key[float | None]("entry.settings.learning_rate")
    recipe = Key[str | None]("entry.settings.recipe")
    axes = Key[AxisValues](lambda each: dict(each.entry.axes))
    seed = Key[int | None]("entry.seed")
    model = Key[str | None]("entry.settings.model")
    gpus = Key[int | None]("entry.settings.gpus")
    update_steps = Key[int]("entry.run.last_step")
    gpu_hours = Key[float]("entry.gpu_hours")
    score = Key[str | None]("entry.run.score", "the series that the scores are")
    why = Key[str | None]("entry.run.why", "why that is the score")
    others = Key[Sequence[str]]("entry.run.others")
    points = Key[int](lambda each: len(each.entry.run.scores))
    first_score = Key[float | None](lambda each: (s := each.entry.run.scores or None) and s[0].score)
    last_score = Key[float | None](lambda each: (s := each.entry.run.scores or None) and s[-1].score)
    seconds_per_step = Key[Mapping[str, float]](lambda each: each.entry.run.phases())
    response_tokens = Key[float | None](lambda each: each.entry.run.typical("response_tokens"))
    notes = Key[Sequence[str]](lambda each: [*each.entry.run.notes, *each.entry.settings.notes])

    def flat(self) -> dict[str, Any]:
        """Return it as one row."""
        row = {"run": self.run, "trainer": self.trainer, **plain(self)}  # who it is comes first
        flat = {name: value for name, value in row.items() if not isinstance(value, dict | list)}
        flat |= {f"axis_{name}": value for name, value in row["axes"].items()}
        flat |= {f"seconds_{name}": value for name, value in row["seconds_per_step"].items()}
        return flat | {name: "; ".join(row[name]) for name in ("missing", "notes")}


@dataclass(frozen=True, repr=False)
class Adopted(Answer):
    """What became of some runs; without a sweep only what was read, or prices."""

    DRAWN = "rlplan.answers.adopt"
    TOLD = "notes"

    entries: tuple[Entry, ...] = field(repr=False)
    trials: tuple[str | None, ...] = field(repr=False)  # the name of each run's trial
    missing: dict[Path, list[str]] = field(repr=False)  # by run, the flags that must say what could not be read
    notes: tuple[str, ...]
    plan: str | None = None
    sweep: str | None = None
    prices: int = 0  # of runs whose seconds are stored
    times_price: float | None = None  # that their steps took, by what was known before; None where no log times steps

    runs = Key[Sequence[AdoptedRun]]("rows")

    @property
    def rows(self) -> list[AdoptedRun]:
        """The runs."""
        return [
            AdoptedRun(entry, trial, tuple(self.missing.get(entry.run.path, ())))
            for entry, trial in zip(self.entries, self.trials, strict=True)
        ]

    def table(self) -> tuple[Columns, list[dict[str, Any]]]:
        """Return a flat row for each run, with a column for each axis and phase that one of them has."""
        rows = [run.flat() for run in self.rows]
        return tuple(dict.fromkeys(name for row in rows for name in row)), rows


@dataclass(frozen=True, slots=True)
class Money:
    """What the runs have taken, and what there is besides."""

    pilot_gpu_hours: float
    final_gpu_hours: float
    spent: float

    @property
    def goes_on(self) -> bool:
        """Whether something is left for further pilots."""
        return self.pilot_gpu_hours > self.spent * (1 + 1e-9)


def adopt(asked: AdoptRequest) -> Adopted:
    """Read runs, have those that compare become finished trials of a sweep, and store what their steps took."""
    runs, settings = [Path(each) for each in _listed(asked.runs)], asked.settings and Path(asked.settings)
    request = replace(asked, runs=runs, score=_listed(asked.score), settings=settings)
    if not request.runs:
        raise InputError("no run is given: give the folder of one, or its log")
    by_place = {path.resolve(): path for path in reversed(runs)}
    distinct = sorted(by_place.values(), key=runs.index)
    if repeated := len(runs) - len(distinct):  # one run is no two seeds
        tell(f"note: {plural(repeated, 'run')} given more than once, and read once")
    entries = [_entry(path, request) for path in distinct]
    if request.dry_run and (missing := missing_flags(entries)):
        return Adopted(tuple(entries), (None,) * len(entries), missing, ())
    found = compare_runs(entries, same_scores=bool(request.score))
    if request.dry_run:
        return Adopted(found.entries, (None,) * len(entries), {}, found.notes)
    return _store(request, found)


def _listed(given: Any) -> list[Any]:
    return [given] if isinstance(given, str | Path) else list(given or ())


def _entry(path: Path, request: AdoptRequest) -> Entry:
    if not path.exists():
        raise MissingFileError(f"no run '{path}': give its folder, or its log")
    run = read_run(path, request.score or ())
    if request.percent:
        steps = [replace(each, score=None if each.score is None else each.score / 100) for each in run.steps]
        run = replace(run, steps=tuple(steps))
    if request.seconds_per_step is not None:
        run = timed(run, request.seconds_per_step)
    found = configuration_of(path, request.settings, run.log)
    said = {"validation_samples": run.samples} | {
        name: each for name, each in vars(request).items() if each is not None
    }
    facts = facts_of(run.trainer, found, {name: said.get(name) for name in SETTINGS})
    return Entry(run, facts.settings, split=facts.split)


def _store(request: AdoptRequest, found: ComparableRuns) -> Adopted:
    """Store what the runs' steps took, and those with a curve as trials of a sweep."""
    entries, curves = found.entries, found.curves
    money = _money(request, curves) if curves else Money(1.0, 1.0, 1.0)
    resolved = _configuration(request, found, money)
    workload = build_request(resolved)
    priced = _priced(entries, workload, validations=request.validation_problems is not None)
    other_trainer = request.trainer or resolved.config.trainer.name != BUILTIN  # which has problems of its own
    trainable = bool(request.problems or other_trainer or resolved.config.workload.task)
    pilots = plan_row(workload, resolved, curves, money.pilot_gpu_hours, money.final_gpu_hours) if curves else None
    choice = _sweep_choice(request)
    if pilots is not None:
        require_runnable(*pilots, choice)  # before a database is made
    stored = Adopted(entries, (None,) * len(entries), {}, (), prices=sum(bool(costs) for _, costs in priced))
    with open_store(request.db) as store:
        if pilots is not None:
            plan, candidates = pilots
            if goes_on := money.goes_on and trainable:
                candidates += _open_candidates(store, workload, candidates, priced)
            ends = SweepStatus.INTERRUPTED if goes_on else SweepStatus.FINISHED
            scored = [each for each in priced if each[0].scored]
            plan_name, sweep, names = store_sweep(
                store, (plan, candidates), choice, scored, request.validation_problems, ends
            )
            given = iter(names)
            trials = tuple(next(given) if entry.scored else None for entry in entries)
            stored = replace(stored, plan=plan_name, sweep=sweep, trials=trials)
        with store.write() as session:
            for entry, costs in priced:
                if costs and not entry.scored:
                    store_costs(session, entry, costs)
    notes = (*found.notes, *_notes(entries, stuck=money.goes_on and not trainable))
    return replace(stored, notes=notes, times_price=_times_price(priced, workload))


def _sweep_choice(request: AdoptRequest) -> SweepChoice:
    return SweepChoice(
        problems=request.problems,
        model=request.checkpoint,
        reward=request.reward,
        validation=request.validation,
        trainer=request.trainer,
        folder=own_folder(request.folder, request.db),
    )


def _priced(entries: Sequence[Entry], workload: Request, *, validations: bool) -> list[Priced]:
    """Return each run with what its steps took; of another model than the first, nothing."""
    now, model = datetime.now(UTC), entries[0].settings.model
    return [
        (each, cost_rows(each, workload, now, validations=validations) if each.settings.model == model else [])
        for each in entries
    ]


def _open_candidates(
    store: Store, workload: Request, taken: Sequence[Candidate], priced: Sequence[Priced]
) -> list[Candidate]:
    """Return what the sweep may try besides, at the prices that are known with those of the runs."""
    known = store.cost_records(gpu=workload.hardware.gpu.name, model=workload.workload.model.name)
    return open_candidates(calibrated(workload, [*known, *_records(priced)]), taken)


def _notes(entries: Sequence[Entry], *, stuck: bool) -> Iterator[str]:
    """Yield what to mind; the sweep is stuck where money is left and nothing says what to train."""
    first = entries[0]
    if others := [each.run.path.name for each in entries if each.settings.model != first.settings.model]:
        yield f"{', '.join(others)}: of another model than {first.run.path.name}, adopt them by themselves"
    if unscored := [each.run.path.name for each in entries if not each.scored]:
        yield f"{', '.join(unscored)}: not validated after an update, so only what their steps took is stored"
    if stuck:
        yield (
            "nothing says what further trials would be trained on: with --problems and --checkpoint, or with "
            "--trainer, the sweep could go on"
        )


def _records(priced: Sequence[Priced]) -> list[CostRecord]:
    return [record for _, costs in priced for record in costs]


def _times_price(priced: Sequence[Priced], request: Request) -> float | None:
    """Return how many times their price steps took, by the prior of who trained them where that is one trainer."""
    trainers = {entry.run.trainer for entry, costs in priced if costs}
    known = prior(request.hardware.gpu, trainers.pop()) if len(trainers) == 1 else request.coefficients
    return times_their_price(_records(priced), request, known)


def _money(request: AdoptRequest, curves: Sequence[Entry]) -> Money:
    """Return how the budget is split: the runs have spent a part, the final run has the target, pilots the rest."""
    took = [entry.gpu_hours for entry in curves]
    spent, budget, target = math.fsum(took), request.budget, request.target
    if target is None:
        target = FINAL_RUN * max(took) if budget is None else budget - max(spent, PILOT_SHARE * budget)
    if budget is not None and (target <= 0 or spent + target > budget * (1 + 1e-9)):
        wanted = f" and a final run of {request.target:.4g}" if request.target else ""
        raise BudgetError(
            f"a budget of {budget:.4g} GPU-hours does not hold the {spent:.4g} of the adopted runs{wanted}: give "
            f"--budget {math.ceil(1.2 * (spent + max(target, *took))):,} or more, or leave it out"
        )
    return Money(spent if budget is None else budget - target, target, spent)


def _configuration(request: AdoptRequest, found: ComparableRuns, money: Money) -> Resolved:
    """Return the configuration of the plan: what was read of the runs, where the user's file does not say otherwise."""
    entries = found.curves or found.entries
    first, own = entries[0].settings, load_configuration(request.config)
    # The mean score before training says how hard the problems are.
    base = [s.score for e in entries for s in e.run.scores[:1] if s.step == 0 and s.score is not None]
    gaps = [after.step - before.step for e in entries for before, after in pairwise(e.run.scores)]
    values: dict[str, Any] = {
        "budget.gpu_hours": money.pilot_gpu_hours + money.final_gpu_hours,
        "pilot.fraction": money.pilot_gpu_hours / (money.pilot_gpu_hours + money.final_gpu_hours),
        "workload.model": None if _is_set(own, "workload.model") else catalogue.model_named(str(first.model)),
        "workload.pass_rate": min(0.99, max(0.01, statistics.fmean(base))) if base else None,
        "hardware.gpu": request.gpu,
        "hardware.gpus": (gpus := max(entry.settings.gpus or 1 for entry in entries)),
        "hardware.gpus_per_trial": gpus,
        "workload.response_tokens": first.response_tokens,
        "workload.mean_response_tokens": _mean_of(entries, "response_tokens", first.response_tokens),
        "workload.prompt_tokens": _mean_of(entries, "prompt_tokens", None),
        "recipe.learning_rate": first.learning_rate,
        "recipe.learning_rate_rollouts": math.prod(entries[0].allocation),
        "validation.problems": request.validation_problems,
        "validation.samples": first.validation_samples,
        "validation.every_steps": max(1, round(statistics.median(gaps))) if gaps else None,
    }
    recipes = list(dict.fromkeys(str(r) for e in entries if (r := value_of(e.axes, RECIPE)) is not None))
    factors = list(dict.fromkeys(float(r) for e in entries if (r := value_of(e.axes, LEARNING_RATE)) is not None))
    values |= {"axes.recipes": recipes} if recipes else {"recipe.name": first.recipe}
    values |= {"axes.learning_rates": factors} if factors else {}
    values = {key: value for key, value in values.items() if not (key.startswith(_OF_WORKLOAD) and _is_set(own, key))}
    flags = {key: (f"the adopted runs ({key})", value) for key, value in values.items() if value is not None}
    resolved = load_configuration(request.config, None, flags)
    if resolved.source("hardware.gpu") == DEFAULT:
        raise InputError(
            f"no log says which GPU it ran on: give --gpu, such as {', '.join(catalogue.names('gpus')[:4])}"
        )
    return resolved


def _is_set(resolved: Resolved, key: str) -> bool:
    """Whether the user's file, or the task that it names, says what a key is; of pass rates there are several ways."""
    ways = (key, "workload.pass_rates_file", "workload.difficulty") if key == "workload.pass_rate" else (key,)
    return any(resolved.source(way) != DEFAULT for way in ways)


def _mean_of(entries: Sequence[Entry], value: str, most: int | None) -> float | None:
    means = [mean for entry in entries if (mean := entry.run.typical(value)) is not None and mean > 0]
    if not means:
        return None
    return statistics.median(means) if most is None else min(statistics.median(means), 0.95 * most)
