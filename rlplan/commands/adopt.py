"""`rlplan adopt`: takes runs that exist as finished trials of a sweep, and says what was read of each."""

import math
import shlex
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from budgets import catalogue
from budgets.coefficients import prior
from budgets.errors import BudgetError, InputError, MissingFileError
from planner.axes import LEARNING_RATE, RECIPE, format_axes, value_of
from planner.config import Resolved, build_request
from planner.config.layers import DEFAULT, with_base_rate
from planner.config.trainer import BUILTIN
from planner.scripts.configuration import configuration_of
from planner.scripts.differences import ComparableRuns, Entry, compare_runs, missing_flags
from planner.scripts.facts import facts_of, of_columns
from planner.scripts.records import read_run, timed
from planner.scripts.settings import SETTINGS
from planner.store import open_store
from planner.store.schema import SweepStatus
from rlplan.actions.configuration import load_configuration
from rlplan.actions.runs_plan import (
    cost_rows,
    open_candidates,
    plan_row,
    spec_of,
    store_costs,
    store_sweep,
    times_their_price,
)
from rlplan.actions.sweep_request import own_folder
from rlplan.requests.logs import AdoptRequest
from rlplan.wording.answers import Answer, AxisValues, Columns, Key
from rlplan.wording.numbers import hours, plural, rate
from rlplan.wording.screen import ROWS, Canvas, Cells, Column, Invocation, NextStep, Part, next_steps, table_of, tell
from runner.sweep.plan import SweepChoice

FINAL_RUN = 4.0  # times the longest run's GPU-hours: the final run, where neither it nor a budget is given
_OF_WORKLOAD = ("workload.", "validation.problems", "validation.samples")  # what a file may know better than a log
PILOT_SHARE = 0.2  # of a budget, unless the runs have taken more


@dataclass(frozen=True, slots=True)
class AdoptedRun:
    """A run as it was read, the name of its trial, and the flags that must say what could not be read."""

    entry: Entry = field(repr=False)
    trial: str | None = None

    missing = Key[Sequence[str]](lambda run: run.entry.settings.missing())
    run = Key[str](lambda run: str(run.entry.run.path))
    trainer = Key[str | None]("entry.run.trainer")
    rollouts_per_prompt = Key[int | None]("entry.settings.rollouts_per_prompt")
    prompts_per_batch = Key[int | None]("entry.settings.prompts_per_batch")
    learning_rate = Key[float | None]("entry.settings.learning_rate")
    recipe = Key[str | None]("entry.settings.recipe")
    axes = Key[AxisValues](lambda run: dict(run.entry.axes))
    seed = Key[int | None]("entry.seed")
    model = Key[str | None]("entry.settings.model")
    gpus = Key[int | None]("entry.settings.gpus")
    update_steps = Key[int]("entry.run.last_step")
    gpu_hours = Key[float]("entry.gpu_hours")
    score = Key[str | None]("entry.run.score", "the series that the scores are")
    why = Key[str | None]("entry.run.why", "why that is the score")
    others = Key[Sequence[str]]("entry.run.others")
    points = Key[int](lambda run: len(run.entry.run.scores))
    first_score = Key[float | None](lambda run: run.entry.run.scores[0].score if run.entry.run.scores else None)
    last_score = Key[float | None](lambda run: run.entry.run.scores[-1].score if run.entry.run.scores else None)
    seconds_per_step = Key[Mapping[str, float]](lambda run: run.entry.run.phases())
    response_tokens = Key[float | None](lambda run: run.entry.run.typical("response_tokens"))
    notes = Key[Sequence[str]](lambda run: [*run.entry.run.notes, *run.entry.settings.notes])


