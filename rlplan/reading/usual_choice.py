"""What somebody would run who tries nothing out, where it stands beside an answer."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from planner.axes import named_configuration
from planner.champion.terms import champion_of
from planner.config.schema import named_sizes
from planner.recommending.choosing import Choice
from planner.store.records import RankedRow
from planner.view import Configuration
from rlplan.wording.numbers import interval

Ranked = TypeVar("Ranked", Choice, RankedRow)


def usual_among(ranked: Iterable[Ranked], config: Mapping[str, Any]) -> tuple[Ranked, ...]:
    """Return each usual choice of a plan's settings that can be run, without further axes where it is there so.

    Beside a champion it is the plan's row nearest to what recipes have.
    """
    baseline = config.get("proposal", {}).get("baseline")
    sizes = named_sizes(baseline) if baseline else ()
    if (champion := champion_of(config, 0.0)) is not None:
        sizes = tuple(dict.fromkeys((n, B) for n, B, _ in champion.usual))
    by_sizes: dict[tuple[int, int], Ranked] = {}
    for each in sorted(ranked, key=lambda row: len(row.axes)):
        if each.expected_score is not None:
            by_sizes.setdefault((each.rollouts_per_prompt, each.prompts_per_batch), each)
    return tuple(by_sizes[each] for each in sizes if each in by_sizes)


def usual_sentence(usual: Choice | RankedRow, chosen: Choice | RankedRow) -> str:
    """Say where it should end with the same GPU-hours."""
    named = f"The usual choice, {named_configuration(_of(usual))}, is"
    if _of(usual) == _of(chosen):
        return f"{named} the one to run."
    return f"{named} expected at {interval(usual.expected_score, usual.score_low, usual.score_high)}."


def _of(row: Choice | RankedRow) -> Configuration:
    return Configuration(row.rollouts_per_prompt, row.prompts_per_batch, row.axes)
