"""Rows to store in tests."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from planner.store import Store, results, sweeps
from planner.store.results import RankedRow
from planner.store.schema import Candidate, CostRecord, Fit, Plan, Point, Recommendation, Segment, Sweep, Trial

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def plan(**changes: Any) -> Plan:
    values = {
        "budget_gpu_hours": 5000.0,
        "pilot_gpu_hours": 1000.0,
        "final_gpu_hours": 4000.0,
        "recipe": "grpo",
        "difficulty": "hard",
        "workload": {"model": "qwen3-8b", "response_tokens": 8192},
        "hardware": {"gpu": "h100", "gpus": 64},
        "config": {"seeds": [1, 2]},
        "assumptions": [{"what": "tokens/s", "value": 2e3, "source": "measured"}],
        "outlook": [{"budget_gpu_hours": 500, "rollouts_per_prompt": 8}],
        "rlplan_version": "0.1.0",
    }
    return Plan(**{**values, **changes})


def candidate(rank: int = 1, n: int = 8, B: int = 64, **changes: Any) -> Candidate:
    values = {
        "rank": rank,
        "rollouts_per_prompt": n,
        "prompts_per_batch": B,
        "update_steps": 400,
        "pilot_steps": 50,
        "gpu_hours_per_step": 10.0,
        "gpu_hours_per_step_low": 8.0,
        "gpu_hours_per_step_high": 12.0,
        "segment_steps": 10,
        "pilot_gpu_hours": 500.0,
        "learning_rate": 1e-6,
        "epochs": 1.5,
        "signal_fraction": 0.8,
        "pilot_reason": "among the best four",
        "notes": ["a note"],
    }
    return Candidate(**{**values, **changes})


def candidates() -> list[Candidate]:
    return [candidate(2, 16, 32), candidate(1, 8, 64, expected_score=0.5, score_low=0.4, score_high=0.6)]


def sweep(**changes: Any) -> Sweep:
    return Sweep(**{"policy": "rlplan", "seed": 2**40, "config": {"a": 1}, "config_hash": "c0ffee", **changes})


def trial(n: int = 8, B: int = 64, seed: int = 1, **changes: Any) -> Trial:
    values = {
        "name": f"n{n}-B{B}-s{seed}",
        "rollouts_per_prompt": n,
        "prompts_per_batch": B,
        "learning_rate": 1e-6,
        "recipe": "grpo",
        "seed": seed,
        "config": {"kl": 0.0},
    }
    return Trial(**{**values, **changes})


def segment(number: int = 1, **changes: Any) -> Segment:
    values = {"number": number, "from_step": 0, "to_step": 10, "reserved_gpu_hours": 5.0, "worker": "w1"}
    return Segment(**{**values, **changes})


def point(trial_id: int, step: int, attempt: int = 1, **changes: Any) -> Point:
    values = {"rollouts": step * 512, "tokens": step * 2**32, "seconds": step * 1.5, "gpu_hours": step * 0.1}
    return Point(
        **{"trial_id": trial_id, "attempt": attempt, "optimizer_step": step, "score": 0.5, **values, **changes}
    )


def fit(trial_id: int) -> Fit:
    return Fit(
        trial_id=trial_id,
        made_at=NOON,
        model="sigmoid",
        verdict="rising",
        upto_gpu_hours=10.0,
        target_gpu_hours=100.0,
        parameters={"A": {"median": 0.7, "low": 0.6, "high": 0.8}},
        predicted_mean=0.6,
        predicted_low=0.5,
        predicted_high=0.7,
        level=0.9,
        fit_milliseconds=0.4,
    )


def decide(store: Store, sweep: str = "sweep-1", action: str = "prune", trial_id: int | None = None) -> int:
    seen = {"trial_id": trial_id, "seen": {"p": 0.01}, "alternatives": ["continue"]}
    return put(store, results.record_decision, sweep, NOON, action, "It cannot win.", **seen)


ANSWER = {
    "prompts_per_batch": 64,
    "update_steps": 390,
    "learning_rate": 1e-6,
    "recipe": "grpo",
    "expected_score": 0.7,
    "score_low": 0.6,
    "score_high": 0.8,
    "probability_best": 0.9,
    "gpu_hours_to_target": 3900.0,
}


def ranking(rank: int, n: int, **changes: Any) -> RankedRow:
    own = {"rank": rank, "rollouts_per_prompt": n, "gpu_hours_spent": 20.0, "status": "finished"}
    return RankedRow(**{**ANSWER, **own, **changes})


def recommendation(**changes: Any) -> Recommendation:
    own = {"made_at": NOON, "rollouts_per_prompt": 16, "expected_regret": 0.01, "details": {"equivalent": []}}
    return Recommendation(**{**ANSWER, **own, **changes})


def cost_record(gpu: str = "h100", model: str = "qwen3-8b", minutes: float = 0.0, **changes: Any) -> CostRecord:
    values = {
        "at": at(minutes),
        "gpu": gpu,
        "generator_gpus": 8,
        "trainer_gpus": 8,
        "colocated": True,
        "model": model,
        "recipe": "grpo",
        "rollouts_per_prompt": 8,
        "prompts_per_batch": 64,
        "generated_rollouts": 512,
        "trained_rollouts": 512,
        "mean_prompt_tokens": 200.0,
        "mean_response_tokens": 900.0,
        "longest_response_tokens": 4000.0,
        "seconds": {"rollout": 30.0, "train": 10.0},
    }
    return CostRecord(**{**values, **changes})


def started_sweep(store: Store) -> str:
    """Store a plan of two candidates and a sweep of it."""
    store.save_plan(plan(), candidates(), created_at=NOON)
    return put(store, sweeps.create_sweep, None, sweep(), NOON)


def started_trial(store: Store) -> int:
    """Store a plan, a sweep and one planned trial."""
    return put(store, sweeps.add_trial, started_sweep(store), trial(), NOON)


def put(store: Store, storing: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Store something in a transaction of its own."""
    with store.write() as session:
        return storing(session, *given, **named)


def look(store: Store, reading: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Read something that is complete without its session."""
    with store.read() as session:
        return reading(session, *given, **named)


def points(store: Store, trial_id: int) -> list[Point]:
    """Return all points of a trial by step."""
    with store.read() as session:
        wanted = select(Point).where(Point.trial_id == trial_id).order_by(Point.optimizer_step, Point.attempt)
        return list(session.scalars(wanted))


def count(store: Store, table: type) -> int:
    with store.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0
