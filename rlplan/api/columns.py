"""The columns of every frame, in their order, with what they hold; `docs/python.md` explains them."""

from typing import Final

from rlplan.api.frames import Columns, Kind

_CONFIGURATION: Final[Columns] = {"rollouts_per_prompt": Kind.WHOLE, "prompts_per_batch": Kind.WHOLE}
_EXPECTATION: Final[Columns] = {
    "expected_score": Kind.NUMBER,
    "score_low": Kind.NUMBER,
    "score_high": Kind.NUMBER,
}

CANDIDATES: Final[Columns] = {
    "rank": Kind.WHOLE,
    **_CONFIGURATION,
    "update_steps": Kind.WHOLE,
    "pilot_steps": Kind.WHOLE,
    "gpu_hours_per_step": Kind.NUMBER,
    "pilot_gpu_hours": Kind.NUMBER,
    "learning_rate": Kind.NUMBER,
    "epochs": Kind.NUMBER,
    "signal_fraction": Kind.NUMBER,
    **_EXPECTATION,
    "pilot_reason": Kind.TEXT,
    "notes": Kind.TEXT,
}
PLANS: Final[Columns] = {
    "plan": Kind.TEXT,
    "created_at": Kind.TIME,
    "budget_gpu_hours": Kind.NUMBER,
    "pilot_gpu_hours": Kind.NUMBER,
    "final_gpu_hours": Kind.NUMBER,
    "model": Kind.TEXT,
    "gpu": Kind.TEXT,
    "gpus": Kind.WHOLE,
    "recipe": Kind.TEXT,
    "difficulty": Kind.TEXT,
    "candidates": Kind.WHOLE,
}
SWEEPS: Final[Columns] = {
    "sweep": Kind.TEXT,
    "plan": Kind.TEXT,
    "created_at": Kind.TIME,
    "finished_at": Kind.TIME,
    "status": Kind.TEXT,
    "policy": Kind.TEXT,
    "seed": Kind.WHOLE,
    "trials": Kind.WHOLE,
    "gpu_hours_spent": Kind.NUMBER,
}
TRIALS: Final[Columns] = {
    "trial": Kind.TEXT,
    **_CONFIGURATION,
    "learning_rate": Kind.NUMBER,
    "seed": Kind.WHOLE,
    "state": Kind.TEXT,
    "attempt": Kind.WHOLE,
    "step": Kind.WHOLE,
    "pilot_steps": Kind.WHOLE_OR_MISSING,
    "gpu_hours_spent": Kind.NUMBER,
    "score": Kind.NUMBER,
    "score_standard_error": Kind.NUMBER,
    **_EXPECTATION,
    "probability_best": Kind.NUMBER,
    "failure_class": Kind.TEXT,
}
CURVES: Final[Columns] = {
    "trial": Kind.TEXT,
    **_CONFIGURATION,
    "seed": Kind.WHOLE,
    "state": Kind.TEXT,
    "step": Kind.WHOLE,
    "gpu_hours": Kind.NUMBER,
    "score": Kind.NUMBER,
    "score_standard_error": Kind.NUMBER,
}
POINTS: Final[Columns] = {
    "trial": Kind.TEXT,
    "attempt": Kind.WHOLE,
    "step": Kind.WHOLE,
    "rollouts": Kind.WHOLE,
    "tokens": Kind.WHOLE,
    "seconds": Kind.NUMBER,
    "gpu_hours": Kind.NUMBER,
    "score": Kind.NUMBER,
    "score_standard_error": Kind.NUMBER,
}
RANKED: Final[Columns] = {
    "rank": Kind.WHOLE,
    **_CONFIGURATION,
    "update_steps": Kind.WHOLE,
    "learning_rate": Kind.NUMBER,
    "recipe": Kind.TEXT,
    **_EXPECTATION,
    "probability_best": Kind.NUMBER,
    "gpu_hours_spent": Kind.NUMBER,
    "gpu_hours_to_target": Kind.NUMBER,
    "status": Kind.TEXT,
}
DECISIONS: Final[Columns] = {
    "number": Kind.WHOLE,
    "at": Kind.TIME,
    "action": Kind.TEXT,
    "trial": Kind.TEXT,
    "reason": Kind.TEXT,
    "seen": Kind.TEXT,
    "alternatives": Kind.TEXT,
}
SEGMENTS: Final[Columns] = {
    "worker": Kind.TEXT,
    "trial": Kind.TEXT,
    "segment": Kind.WHOLE,
    "attempt": Kind.WHOLE,
    "from_step": Kind.WHOLE,
    "to_step": Kind.WHOLE,
    "started_at": Kind.TIME,
    "ended_at": Kind.TIME,
    "outcome": Kind.TEXT,
    "reserved_gpu_hours": Kind.NUMBER,
    "charged_gpu_hours": Kind.NUMBER,
}
CHOICES: Final[Columns] = {
    "rank": Kind.WHOLE,
    **_CONFIGURATION,
    "update_steps": Kind.WHOLE,
    "learning_rate": Kind.NUMBER,
    "recipe": Kind.TEXT,
    "gpu_hours": Kind.NUMBER,
    **_EXPECTATION,
    "probability_best": Kind.NUMBER,
    "probability_within_001": Kind.NUMBER,
    "probability_within_002": Kind.NUMBER,
    "expected_regret": Kind.NUMBER,
    "collapse_risk": Kind.NUMBER,
    "status": Kind.TEXT,
    "gpu_hours_spent": Kind.NUMBER,
    "reached_gpu_hours": Kind.NUMBER,
    "seeds_seen": Kind.WHOLE,
}
FITS: Final[Columns] = {
    "curve": Kind.TEXT,
    "points": Kind.WHOLE,
    "used_points": Kind.WHOLE,
    "verdict": Kind.TEXT,
    "noise_sd": Kind.NUMBER,
    "x": Kind.NUMBER,
    "mean": Kind.NUMBER,
    "low": Kind.NUMBER,
    "high": Kind.NUMBER,
    "level": Kind.NUMBER,
    "observed": Kind.NUMBER,
    "notes": Kind.TEXT,
}
TRACE: Final[Columns] = {"gpu_hours": Kind.NUMBER, **_CONFIGURATION, "regret": Kind.NUMBER}
