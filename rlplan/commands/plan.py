"""A plan: what `rlplan propose` answers, as an object, made anew or read from a database."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from planner.axes import LEARNING_RATE, values_by_axis
from planner.metrics import Interval
from planner.store import schema as tables
from rlplan.wording.answers import Answer, Read, columns
from rlplan.wording.assumptions import Assumption
from rlplan.wording.numbers import hours


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
    expected_score: Interval | None  # None in a plan of runs that were adopted
    pilot_reason: str
    notes: tuple[str, ...]
    axes: tuple[tuple[str, str | float], ...]  # what else tells it from others, such as ("recipe", "scalerl")


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Answer):
    """A budget's allocations, priced and ranked, and its split into pilots and final run; stored under `name`."""

    COLUMNS = columns("""
        rank rollouts_per_prompt prompts_per_batch update_steps pilot_steps gpu_hours_per_step pilot_gpu_hours
        learning_rate epochs signal_fraction expected_score score_low score_high pilot_reason notes
    """)

    database: str  # a URL may hold a password
    data: Mapping[str, Any]  # its document

    name = Read[str](lambda plan: plan.data["plan"], "What it is stored under, such as 'plan-3'.")
    budget_gpu_hours = Read[float](
        lambda plan: plan.data["budget_gpu_hours"], "GPU-hours for pilots and final run together."
    )
    pilot_gpu_hours = Read[float](lambda plan: plan.data["pilot_gpu_hours"], "The part that buys evidence.")
    final_gpu_hours = Read[float](lambda plan: plan.data["final_gpu_hours"], "The part that is left for the final run.")
    recipe = Read[str](lambda plan: plan.data["recipe"], "The recipe's name, or those of all that are compared.")
    difficulty = Read[str](lambda plan: plan.data["difficulty"], "How hard the problems are for the base model.")

    workload = Read[dict[str, Any]](lambda plan: dict(plan.data["workload"]), "What is trained, on what.")
    hardware = Read[dict[str, Any]](lambda plan: dict(plan.data["hardware"]), "What it runs on.")
    best = Read[Candidate](lambda plan: plan.candidates[0], "What one would run without any pilot.")

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every allocation, the best first."""
        found = []
        for data in self.data["candidates"]:
            values = {name: data[name] for name in Candidate.__dataclass_fields__ if name in data}
            score = None if data["expected_score"] is None else Interval(**data["expected_score"])
            values |= {
                "expected_score": score,
                "notes": tuple(data["notes"]),
                "axes": tuple(data.get("axes", {}).items()),
            }
            found.append(Candidate(**values))
        return tuple(found)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What was taken for granted, and where that comes from."""
        return tuple(Assumption(**row) for row in self.data["assumptions"])

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each candidate."""
        rows = []
        for candidate in self.candidates:
            row = asdict(candidate)
            score = row["expected_score"] or dict.fromkeys(("median", "low", "high"))
            interval = {"expected_score": score["median"], "score_low": score["low"], "score_high": score["high"]}
            rows.append(row | interval | {"notes": "; ".join(candidate.notes)})
        return rows

    def report(self, path: str | Path) -> Path:
        """Write the plan, with its split and its priced grid, into one HTML file, and return its path."""
        from rlplan.web.report import write_report  # noqa: PLC0415 (jinja2)

        return write_report(Path(path), self.database, self.name)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `rlplan propose --format json` prints.

        Of a plan that was read from a database it lacks what the database does not keep: how seconds and GPUs are
        shared out within a step, and what fewer GPUs a trial would bring.
        """
        return deepcopy(dict(self.data))

    @property
    def summary(self) -> str:
        """What it splits into what."""
        return (
            f"{self.name}: {hours(self.budget_gpu_hours)} GPU-hours, of which {hours(self.pilot_gpu_hours)} for pilots "
            f"and {hours(self.final_gpu_hours)} for the final run"
        )

    def __repr__(self) -> str:
        return f"<Plan: {self.summary}>"

    def __str__(self) -> str:
        return self.summary


_SHARED = ("budget_gpu_hours", "pilot_gpu_hours", "final_gpu_hours", "workload", "hardware", "recipe", "difficulty")
_PLAIN = columns("""
    rank rollouts_per_prompt prompts_per_batch update_steps pilot_steps gpu_hours_per_step pilot_gpu_hours
    pilot_gpu_hours_per_step learning_rate epochs signal_fraction gpu_hours_per_step_low gpu_hours_per_step_high
    segment_steps pilot_reason
""")


def stored_document(plan: tables.Plan) -> dict[str, Any]:
    """Return what the database keeps of a plan, named as `rlplan propose --format json` names it."""
    axes: dict[str, Any] = dict(values_by_axis(candidate.axes for candidate in plan.candidates))
    if between := (plan.config.get("axes") or {}).get("learning_rate_range"):
        axes[LEARNING_RATE] = {"low": between[0], "high": between[1]}
    return {
        "plan": plan.name,
        **{name: getattr(plan, name) for name in _SHARED},
        **({"axes": axes} if axes else {}),
        "candidates": [_stored_candidate(candidate) for candidate in plan.candidates],
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
