"""A plan's champion as it is stored with the plan, and as a policy sees it."""

from collections.abc import Iterable, Mapping
from typing import Any

from planner.view import Champion, Configuration

KEY = "champion"  # of a plan's configuration; a plan that explores the whole grid has none
MOST_LOOK_SHARE = 0.20  # of all GPU-hours: beyond, nothing takes the champion's place


def champion_data(champion: Champion, source: str) -> dict[str, Any]:
    """Return what a plan stores; `source` says where the champion comes from: script, flag, usual or advised."""
    return {
        "candidates": [_data(candidate) for candidate in champion.candidates],
        "usual": [_data(configuration) for configuration in champion.usual],
        "challenger_share": champion.challenger_share,
        "alarm_share": champion.alarm_share,
        "source": source,
    }


def champion_of(config: Mapping[str, Any], total_gpu_hours: float) -> Champion | None:
    """Return the champion of a plan's configuration with so many GPU-hours in all; None where it explores."""
    stored = config.get(KEY)
    if stored is None:
        return None
    return Champion(
        candidates=_configurations(stored["candidates"]),
        total_gpu_hours=total_gpu_hours,
        usual=_configurations(stored["usual"]),
        challenger_share=stored["challenger_share"],
        alarm_share=stored["alarm_share"],
    )


def most_of_challengers(champion: Champion) -> float:
    """Return the GPU-hours that challengers may take in all, an alarm or a look without a score provided."""
    share = 0.0 if champion.alone else max(champion.challenger_share, champion.alarm_share)
    return share * champion.total_gpu_hours


def most_of_a_sweep(champion: Champion) -> float:
    """Return the GPU-hours that may pass before the final run goes on: the last look, and all challengers."""
    return MOST_LOOK_SHARE * champion.total_gpu_hours + most_of_challengers(champion)


def _data(configuration: Configuration) -> dict[str, Any]:
    n, B, axes = configuration
    return {"rollouts_per_prompt": n, "prompts_per_batch": B, "axes": dict(axes)}


def _configurations(stored: Iterable[Mapping[str, Any]]) -> tuple[Configuration, ...]:
    return tuple(
        Configuration(row["rollouts_per_prompt"], row["prompts_per_batch"], tuple(row["axes"].items()))
        for row in stored
    )
