"""A plan: what `rlplan propose` answers, as an object, made anew or read from a database."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, astuple, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from planner.axes import LEARNING_RATE, values_by_axis
from planner.metrics import Interval
from planner.store import schema as tables
from rlplan.reading.plan_data import STORED
from rlplan.wording.answers import Read, T, page_part
from rlplan.wording.arguments import arguments_named
from rlplan.wording.assumptions import Assumption
from rlplan.wording.formats import database_at
from rlplan.wording.frames import CANDIDATES, Frame, Library, make_frame
from rlplan.wording.numbers import UNKNOWN, hours, interval, steps

SHOWN = 12


@dataclass(frozen=True, slots=True)
class Candidate:
    """One allocation that could be run, priced and ranked."""

    rank: int
    rollouts_per_prompt: int
    prompts_per_batch: int
    update_steps: int  # of the final run
    pilot_steps: int  # 0 for none
    gpu_hours_per_step: float
    pilot_gpu_hours: float
    learning_rate: float
    epochs: float
    signal_fraction: float
    expected_score: Interval | None  # None in old plans, where no published study applied
    pilot_reason: str
    notes: tuple[str, ...]
    axes: tuple[tuple[str, str | float], ...]  # what else tells it from others, such as ("recipe", "scalerl")


class Kept(Read[T]):
    """A property that a plan's document has under a key."""

    def __init__(self, key: str, doc: str) -> None:
        property.__init__(self, lambda plan: plan.document[key], doc=doc)


