"""From the document of an answer back to the answer: what was stored is shown, and nothing is worked out anew."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from planner.group_law import OptimalGroupLaw
from planner.recommending.answer import AtBudget, FinalAnswer
from planner.recommending.cautions import Caution
from planner.recommending.choice import Choice
from planner.recommending.facts import Facts
from planner.recommending.frontier import Frontier, FrontierPoint, Pareto
from planner.recommending.rival import Rival
from planner.recommending.trend import Trend

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")
Document = Mapping[str, Any]


def restored(document: Document, left_out: Facts) -> FinalAnswer | None:
    """Return the answer that `answer_data` wrote; None for the document of a version that wrote less.

    What cannot be run is in the document by name alone: its facts are given.
    """
    try:
        return _answer(document, left_out)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _answer(document: Document, left_out: Facts) -> FinalAnswer:
    frontier, pareto, rival = document["frontier"], document["pareto"], document["runner_up"]
    return FinalAnswer(
        target_gpu_hours=document["target_gpu_hours"],
        chosen=_choice(document["recommendation"]),
        why=document["why"],
        runner_up=rival and _with_choice(Rival, rival, _choice(rival)),
        equivalent=tuple(map(_choice, document["equivalent"])),
        ranked=tuple(map(_choice, document["ranking"])),
        left_out=left_out,
        budgets=tuple(_with_choice(AtBudget, each, _chosen(each)) for each in document["budgets"]),
        frontier=Frontier(
            tuple(_with_choice(FrontierPoint, each, _chosen(each)) for each in frontier["points"]),
            _trend(frontier["rollouts_per_prompt"]),
            _trend(frontier["rollouts_per_step"]),
        ),
        pareto=Pareto(tuple(map(_choice, pareto["points"])), pareto["enough"] and _choice(pareto["enough"])),
        cautions=tuple(_made(Caution, each) for each in document["warnings"]),
        seed_sd=document["seed_sd"],
        draws=document["draws"],
    )


def _made(kind: type[Record], values: Document, **others: Any) -> Record:
    """Make a record of what is written of its fields; what stands beside them is not its own."""
    known = [each.name for each in fields(kind) if each.name in values]
    return kind(**{name: values[name] for name in known} | others)


def _choice(values: Document) -> Choice:
    return _made(Choice, values, axes=tuple(values["axes"].items()))


def _chosen(values: Document) -> Choice | None:
    return values["choice"] and _choice(values["choice"])


def _with_choice(kind: type[Record], values: Document, choice: Choice | None) -> Record:
    return _made(kind, values, choice=choice)


def _trend(values: Document) -> Trend:
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list | tuple)}
    law = values["law"] and _made(OptimalGroupLaw, values["law"])
    return _made(Trend, values, **lists, law=law)