@dataclass(frozen=True, repr=False)
class Adopted(Answer):
    """What became of some runs; without a sweep only what was read, or prices."""

    TOLD = "notes"

    notes: tuple[str, ...] = ()
    plan: str | None = None
    sweep: str | None = None
    prices: int = 0  # of runs whose seconds are stored
    times_price: float | None = None  # that their steps took, by what was known before; None where no log times steps
    runs: tuple[AdoptedRun, ...] = ()

    def table(self) -> tuple[Columns, list[dict[str, Any]]]:
        """Return a flat row for each run, with a column for each axis and phase that one of them has."""
        rows = []
        for run in self["runs"]:
            row = {"run": run["run"], "trainer": run["trainer"]}  # who it is comes first
            row |= {name: value for name, value in run.items() if not isinstance(value, dict | list)}
            row |= {f"axis_{name}": value for name, value in run["axes"].items()}
            row |= {f"seconds_{name}": took for name, took in run["seconds_per_step"].items()}
            rows.append(row | {name: "; ".join(run[name]) for name in ("missing", "notes")})
        return tuple(dict.fromkeys(name for row in rows for name in row)), rows

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw the runs as they were read, and what became of them."""
        runs, in_full = self.runs, invocation.explain
        yield from canvas.lines(_summary(self), "bold")
        yield ""
        alike = Counter(run.entry.run.path.name for run in runs)
        # With where it is, if others are called so too.
        names = {
            path: path.name if alike[path.name] == 1 else str(path) for path in (run.entry.run.path for run in runs)
        }
        shown = runs if in_full else runs[:ROWS]
        yield table_of(shown, _columns(self, names, in_full=in_full), canvas)
        if hidden := len(runs) - len(shown):
            yield canvas.line(f"{plural(hidden, 'run')} not shown", "dim")
        lacking = [
            f"{names[run.entry.run.path]}: not read, so give {', '.join(run.missing)}." for run in runs if run.missing
        ]
        for text in lacking if in_full else lacking[:SHOWN_LINES]:
            yield from canvas.lines(text)
        yield from next_steps([*_steps(self, invocation)], canvas)


def adopt(request: AdoptRequest) -> Adopted:
    """Read runs, have those that compare become finished trials of a sweep, and store what their steps took."""
    runs, scores = _listed(request.runs), _listed(request.score)
    if not runs:
        raise InputError("no run is given: give the folder of one, or its log")
    by_place: dict[Path, Path] = {}
    for path in map(Path, runs):
        by_place.setdefault(path.resolve(), path)
    if repeated := len(runs) - len(by_place):  # one run is no two seeds
        tell(f"note: {plural(repeated, 'run')} given more than once, and read once")
    entries = [_entry(path, request, scores) for path in by_place.values()]
    if request.dry_run and missing_flags(entries):
        return Adopted(runs=tuple(map(AdoptedRun, entries)))
    compared = compare_runs(entries, same_scores=bool(scores))
    if request.dry_run:
        return Adopted(compared.notes, runs=tuple(map(AdoptedRun, compared.entries)))
    return _store(request, compared)


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, str | Path) else list(value or ())


def _entry(path: Path, request: AdoptRequest, scores: Sequence[str]) -> Entry:
    """Read the log and the settings of a run; flags say what they do not."""
    if not path.exists():
        raise MissingFileError(f"no run '{path}': give its folder, or its log")
    run = read_run(path, scores)
    if request.percent:
        steps = [replace(step, score=None if step.score is None else step.score / 100) for step in run.steps]
        run = replace(run, steps=tuple(steps))
    if request.seconds_per_step is not None:
        run = timed(run, request.seconds_per_step)
    written = configuration_of(path, request.settings and Path(request.settings), run.log)
    trainer, configuration = of_columns(run.trainer, run.constants, written)
    flags = {name: getattr(request, name, None) for name in SETTINGS}
    if flags["validation_samples"] is None:
        flags["validation_samples"] = run.samples
    facts = facts_of(trainer, configuration, flags)
    return Entry(run, facts.settings, split=facts.split)


def _store(request: AdoptRequest, compared: ComparableRuns) -> Adopted:
    """Store what the runs' steps took, and those with a curve as trials of a sweep."""
    entries, curves = compared.entries, compared.curves
    pilot, final = _budget_split(request, curves) if curves else (1.0, 1.0)
    resolved = _configuration(request, compared, pilot, final)
    workload = build_request(resolved)
    now, model, validated = datetime.now(UTC), entries[0].settings.model, request.validation_problems is not None
    alike = [entry for entry in entries if entry.settings.model == model]
    costs = {entry.run.path: cost_rows(entry, workload, now, validations=validated) for entry in alike}
    records = [record for rows in costs.values() for record in rows]
    other_trainer = request.trainer or resolved.config.trainer.name != BUILTIN  # which has problems of its own
    trainable = bool(request.problems or other_trainer or resolved.config.workload.task)
    money_left = bool(curves) and pilot > math.fsum(entry.gpu_hours for entry in curves) * (1 + 1e-9)
    folder = own_folder(request.folder, request.db)
    same = {name: getattr(request, name) for name in ("problems", "reward", "validation", "trainer")}
    choice = SweepChoice(model=request.checkpoint, folder=folder, **same)
    plan, plan_name, sweep, trials = None, None, None, dict[Path, str]()
    if curves:
        plan = plan_row(workload, resolved, curves, pilot, final)
        plan.name = "the plan"
        spec_of(plan, choice)  # refuses a plan of which no sweep can be stored, before a database is made
    with open_store(request.db) as store:
        if plan is not None:
            if goes_on := money_left and trainable:
                plan.candidates += open_candidates(store, workload, plan.candidates, records)
            ends = SweepStatus.INTERRUPTED if goes_on else SweepStatus.FINISHED
            plan_name, sweep, trials = store_sweep(
                store, plan, choice, curves, costs, request.validation_problems, ends
            )
        with store.write() as session:
            for entry in alike:
                if costs[entry.run.path] and not entry.scored:
                    store_costs(session, entry, costs[entry.run.path])
    # What was coefficients before: the prior of who trained the runs, where that is one trainer.
    trainers = {entry.run.trainer for entry in alike if costs[entry.run.path]}
    coefficients = prior(workload.hardware.gpu, trainers.pop()) if len(trainers) == 1 else workload.coefficients
    return Adopted(
        notes=(*compared.notes, *_notes(entries, stuck=money_left and not trainable)),
        plan=plan_name,
        sweep=sweep,
        prices=sum(map(bool, costs.values())),
        times_price=times_their_price(records, workload, coefficients),
        runs=tuple(AdoptedRun(entry, trials.get(entry.run.path)) for entry in entries),
    )


