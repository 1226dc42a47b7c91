"""What is shown of a plan: its split, its priced grid, and what other budgets would choose."""

from typing import Any

from planner.axes import format_axes
from planner.store.schema import Plan
from rlplan.charts.budget import split_chart
from rlplan.charts.heat import plan_maps
from rlplan.reading.plans import layout_of
from rlplan.web import page
from rlplan.wording.commands import command

TITLES = {
    "plan": "Plan",
    "maps": "Map",
    "outlook": "Other budgets",
    "grid": "Priced grid",
    "assumptions": "Assumptions",
}
FIRST_ROWS = 40  # that are shown before one asks for more


def plan_sections(plan: Plan, database: str) -> list[str]:
    """Return the plan's sections as HTML; its rows are read meanwhile."""
    candidates = sorted(plan.candidates, key=lambda each: each.rank)
    pilots = [each for each in candidates if each.pilot_steps]
    known = [v for each in candidates for v in (each.score_low, each.expected_score, each.score_high) if v is not None]
    shown: dict[str, Any] = {
        "plan": plan,
        "candidates": candidates,
        "best": candidates[0] if candidates else None,
        "pilots": pilots,
        "layout": layout_of(plan, len(pilots)),
        "taken": sum(each.pilot_gpu_hours for each in pilots),
        "split": split_chart(
            [
                (f"n = {each.rollouts_per_prompt}, B = {each.prompts_per_batch}", each.pilot_gpu_hours)
                for each in pilots
            ],
            plan.pilot_gpu_hours,
            plan.final_gpu_hours,
        ),
        "command": command("sweep", plan.name, database),
        "variants": plan_maps(candidates) if candidates else (),
        "scored": bool(known),
        "low": min(known, default=0.0),
        "high": max(known, default=1.0),
        "first": FIRST_ROWS,
        "said": format_axes,
        "with_axes": any(each.axes for each in candidates),
        "outlook_axes": any(each.get("axes") for each in plan.outlook),
    }
    return [page.rendered(f"plan/{name}.html", **shown) for name in TITLES]