@dataclass(frozen=True, eq=False)
class Plan:
    """A budget's allocations, priced and ranked, and its split into pilots and final run; stored under `name`."""

    database: str = field(repr=False)  # a URL may hold a password
    document: Mapping[str, Any] = field(repr=False)
    notices: tuple[str, ...] = ()  # what was done to the database meanwhile, such as an upgrade

    name = Kept[str]("plan", "What it is stored under, such as 'plan-3'.")
    budget_gpu_hours = Kept[float]("budget_gpu_hours", "GPU-hours for pilots and final run together.")
    pilot_gpu_hours = Kept[float]("pilot_gpu_hours", "The part that buys evidence.")
    final_gpu_hours = Kept[float]("final_gpu_hours", "The part that is left for the final run.")
    recipe = Kept[str]("recipe", "The recipe's name, or those of all that are compared.")
    difficulty = Kept[str]("difficulty", "How hard the problems are for the base model.")

    @property
    def workload(self) -> dict[str, Any]:
        """What is trained, on what."""
        return dict(self.document["workload"])

    @property
    def hardware(self) -> dict[str, Any]:
        """What it runs on."""
        return dict(self.document["hardware"])

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every allocation, the best first."""
        return tuple(_candidate(each) for each in self.document["candidates"])

    @property
    def best(self) -> Candidate:
        """The first candidate: what one would run without any pilot."""
        return self.candidates[0]

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What was taken for granted, and where that comes from."""
        return tuple(Assumption(**each) for each in self.document["assumptions"])

    def frame(self, frame: Library | None = None) -> Frame:
        """Return a row for each candidate, as a frame."""
        return make_frame(CANDIDATES, map(_row, self.candidates), frame)

    def report(self, path: str | Path) -> Path:
        """Write the plan, with its split and its priced grid, into one HTML file, and return its path."""
        from rlplan.web.report import checked, save, stored_plan_report  # noqa: PLC0415 (jinja2)

        file = checked(Path(path))
        save(file, stored_plan_report(self.database, self.name))
        return file

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `rlplan propose --format json` prints.

        Of a plan that was read from a database it lacks what the database does not keep: how seconds and GPUs are
        shared out within a step, and what fewer GPUs a trial would bring.
        """
        return deepcopy(dict(self.document))

    def __repr__(self) -> str:
        best = self.best
        return (
            f"<Plan {self.name}: {hours(self.budget_gpu_hours)} GPU-hours, {len(self.candidates)} candidates, first "
            f"n={best.rollouts_per_prompt}, B={best.prompts_per_batch}, M={steps(best.update_steps)}>"
        )

    def _repr_html_(self) -> str:
        split = (
            f"{self.name}: {hours(self.budget_gpu_hours)} GPU-hours, of which {hours(self.pilot_gpu_hours)} for pilots "
            f"and {hours(self.final_gpu_hours)} for the final run"
        )
        headings = ("#", "n", "B", "M", "GPU-hours a step", "pilot steps", "expected score")
        rows = [
            (
                str(each.rank),
                str(each.rollouts_per_prompt),
                str(each.prompts_per_batch),
                steps(each.update_steps),
                f"{each.gpu_hours_per_step:.3g}",
                steps(each.pilot_steps),
                interval(*astuple(each.expected_score)) if each.expected_score else UNKNOWN,
            )
            for each in self.candidates[:SHOWN]
        ]
        return page_part(split, headings, rows, hidden=len(self.candidates) - len(rows))


def _candidate(data: Mapping[str, Any]) -> Candidate:
    own = {name: data[name] for name in Candidate.__dataclass_fields__ if name in data}
    score = data["expected_score"]
    return Candidate(
        **own
        | {
            "expected_score": None if score is None else Interval(**score),
            "notes": tuple(data["notes"]),
            "axes": tuple(data.get("axes", {}).items()),
        }
    )


def _row(candidate: Candidate) -> dict[str, Any]:
    row = asdict(candidate)
    score = row["expected_score"] or dict.fromkeys(("median", "low", "high"))
    return row | {
        "expected_score": score["median"],
        "score_low": score["low"],
        "score_high": score["high"],
        "notes": "; ".join(candidate.notes),
    }


def propose(
    budget: float | None = None,
    *,
    model: str | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    gpus_per_trial: int | None = None,
    within: str | None = None,
    response_tokens: int | None = None,
    mean_response_tokens: float | None = None,
    from_log: str | Path | None = None,
    script: str | Path | None = None,
    recipe: str | None = None,
    recipes: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    difficulty: str | None = None,
    pass_rate: float | None = None,
    pass_rates_file: str | Path | None = None,
    pilot_fraction: float | None = None,
    pilot_gpus: int | None = None,
    baseline: str | None = None,
    learn_from: Sequence[str] | None = None,
    task: str | None = None,
    config: str | Path | None = None,
    db: str | Path | None = None,
) -> Plan:
    """Price and rank every allocation for a budget of GPU-hours, split pilots and final run, and store the plan.

    The arguments are the flags of `rlplan propose`; what is left out is taken from `./rlplan.toml`, if there is one,
    and else from the defaults.

    Args:
        budget: GPU-hours for pilots and final run together.
        model: A model of the catalogue, or a path to a config.json.
        gpu: A GPU of the catalogue, or one that the configuration file describes.
        gpus: How many GPUs there are.
        gpus_per_trial: How many GPUs the final run gets; by default those on which it ends highest within a week.
        within: Wall time by whose end pilots and final run are to be done, such as "5d" or "36h".
        response_tokens: Most tokens of a response.
        mean_response_tokens: Mean tokens of a response, what a price depends on most.
        from_log: A trainer's log of such a run, whose mean response length counts.
        script: What starts a trainer: its workload counts where nothing else is said, and its n and B are the baseline.
        recipe: A recipe, such as grpo or scalerl, or a path to a .toml file.
        recipes: Recipes to compare with each other.
        models: Base models to compare with each other.
        difficulty: easy, medium, hard or mixed problems.
        pass_rate: Mean pass rate of the base model.
        pass_rates_file: A file with one pass rate per prompt.
        pilot_fraction: Share of the budget for pilots; 0 for a plan without any.
        pilot_gpus: How many GPUs a pilot gets; by default the fewest at nearly the best price.
        baseline: What you would choose otherwise, always rows: "n=8,B=64 or n=8,B=128" unless you say so.
        learn_from: Recorded runs, experience, a database or sweeps of related work, for the plan's sweep; "none" for
            none. By default finished sweeps of the same database that are alike.
        task: An embedded task, on this machine's CPU.
        config: A configuration file.
        db: The results database: a path, or an SQLAlchemy URL; by default RLPLAN_DB, else rlplan.db.

    Returns:
        The plan, with the name that it is stored under.

    Raises:
        InputError: What is given is not allowed, not known, or does not fit the hardware.
        BudgetError: The GPU-hours do not suffice for a comparison.

    Example:
        >>> plan = rlplan.propose(budget=5000, model="qwen3-8b", gpu="h100", gpus=64)
        >>> plan.name
        'plan-1'
        >>> plan.pilot_gpu_hours + plan.final_gpu_hours <= 5000
        True
    """
    asked = dict(locals())
    from rlplan.actions.proposing import asked_configuration, make_plan  # noqa: PLC0415
    from rlplan.reading.plan_data import plan_data  # noqa: PLC0415 (half the time that a cold import takes)

    database = database_at(db)
    with arguments_named():
        stored = make_plan(asked_configuration(asked), database, learn_from=learn_from)
    document = plan_data(stored.name, stored.proposal, stored.assumptions, stored.dollars)
    return Plan(database, document, tuple(stored.notices))


_SHARED = ("budget_gpu_hours", "pilot_gpu_hours", "final_gpu_hours", "workload", "hardware", "recipe", "difficulty")
_PLAIN = (
    *STORED,
    "gpu_hours_per_step_low",
    "gpu_hours_per_step_high",
    "segment_steps",
    "pilot_reason",
)


def stored_document(plan: tables.Plan) -> dict[str, Any]:
    """Return what the database keeps of a plan, named as `rlplan propose --format json` names it."""
    axes: dict[str, Any] = dict(values_by_axis(each.axes for each in plan.candidates))
    if between := (plan.config.get("axes") or {}).get("learning_rate_range"):
        axes[LEARNING_RATE] = {"low": between[0], "high": between[1]}
    return {
        "plan": plan.name,
        **{name: getattr(plan, name) for name in _SHARED},
        **({"axes": axes} if axes else {}),
        "candidates": [_stored_candidate(each) for each in plan.candidates],
        "outlook": plan.outlook,
        "assumptions": plan.assumptions,
    }


def _stored_candidate(row: tables.Candidate) -> dict[str, Any]:
    median, low, high = row.expected_score, row.score_low, row.score_high
    return {
        **{name: getattr(row, name) for name in _PLAIN},
        **({"axes": dict(row.axes)} if row.axes else {}),
        "expected_score": None if median is None else {"median": median, "low": low, "high": high},
        "notes": row.notes,
    }
