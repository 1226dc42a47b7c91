"""The documents of `rlplan price`: of one configuration, and of a table of runs."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from planner.pricing import Change, Price
from planner.pricing.runs import PricedRun, summary
from rlplan.wording.assumptions import Assumption


def price_data(
    price: Price, changes: Sequence[Change], assumptions: Sequence[Assumption], dollars: float | None
) -> dict[str, Any]:
    """Return the document of `rlplan price --format json`."""
    asked, placement = price.asked, price.cost.placement
    return {
        "rollouts_per_prompt": asked.rollouts_per_prompt,
        "prompts_per_batch": asked.prompts_per_batch,
        "seconds_per_step": interval(*price.seconds),
        "gpu_hours_per_step": interval(*price.gpu_hours),
        "phases": [
            {"phase": each.phase, "seconds": interval(each.median, each.low, each.high), "limit": each.limit}
            for each in price.phases
        ],
        "tokens": asked.tokens,
        "dollars_by_tokens": dollars,
        "tokens_per_second_per_gpu": price.tokens_per_second_per_gpu,
        "gpu_seconds_per_rollout": price.gpu_seconds_per_rollout,
        "memory": {
            "training_bytes_per_gpu": price.memory_used * asked.hardware.gpu.usable_bytes,
            "usable_bytes_per_gpu": asked.hardware.gpu.usable_bytes,
            "head_room": 1 - price.memory_used,
            "plan": asdict(price.memory),
        },
        "layout": {"gpus": placement.gpus, **asdict(placement)},
        "changes": [_change(each) for each in changes],
        "assumptions": [asdict(each) for each in assumptions],
    }


def runs_data(runs: Sequence[PricedRun]) -> dict[str, Any]:
    """Return the document of `rlplan price RUNS.csv --format json`."""
    return {"rows": [_run(each) for each in runs], "summary": asdict(summary(runs))}


def interval(median: float, low: float, high: float) -> dict[str, float]:
    """Return the fields of a median with its 90 % interval."""
    return {"median": median, "low": low, "high": high}


def _run(run: PricedRun) -> dict[str, Any]:
    return {
        "row_id": run.row_id,
        "predicted_seconds": None if run.predicted is None else interval(*run.predicted),
        "measured_seconds": run.measured,
        "ratio": run.ratio,
        "phases": {name: interval(*seconds) for name, seconds in run.phases.items()},
        "notes": list(run.notes),
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "what": change.what,
        "seconds_per_step": _of(change.price, "seconds"),
        "gpu_hours_per_step": _of(change.price, "gpu_hours"),
        "gpu_seconds_per_rollout_saved": change.saved,
        "rollouts_per_second_ratio": change.faster,
        "refused": change.refused,
    }


def _of(price: Price | None, name: str) -> float | None:
    return None if price is None else getattr(price, name)[0]
