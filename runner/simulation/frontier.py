"""The frontier that IsoCompute publishes, which drawn surfaces meet: how far the best n gets with some rollouts.

Cheng et al., arXiv 2603.12151: Qwen2.5-7B-Instruct, GRPO, held-out avg@4, compute in rollouts; read off the figures;
B = 32, easy problems.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Final

from planner.prior.studies import STUDIES, OptimalGroupLaw


@dataclass(frozen=True, slots=True)
class FrontierPrior:
    """How far the frontier gets from the base pass rate towards 1, and what a wrong n or B costs, by difficulty."""

    optimal_group: OptimalGroupLaw
    gain_ceiling: float
    gain_midpoint_rollouts: float
    gain_exponent: float
    optimal_log2_prompts: tuple[tuple[float, float], ...]
    loss_per_group_octave: float
    loss_per_prompt_octave: float

    def frontier_score(self, rollouts: float, base_pass_rate: float) -> float:
        """Return the best score reachable at so many rollouts, scaled to the base model's own pass rate."""
        gain = self.gain_ceiling / (1 + math.pow(self.gain_midpoint_rollouts / rollouts, self.gain_exponent))
        return base_pass_rate + (1 - base_pass_rate) * gain

    def optimal_prompts(self, rollouts: float) -> float:
        """Return the B of the frontier, interpolated between its segments in log C."""
        at = math.log10(rollouts)
        points = self.optimal_log2_prompts
        for (x0, y0), (x1, y1) in itertools.pairwise(points):
            if at <= x1:
                return math.exp2(y0 + (y1 - y0) * max(0.0, (at - x0) / (x1 - x0)))
        return math.exp2(points[-1][1])


_STUDIED = next(study for study in STUDIES if study.name == "IsoCompute, Qwen2.5-7B")
assert _STUDIED.group is not None
assert _STUDIED.group_hard is not None

FRONTIERS: Final[dict[str, FrontierPrior]] = {
    # Gain: least squares of R0 + (A−R0)/(1+(C_mid/C)^b) on the frontier's readings .54/.59/.61/.645/.68 at
    # .28/.85/1.27/2.7/4 M rollouts with R0 = .45 (A = .75, C_mid = 1.06 M, b = .75). Loss per octave: range 9.2 points
    # over 7 octaves of n at B = 32, 1.9 over 5 octaves of B at n = 16.
    "easy": FrontierPrior(
        optimal_group=_STUDIED.group,
        gain_ceiling=0.545,
        gain_midpoint_rollouts=_STUDIED.middle,
        gain_exponent=_STUDIED.exponent,
        optimal_log2_prompts=((5.0, 7.0), (5.5, 6.0), (6.1, 5.5), (6.4, 5.0)),
        loss_per_group_octave=0.013,
        loss_per_prompt_octave=0.006,
    ),
    # Gain: best values .09–.12 between 1 and 4 M rollouts from a base of .03; the shape is assumed. Loss per octave:
    # range 3.1 points over 5 octaves of n, 2.2 over 5 of B. Steepness 50 in the paper is pinned, really a step.
    "hard": FrontierPrior(
        optimal_group=_STUDIED.group_hard,
        gain_ceiling=0.097,
        gain_midpoint_rollouts=2.0e5,
        gain_exponent=0.75,
        optimal_log2_prompts=((5.0, 6.0), (6.0, 6.0), (6.16, 5.0)),
        loss_per_group_octave=0.006,
        loss_per_prompt_octave=0.004,
    ),
}
