"""A proposal as plain data: for the database, for JSON and for CSV."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from planner.axes import LEARNING_RATE, values_by_axis
from planner.proposals import Candidate, Outlook, PilotShare, PricedCell, PriceSensitivity, Proposal, Request, Variant
from planner.store import schema
from planner.view import Configuration
from rlplan.wording.assumptions import Assumption

# Of a stored candidate, by the names that `propose` prints too.
STORED = (
    "rank",
    "rollouts_per_prompt",
    "prompts_per_batch",
    "update_steps",
    "pilot_steps",
    "gpu_hours_per_step",
    "pilot_gpu_hours",
    "pilot_gpu_hours_per_step",
    "learning_rate",
    "epochs",
    "signal_fraction",
)


def new_plan(
    proposal: Proposal, config: dict[str, Any], taken_for_granted: list[Assumption], rlplan_version: str
) -> schema.Plan:
    """Return the row of a plan."""
    known = plan_data("", proposal, taken_for_granted)
    names = [name for name in schema.Plan.__table__.columns.keys() if name in known]  # noqa: SIM118 (no mapping)
    return schema.Plan(config=config, rlplan_version=rlplan_version, **{name: known[name] for name in names})


def new_candidates(proposal: Proposal) -> list[schema.Candidate]:
    """Return the rows of a plan's candidates."""
    return [_new_candidate(candidate) for candidate in proposal.candidates]


def plan_data(
    name: str, proposal: Proposal, taken_for_granted: list[Assumption], dollars: Sequence[float] = ()
) -> dict[str, Any]:
    """Return the document that `propose --format json` prints; `dollars` are those of a step's tokens."""
    axes = axes_data(proposal)
    return {
        "plan": name,
        "budget_gpu_hours": proposal.request.budget_gpu_hours,
        "pilot_gpu_hours": proposal.pilot_gpu_hours,
        "final_gpu_hours": proposal.final_gpu_hours,
        "workload": workload_data(proposal.request),
        "hardware": hardware_data(proposal.request),
        "recipe": recipe_names(proposal),
        "difficulty": proposal.request.difficulty,
        **({"axes": axes} if axes else {}),
        "ranked_by": "expected score",
        "baselines": [baseline_data(each) for each in proposal.usual],
        "rests_on": [asdict(ground) for ground in proposal.grounds],
        "elsewhere": [{"what": each.what, **best_data(each.best)} for each in proposal.elsewhere],
        "pilots": pilots_data(proposal.sharing),
        "candidates": [
            candidate_data(candidate) | ({"dollars_by_tokens": dollars[index]} if dollars else {})
            for index, candidate in enumerate(proposal.candidates)
        ],
        "outlook": [outlook_data(outlook) for outlook in proposal.outlooks],
        "layouts": [asdict(layout) for layout in proposal.layouts],
        "price_of_doubt": doubt_data(proposal.doubt),
        "deadline": None if proposal.deadline is None else asdict(proposal.deadline) | {"cost": proposal.deadline.cost},
        "assumptions": [asdict(assumption) for assumption in taken_for_granted],
    }


def pilots_data(sharing: PilotShare) -> dict[str, Any]:
    """Return the share of the pilots, and what they are expected to bring."""
    return asdict(sharing) | {"expected_gain": sharing.expected_gain}


def doubt_data(doubt: PriceSensitivity) -> dict[str, Any]:
    """Return what the interval of the price means for the steps and for the ranking."""

    def named(configuration: Configuration | None) -> dict[str, Any] | None:
        if configuration is None:
            return None
        axes = {"axes": dict(configuration.axes)} if configuration.axes else {}
        n, B = configuration.rollouts_per_prompt, configuration.prompts_per_batch
        return {"rollouts_per_prompt": n, "prompts_per_batch": B, **axes}

    return {
        "update_steps": {"low": doubt.fewest_steps, "high": doubt.most_steps},
        "rows_that_do_not_depend_on_it": doubt.firm,
        "score_lost_by_the_first": doubt.lost if math.isfinite(doubt.lost) else None,
        "first_if_dear": named(doubt.first_if_dear),
        "first_if_cheap": named(doubt.first_if_cheap),
    }


def candidate_data(candidate: Candidate) -> dict[str, Any]:
    """Return one candidate as the contract names its fields, and what explains them."""
    cell = candidate.cell
    return {
        "rank": candidate.rank,
        **({"axes": dict(candidate.axes)} if candidate.axes else {}),
        "rollouts_per_prompt": cell.allocation.rollouts_per_prompt,
        "prompts_per_batch": cell.allocation.prompts_per_batch,
        "update_steps": cell.allocation.update_steps,
        "pilot_steps": candidate.pilot.steps,
        "gpu_hours_per_step": cell.cost.gpu_hours_per_step,
        "pilot_gpu_hours": candidate.pilot.gpu_hours,
        "pilot_gpu_hours_per_step": cell.pilot_cost.gpu_hours_per_step,
        "learning_rate": candidate.learning_rate,
        "epochs": candidate.epochs,
        "signal_fraction": cell.signal_fraction,
        "expected_score": asdict(cell.expected_score),
        "notes": list(candidate.notes),
        "level_with_first": candidate.standing.level,
        "against_first": {name: getattr(candidate.standing, name) for name in ("median", "low", "high")},
        "baseline": candidate.standing.usual is not None,
        "gpu_hours_per_step_low": cell.cost.gpu_hours_per_step_low,
        "gpu_hours_per_step_high": cell.cost.gpu_hours_per_step_high,
        "rollouts": cell.allocation.rollouts,
        "affordable_steps": cell.affordable_steps,
        "segment_steps": candidate.pilot.segment_steps,
        "pilot_reason": candidate.pilot.reason,
        "seconds_per_step": {phase.value: seconds for phase, seconds in cell.cost.seconds_by_phase.items()},
        "generator_gpus": cell.cost.placement.generator_gpus,
        "trainer_gpus": cell.cost.placement.trainer_gpus,
    }


