"""What the policies decide over recorded and drawn tables, with fixed seeds."""

import json
from itertools import product

from bench.deciding.tables import table
from planner.belief.pool import Pool
from planner.policy.policies import open_policy
from planner.replay.play import open_chooser, play

TABLES = ("allocbench/sum-hard@1", "allocbench/recipes-sum-hard@0.5", "simulated/easy", "public/pods")
SHARES = (0.05, 0.2)  # of the full grid's cost
POLICIES = ("rlplan", "asha")
SEED = 1


def played_decisions() -> str:
    """Return what each policy chose at each budget, and what it ran on the way, as JSON with a line a play."""
    lines = []
    for name in TABLES:
        recorded, target = table(name, SEED)
        for share, policy in product(SHARES, POLICIES):
            pool = Pool()
            played = play(
                recorded,
                open_policy(policy, search=None, pool=pool),
                chooser=open_chooser(policy, pool),
                budget=share * recorded.full_cost(target),
                target=target,
                seed=SEED,
                workers=2,
            )
            answer = {
                "chosen": [str(part) for part in played.chosen],
                "gpu_hours_spent": float(f"{played.gpu_hours_spent:.6g}"),
                "decisions": played.decisions,
                "trace": [[str(part) for part in mark.chosen[:2]] for mark in played.trace],
            }
            lines.append(f"{json.dumps(f'{name}, {share:.0%}, {policy}')}: {json.dumps(answer)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
