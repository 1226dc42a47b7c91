"""Published bounds of what was studied, each with its source: warnings name them."""

from typing import Final

STUDIED_ROLLOUTS: Final = (5e4, 1e7)
FEWEST_SUPPORTED_UPDATES: Final = 50

# "No clear loss to 25 passes over the data; degradation by 100" (arXiv 2509.25300, Qwen2.5-7B base).
HARMLESS_EPOCHS: Final = 25.0
HARMFUL_EPOCHS: Final = 100.0

# Largest rollouts per step that the IsoCompute study swept.
LARGEST_STEP_ROLLOUTS: Final = {"easy": 65_536, "hard": 16_384}
