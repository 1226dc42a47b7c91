"""Plans over budgets, pass rates, models and lengths: the first choice, and how far it moves between neighbours.

    python bench/plans.py [--dense]

Prints a table of plans and the largest jump of n along each line of neighbours; `--dense` walks more such lines.
"""

import argparse
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from budgets.errors import BudgetError
from planner.config import build_request, flag_layer, resolve
from planner.proposals import Proposal, propose

BUDGETS = tuple(125 * 2**number for number in range(14))
PASS_RATES = tuple(round(0.05 * number, 2) for number in range(1, 20))
MODELS = ("qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-3b", "qwen2.5-7b", "qwen2.5-14b", "qwen2.5-32b", "qwen2.5-72b")
LENGTHS = (1_024, 2_048, 4_096, 8_192, 16_384, 32_768)
Line = Sequence[dict[str, Any]]


def main() -> None:
    """Print every line of plans, and the jumps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dense", action="store_true", help="also lines between, of which only the jumps are printed")
    dense = parser.parse_args().dense
    for name, line in lines():
        print(f"\n{name}\n{'':>14} {'n':>4} {'B':>4} {'M':>9} {'passes':>7} {'score':>6} {'sd':>5} {'level':>5}")
        walked = [(setting, plan_of(**setting)) for setting in line]
        for setting, proposal in walked:
            print(row(str(list(setting.values())[-1]), proposal))
        print(jumps([proposal for _, proposal in walked]))
    if dense:
        for name, line in dense_lines():
            print(f"{name}: {jumps([plan_of(**setting) for setting in line])}")


def lines() -> Iterator[tuple[str, Line]]:
    """Yield lines of neighbouring plans, each with what it varies last."""
    yield "budget", [{"budget": budget} for budget in BUDGETS]
    yield "pass rate at 5,000", [{"budget": 5_000, "pass_rate": rate} for rate in PASS_RATES]
    yield "model at 20,000", [{"budget": 20_000, "model": model} for model in MODELS]
    yield "length at 20,000", [{"budget": 20_000, "response_tokens": length} for length in LENGTHS]
    yield (
        "budget, qwen2.5-3b, 1,024 tokens, 16 GPUs",
        [{"model": "qwen2.5-3b", "response_tokens": 1_024, "gpus": 16, "budget": budget} for budget in BUDGETS],
    )


def dense_lines() -> Iterator[tuple[str, Line]]:
    """Yield lines by factors of 1.5 in the budget and of 0.05 in the pass rate, over models and lengths."""
    budgets = [300 * 1.5**number for number in range(21)]
    for model, length in itertools.product(MODELS[1:6], (2_048, 8_192, 32_768)):
        for rate in (0.1, 0.45, 0.8):
            given = {"model": model, "response_tokens": length, "pass_rate": rate}
            yield f"budget, {given}", [given | {"budget": budget} for budget in budgets]
        for budget in (2_000, 50_000):
            given = {"model": model, "response_tokens": length, "budget": budget}
            yield f"pass rate, {given}", [given | {"pass_rate": rate} for rate in PASS_RATES]


def plan_of(**given: Any) -> Proposal | None:
    """Return the plan, None where the budget pays for no comparison."""
    keys = {"budget": "budget.gpu_hours", "gpus": "hardware.gpus"}
    flags = {keys.get(name, f"workload.{name}"): (name, value) for name, value in given.items()}
    if given.get("response_tokens", 0) > 30_000:  # Qwen2.5's context is 32,768 with the prompt
        flags["workload.response_tokens"] = ("length", 32_000)
    try:
        return propose(build_request(resolve(flag_layer(flags))))
    except BudgetError:
        return None


def row(name: str, proposal: Proposal | None) -> str:
    """Return the first choice as a line of the table."""
    if proposal is None:
        return f"{name:>14} too small for a comparison"
    first = proposal.candidates[0]
    n, B = first.cell.key
    score = first.cell.expected_score
    level = len(proposal.level)
    return (
        f"{name:>14} {n:>4} {B:>4} {first.cell.allocation.update_steps:>9,} {first.epochs:>7.1f} {score.median:>6.3f} "
        f"{(score.high - score.median) / 1.645:>5.3f} {level:>2}/{len(proposal.candidates)}"
    )


def jumps(line: Sequence[Proposal | None]) -> str:
    """Return the largest step of n between neighbours, what a neighbour's choice costs, and how far scores fall."""
    known = [proposal for proposal in line if proposal is not None]
    pairs = list(itertools.pairwise(known))
    cells = [(a.candidates[0].cell, b.candidates[0].cell) for a, b in pairs]
    octaves = max((abs(math.log2(a.key[0] / b.key[0])) for a, b in cells), default=0.0)
    fall = max((a.expected_score.median - b.expected_score.median for a, b in cells), default=0.0)
    lost = max((_lost(a, b) for a, b in pairs), default=0.0)
    return (
        f"largest step of n: {octaves:g} octaves, which costs {lost:.3f}; largest fall of the expected score: "
        f"{max(0.0, fall):.3f}"
    )


def _lost(plan: Proposal, neighbour: Proposal) -> float:
    """Return what the first row of a plan falls short of its neighbour's, by what the neighbour expects."""
    expected = {each.cell.key: each.cell.expected_score.median for each in neighbour.candidates}
    own = plan.candidates[0].cell.key
    return max(expected.values()) - expected.get(own, max(expected.values()))


if __name__ == "__main__":
    main()