def baseline_data(candidate: Candidate) -> dict[str, Any]:
    """Return the row that stands for a usual choice, and which that was."""
    (n, B), asked = candidate.cell.key, candidate.standing.usual
    assert asked is not None
    return {
        "rank": candidate.rank,
        "rollouts_per_prompt": n,
        "prompts_per_batch": B,
        "asked": {"rollouts_per_prompt": asked[0], "prompts_per_batch": asked[1]},
    }


def csv_rows(proposal: Proposal, dollars: Sequence[float] = ()) -> list[dict[str, Any]]:
    """Return one flat row per candidate."""
    rows = []
    for index, candidate in enumerate(proposal.candidates):
        row = candidate_data(candidate) | ({"dollars_by_tokens": dollars[index]} if dollars else {})
        score, against = row.pop("expected_score"), row.pop("against_first")
        row.pop("seconds_per_step")
        row |= {"against_first": against["median"], "against_low": against["low"], "against_high": against["high"]}
        row |= {f"axis_{name}": value for name, value in row.pop("axes", {}).items()}
        row["notes"] = "; ".join(row["notes"])
        rows.append(row | {"expected_score": score["median"], "score_low": score["low"], "score_high": score["high"]})
    return rows


def recipe_names(proposal: Proposal) -> str:
    """Return the recipe's name, or those of all that are compared."""
    return ", ".join(dict.fromkeys(variant.traits.name for variant in proposal.request.all_variants))


def axes_data(proposal: Proposal) -> dict[str, Any]:
    """Return the values on each axis beside n and B; nothing without such axes."""
    compared: Sequence[Variant | Candidate] = (*proposal.request.all_variants, *proposal.candidates)
    axes: dict[str, Any] = values_by_axis(each.axes for each in compared)
    between = proposal.request.learning_rate_range
    return axes | ({LEARNING_RATE: {"low": between[0], "high": between[1]}} if between else {})


def workload_data(request: Request) -> dict[str, Any]:
    """Return what is trained, on what."""
    workload = request.workload
    models = list(dict.fromkeys(variant.workload.model.name for variant in request.all_variants))
    return {
        "model": workload.model.name,
        **({"models": models} if len(models) > 1 else {}),
        "parameters": workload.model.parameters,
        "experts": workload.model.experts,
        "prompt_tokens": workload.prompt_tokens,
        "response_tokens": workload.responses.cap,
        "mean_response_tokens": workload.responses.mean,
        "response_spread": workload.responses.spread,
        "prompt_set_size": workload.prompt_set_size,
        "mean_pass_rate": workload.pass_rates.mean,
        "validation": asdict(workload.validation),
    }


def hardware_data(request: Request) -> dict[str, Any]:
    """Return what it runs on."""
    hardware, pilots = request.hardware, request.pilot_hardware
    return {
        "gpu": hardware.gpu.name,
        "gpus": hardware.gpus,
        "gpus_per_trial": hardware.gpus_per_trial,
        "gpus_per_node": hardware.gpu.gpus_per_node,
        "pilot_gpus": pilots.gpus_per_trial,
        "pilots_at_once": pilots.parallel_trials,
        "dollars_per_gpu_hour": hardware.gpu.dollars_per_hour,
    }


def outlook_data(outlook: Outlook) -> dict[str, Any]:
    """Return the best cell at another budget."""
    best = outlook.best
    law = outlook.published_rollouts_per_prompt
    axes = dict(best.variant.axes) if best else {}
    return {
        **({"axes": axes} if axes else {}),
        "budget_factor": outlook.factor,
        "budget_gpu_hours": outlook.budget_gpu_hours,
        **best_data(best),
        "published_rollouts_per_prompt": round(law) if law is not None and math.isfinite(law) else None,
    }


def best_data(best: PricedCell | None) -> dict[str, Any]:
    """Return the cell that other circumstances would put first, each field empty where there is none."""
    if best is None:
        return dict.fromkeys(("rollouts_per_prompt", "prompts_per_batch", "update_steps", "expected_score"))
    return {**asdict(best.allocation), "expected_score": asdict(best.expected_score)}


def _new_candidate(candidate: Candidate) -> schema.Candidate:
    known = candidate_data(candidate)
    score = known.pop("expected_score")
    columns = schema.Candidate.__table__.columns.keys()
    names = [name for name in columns if name in known and name != "axes"]
    return schema.Candidate(
        expected_score=score["median"],
        score_low=score["low"],
        score_high=score["high"],
        axes=candidate.axes,
        recipe=candidate.cell.variant.traits.name,
        **{name: known[name] for name in names},
    )
