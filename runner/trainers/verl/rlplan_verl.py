"""Our advantages as an estimator of verl's registry; copied into a trial's folder, a module that verl imports.

verl is told so by VERL_USE_EXTERNAL_MODULES. What `advantage.json` beside it says is a recipe's [advantage].
"""

import json
from pathlib import Path
from typing import Any

import torch
from verl.trainer.ppo.core_algos import register_adv_est

SETTINGS: dict[str, Any] = json.loads(Path(__file__).with_name("advantage.json").read_text(encoding="utf-8"))
EPSILON = 1e-6 if SETTINGS["epsilon"] is None else SETTINGS["epsilon"]  # verl's own where the recipe says nothing


@register_adv_est("rlplan")
def advantages(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the advantage of every token, and again as its return; `index` names the prompt of each response.

    As runner/grpo/advantages.py has it, for groups in any order and of any size. A group whose rewards are all alike
    gets exactly 0.
    """
    rewards = token_level_rewards.sum(dim=-1)
    centred, deviation = torch.zeros_like(rewards), torch.ones_like(rewards)
    for name in dict.fromkeys(index):
        rows = torch.tensor([other == name for other in index], device=rewards.device)
        group = rewards[rows]
        if group.max() == group.min():
            continue
        centred[rows] = group - group.mean()
        deviation[rows] = group.std() + EPSILON
    if SETTINGS["scale"] == "group":
        centred = centred / deviation
    elif SETTINGS["scale"] == "batch" and centred.any():
        centred = centred / (centred.square().sum().div(max(len(rewards) - 1, 1)).sqrt() + EPSILON)
    spread = centred[:, None] * response_mask
    return spread, spread