def _notes(entries: Sequence[Entry], *, stuck: bool) -> Iterator[str]:
    """Yield what to mind; the sweep is stuck where money is left and nothing says what to train."""
    first = entries[0]
    if others := [entry.run.path.name for entry in entries if entry.settings.model != first.settings.model]:
        yield f"{', '.join(others)}: of another model than {first.run.path.name}, adopt them by themselves"
    if unscored := [entry.run.path.name for entry in entries if not entry.scored]:
        yield f"{', '.join(unscored)}: not validated after an update, so only what their steps took is stored"
    if stuck:
        yield (
            "nothing says what further trials would be trained on: with --problems and --checkpoint, or with "
            "--trainer, the sweep could go on"
        )


def _budget_split(request: AdoptRequest, curves: Sequence[Entry]) -> tuple[float, float]:
    """Return the GPU-hours of pilots, of which the runs have spent a part, and of the final run."""
    hours = [entry.gpu_hours for entry in curves]
    spent, budget, target = math.fsum(hours), request.budget, request.target
    if target is None:
        target = FINAL_RUN * max(hours) if budget is None else budget - max(spent, PILOT_SHARE * budget)
    if budget is not None and (target <= 0 or spent + target > budget * (1 + 1e-9)):
        final = f" and a final run of {request.target:.4g}" if request.target else ""
        raise BudgetError(
            f"a budget of {budget:.4g} GPU-hours does not hold the {spent:.4g} of the adopted runs{final}: give "
            f"--budget {math.ceil(1.2 * (spent + max(target, *hours))):,} or more, or leave it out"
        )
    return spent if budget is None else budget - target, target


def _configuration(request: AdoptRequest, compared: ComparableRuns, pilot: float, final: float) -> Resolved:
    """Return the configuration of the plan: what was read of the runs, where the user's file does not say otherwise."""
    own = load_configuration(request.config)
    values = _read_values(request, compared.curves or compared.entries)
    values |= {"budget.gpu_hours": pilot + final, "pilot.fraction": pilot / (pilot + final)}
    for key in [key for key in values if key.startswith(_OF_WORKLOAD) and own.source(key) != DEFAULT]:
        values[key] = None
    if model := values["workload.model"]:
        values["workload.model"] = catalogue.model_named(str(model))
    flags = {key: (f"the adopted runs ({key})", value) for key, value in values.items() if value is not None}
    resolved = load_configuration(request.config, None, flags)
    if resolved.source("hardware.gpu") == DEFAULT:
        raise InputError(
            f"no log says which GPU it ran on: give --gpu, such as {', '.join(catalogue.names('gpus')[:4])}"
        )
    # The mean score before training says how hard the problems are.
    base = [score for entry in compared.curves or compared.entries if (score := entry.run.base_score) is not None]
    return with_base_rate(resolved, statistics.fmean(base) if base else None, "the adopted runs (workload.pass_rate)")


