"""A stored plan as the document that it was proposed as."""

from typing import Any

from planner.axes import LEARNING_RATE, values_by_axis
from planner.store.schema import Candidate, Plan
from rlplan.reading.plan_data import STORED

_PLAIN = (
    *STORED,
    "gpu_hours_per_step_low",
    "gpu_hours_per_step_high",
    "segment_steps",
    "pilot_reason",
)


def stored_document(plan: Plan) -> dict[str, Any]:
    """Return what the database keeps of a plan, named as `rlplan propose --format json` names it."""
    axes: dict[str, Any] = dict(values_by_axis(each.axes for each in plan.candidates))
    if between := (plan.config.get("axes") or {}).get("learning_rate_range"):
        axes[LEARNING_RATE] = {"low": between[0], "high": between[1]}
    return {
        "plan": plan.name,
        "budget_gpu_hours": plan.budget_gpu_hours,
        "pilot_gpu_hours": plan.pilot_gpu_hours,
        "final_gpu_hours": plan.final_gpu_hours,
        "workload": plan.workload,
        "hardware": plan.hardware,
        "recipe": plan.recipe,
        "difficulty": plan.difficulty,
        **({"axes": axes} if axes else {}),
        "candidates": [_candidate(each) for each in plan.candidates],
        "outlook": plan.outlook,
        "assumptions": plan.assumptions,
    }


def _candidate(row: Candidate) -> dict[str, Any]:
    median, low, high = row.expected_score, row.score_low, row.score_high
    return {
        **{name: getattr(row, name) for name in _PLAIN},
        **({"axes": dict(row.axes)} if row.axes else {}),
        "expected_score": None if median is None else {"median": median, "low": low, "high": high},
        "notes": row.notes,
    }
