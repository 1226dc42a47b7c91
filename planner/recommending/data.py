"""An answer as plain data: for JSON, for the database."""

from dataclasses import asdict
from typing import Any

from planner.recommending.answer import Answer, AtBudget
from planner.recommending.choice import Choice
from planner.recommending.facts import named
from planner.recommending.frontier import FrontierPoint
from planner.recommending.rival import Rival
from planner.recommending.trend import Trend
from planner.view import Configuration


def answer_data(answer: Answer) -> dict[str, Any]:
    """Return the document of an answer."""
    return {
        "target_gpu_hours": answer.target_gpu_hours,
        "recommendation": choice_data(answer.chosen),
        "sentences": [answer.what, answer.how_sure],
        "why": answer.why,
        "runner_up": None if answer.runner_up is None else _rival(answer.runner_up),
        "equivalent": [choice_data(each) for each in answer.equivalent],
        "budgets": [_at(each) for each in answer.budgets],
        "frontier": {
            "points": [_point(each) for each in answer.frontier.points],
            "rollouts_per_prompt": _trend(answer.frontier.rollouts_per_prompt),
            "rollouts_per_step": _trend(answer.frontier.rollouts_per_step),
        },
        "pareto": {
            "points": [choice_data(each) for each in answer.pareto.points],
            "enough": None if answer.pareto.enough is None else choice_data(answer.pareto.enough),
        },
        "warnings": [asdict(each) for each in answer.cautions],
        "ranking": [choice_data(each) | {"rank": rank} for rank, each in enumerate(answer.ranked, start=1)],
        "left_out": [configuration_data(each) for each in answer.left_out],
        "seed_sd": answer.seed_sd,
        "draws": answer.draws,
    }


def choice_data(choice: Choice) -> dict[str, Any]:
    """Return one choice, its axes as an object."""
    return asdict(choice) | {"axes": dict(choice.axes), "name": named(choice.configuration)}


def configuration_data(configuration: Configuration) -> dict[str, Any]:
    """Return what tells a configuration apart."""
    return {
        "rollouts_per_prompt": configuration.rollouts_per_prompt,
        "prompts_per_batch": configuration.prompts_per_batch,
        "axes": dict(configuration.axes),
        "name": named(configuration),
    }


def _rival(rival: Rival) -> dict[str, Any]:
    own = {name: getattr(rival, name) for name in Rival.__dataclass_fields__ if name != "choice"}
    return choice_data(rival.choice) | own


def _at(budget: AtBudget) -> dict[str, Any]:
    choice = None if budget.choice is None else choice_data(budget.choice)
    return {"factor": budget.factor, "gpu_hours": budget.gpu_hours, "choice": choice}


def _point(point: FrontierPoint) -> dict[str, Any]:
    own = {name: getattr(point, name) for name in FrontierPoint.__dataclass_fields__ if name != "choice"}
    return own | {"choice": choice_data(point.choice)}


def _trend(trend: Trend) -> dict[str, Any]:
    return asdict(trend)