def _read_values(request: AdoptRequest, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return what the runs say by key of the configuration, None where they say nothing."""
    first, gpus = entries[0].settings, max(entry.settings.gpus or 1 for entry in entries)
    gaps = [after.step - before.step for e in entries for before, after in pairwise(e.run.scores)]
    responses, prompts = (
        [mean for entry in entries if (mean := entry.run.typical(name) or 0.0) > 0]
        for name in ("response_tokens", "prompt_tokens")
    )
    longest = 0.95 * (first.response_tokens or math.inf)
    recipes = list(dict.fromkeys(str(r) for e in entries if (r := value_of(e.axes, RECIPE)) is not None))
    factors = list(dict.fromkeys(float(r) for e in entries if (r := value_of(e.axes, LEARNING_RATE)) is not None))
    return {
        "workload.model": first.model,
        "hardware.gpu": request.gpu,
        "hardware.gpus": gpus,
        "hardware.gpus_per_trial": gpus,
        "workload.response_tokens": first.response_tokens,
        "workload.mean_response_tokens": min(statistics.median(responses), longest) if responses else None,
        "workload.prompt_tokens": statistics.median(prompts) if prompts else None,
        "recipe.learning_rate": first.learning_rate,
        "recipe.learning_rate_rollouts": math.prod(entries[0].allocation),
        "validation.problems": request.validation_problems,
        "validation.samples": first.validation_samples,
        "validation.every_steps": max(1, round(statistics.median(gaps))) if gaps else None,
        "axes.recipes": recipes or None,
        "recipe.name": None if recipes else first.recipe,
        "axes.learning_rates": factors or None,
    }


SHOWN_LINES = 3  # of what is lacking and of what is odd, on the first screen


answer = adopt


def _columns(adopted: Adopted, names: Mapping[Path, str], *, in_full: bool) -> list[Column[AdoptedRun]]:
    varied = any(run.axes for run in adopted.runs)
    return [
        Column("run", lambda run: names[run.entry.run.path], Cells.PATHS),
        Column("trainer", lambda run: run.trainer or "-", Cells.NAMES),
        Column("n", lambda run: _or_ask(run.rollouts_per_prompt)),
        Column("B", lambda run: _or_ask(run.prompts_per_batch)),
        Column("lr", lambda run: "?" if run.learning_rate is None else rate(run.learning_rate)),
        Column("axes", lambda run: format_axes(run.entry.axes), Cells.NAMES, shown=varied),
        Column("GPUs", lambda run: _or_ask(run.gpus)),
        Column("steps", lambda run: f"{run.update_steps:,}"),
        Column("GPU-h", lambda run: "?" if run.gpus is None else hours(run.gpu_hours)),
        Column("scores", lambda run: run.points),
        Column("last", lambda run: "-" if run.last_score is None else f"{run.last_score:.3f}"),
        Column("score is", lambda run: run.score or "-", Cells.PATHS, shown=in_full, gives_way=True),
        Column("trial", lambda run: run.trial or "-", Cells.NAMES, shown=in_full and adopted.sweep is not None),
    ]


def _steps(adopted: Adopted, invocation: Invocation) -> Iterator[NextStep]:
    """Yield what can be typed next: the answer of a sweep, else what stores the runs or does without their settings."""
    if adopted.sweep is not None:
        yield invocation.step("recommend", adopted.sweep, "what to run, and how sure that is")
        yield invocation.step("rank", adopted.sweep, "all of them, ranked")
        return  # to explain them once more would store them once more
    if any(run.missing for run in adopted.runs):
        shown = adopted.runs if invocation.explain else adopted.runs[:ROWS]
        paths = shlex.join(["rlplan", "fit", *(run.run for run in shown)])
        yield NextStep(paths, "their curves, which need no settings")
    else:
        yield invocation.without("stores them", "--dry-run")
    if not invocation.explain:
        yield invocation.explained("which series are the scores")


def _summary(adopted: Adopted) -> str:
    """Say what became of the runs."""
    runs, priced = plural(len(adopted.runs), "run"), ""
    if adopted.prices:
        whose = "Its" if len(adopted.runs) == 1 else "Their"
        times = adopted.times_price
        priced = "" if times is None else f" {whose} steps took {times:.2g} times what they were priced at."
        priced += f" The steps of {plural(adopted.prices, 'run')} count for prices now."
    if adopted.sweep is None:
        return f"{runs} read.{priced}"
    trials = sum(run.trial is not None for run in adopted.runs)
    return f"{runs} read: {plural(trials, 'trial')} of {adopted.sweep}.{priced}"


def _or_ask(value: float | None) -> str:
    return "?" if value is None else f"{value:g}"
