"""Our reward as verl calls it: `score` is trained on, `acc` is the plain score; copied into a trial's folder."""

import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER / "parts"))

from runner.trainers.trial_reward import judge_in  # noqa: E402  (it lies in parts)


async def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any], **_: Any
) -> dict[str, float]:
    """Return the shaped reward and the plain score; the penalty of long responses is the reward manager's."""
    judge = judge_in(str(FOLDER))
    score = await judge.awaited(int(extra_info["number"]), solution_str)
    return {"score": judge.shaped(score), "acc": score}
